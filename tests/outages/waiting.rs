//! An order that must wait stands first when a worker begins, and holds up nobody.

use super::scene::sandbox;
use crate::support::wait::equal;
use crate::support::{Backend, SOON, Sandbox, eventually};

const TTL_MS: u64 = 12_000;
const OTHERS: usize = 40;

/// A worker begins with one message at a time, for fear of a killer. One that only waits for a dead worker's lease is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_waits_for_a_dead_workers_lease_holds_up_nobody() {
    let mut sandbox = sandbox(Backend::Postgres).await;
    sandbox.set("lease.ttl_ms", TTL_MS);
    sandbox.set("lease.wait_ms", TTL_MS * 2);
    sandbox.set("database.statement_timeout_ms", 60_000);
    sandbox.stock("HELD-1", 10).await;
    let sql = sandbox.sql().await;
    let listener = sandbox.rabbit.listen().await;
    // A worker dies with a lease in its hand: its commit waits for a row that somebody has. Redis knows the SKU already, or
    // the recovery of its counter would wait for the row.
    let mut dying = sandbox.workers(1).await;
    let order = |id: &str, sku: &str| format!(r#"{{"order_id": "{id}", "sku": "{sku}", "quantity": 1}}"#);
    sandbox.rabbit.send([order("A-FIRST", "HELD-1")]).await;
    listener.wait_for(1, SOON).await;
    eventually("its lease is given back", SOON, async || equal(has_lease(&sandbox).await, false)).await;
    let lock = sql.lock_row("HELD-1").await;
    sandbox.rabbit.send([order("A-WAITS", "HELD-1")]).await;
    eventually("it has the lease", SOON, async || equal(has_lease(&sandbox).await, true)).await;
    assert!(!dying.remove(0).kill().success());
    lock.rollback().await.expect("unlocked");

    let others = (0..OTHERS).map(|number| order(&format!("B-{number}"), super::scene::SKU));
    sandbox.rabbit.send(others).await;
    // Not counted as a consumer first: the broker takes its time to say so, and the lease would end meanwhile.
    let worker = sandbox.worker();
    let events = listener.wait_for(OTHERS + 1, SOON).await;
    assert!(events.iter().all(|event| event.order_id() != "A-WAITS"), "the others did not wait for the lease to end");
    listener.wait_for(OTHERS + 2, SOON).await;
    sandbox.finish(vec![worker]).await;
    assert_eq!(sql.number("count(*)", "reservation where outcome = 'reserved'").await, OTHERS as i64 + 2);
    assert_eq!(sandbox.rabbit.count("dead.lost-race").await, 0);
    sandbox.audit().await;
}

async fn has_lease(sandbox: &Sandbox) -> bool {
    sandbox.run(&["leases", "--json"]).await.expect_code(0).stdout.contains("HELD-1")
}
