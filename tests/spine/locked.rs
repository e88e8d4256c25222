//! One SKU's row is locked by somebody else: its orders wait, and no others.

use std::time::Duration;

use crate::support::wait::equal;
use crate::support::{Backend, SOON, Sandbox, eventually};

/// Orders for other SKUs, each with one for the locked one behind it.
const OTHERS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_for_other_skus_are_decided_while_a_row_is_locked() {
    let mut sandbox = Sandbox::empty(Backend::Postgres).await;
    sandbox.set("database.statement_timeout_ms", 60_000);
    sandbox.set("batch.max_orders", 4);
    sandbox.prepare().await;
    for sku in ["L", "X0", "X1", "X2", "X3"] {
        sandbox.stock(sku, 1_000).await;
    }
    let order = |id: &str, sku: &str| format!(r#"{{"order_id":"{id}","sku":"{sku}","quantity":1}}"#);
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(1).await;
    sandbox.rabbit.send([order("first", "L")]).await;
    listener.wait_for(1, SOON).await;

    let (locking, sql) = (sandbox.sql().await, sandbox.sql().await);
    let lock = locking.lock_row("L").await;
    sandbox.rabbit.send([order("locked", "L")]).await;
    eventually("the worker waits for the row", SOON, async || {
        let waiting = "pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
        equal(sql.number("count(*)", waiting).await, 1)
    })
    .await;
    for n in 0..OTHERS {
        let [other, behind] =
            [order(&format!("other-{n}"), &format!("X{}", n % 4)), order(&format!("behind-{n}"), "L")];
        sandbox.rabbit.send([other, behind]).await;
    }
    eventually("all others are decided", Duration::from_secs(20), async || {
        equal(listener.events().iter().filter(|event| event.order_id().starts_with("other")).count(), OTHERS)
    })
    .await;
    assert_eq!(listener.events().len(), 1 + OTHERS, "the row is locked still");
    lock.rollback().await.expect("unlocked");
    listener.wait_for(2 + 2 * OTHERS, SOON).await;
    sandbox.finish(workers).await;
    sandbox.audit().await;
}
