//! A dead-letter queue that is missing: a message nobody would get is not let go.

use std::time::{Duration, Instant};

use super::scene::sandbox;
use crate::support::verdicts::{expect_recorded, expect_sold_out_letters, orders_for, verdicts_of};
use crate::support::wait::equal;
use crate::support::{Backend, SOON, eventually};

const UNITS: u32 = 3;
const ORDERS: usize = 12;
/// Far less than `shutdown.grace_ms`.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_dead_letter_queue_nothing_is_acknowledged_and_a_stop_is_as_quick_as_ever() {
    let sandbox = sandbox(Backend::Postgres).await;
    sandbox.stock("LAST-1", UNITS).await;
    let listener = sandbox.rabbit.listen().await;
    let mut workers = sandbox.workers(1).await;
    sandbox.rabbit.delete(&[], &["dead.lost-race".to_owned()]).await.expect("deleted");
    let orders = orders_for(&["LAST-1"], ORDERS);
    sandbox.rabbit.send(orders.values()).await;
    let mut worker = workers.remove(0);
    eventually("it tries in vain", SOON, async || {
        let decided = verdicts_of(&listener.events()).rejected.len();
        let tries = worker.printed().matches("outcomes could not be published").count();
        if decided > 0 && tries > 1 { Ok(()) } else { Err(format!("{decided} rejected, {tries} tries")) }
    })
    .await;
    let asked = Instant::now();
    worker.terminate();
    let status = worker.wait_exit(SOON).await;
    assert!(status.success(), "{status}\n{}", worker.printed());
    assert!(asked.elapsed() < STOPS_WITHIN, "it took {:?}", asked.elapsed());
    let lost = ORDERS - UNITS as usize;
    eventually("every order that lost waits in the queue again", SOON, async || {
        let waiting = sandbox.rabbit.count("orders").await as usize;
        if waiting >= lost { Ok(()) } else { Err(waiting) }
    })
    .await;

    sandbox.run(&["topology"]).await.expect_code(0);
    let workers = sandbox.workers(1).await;
    eventually("all is decided", SOON, async || {
        let verdicts = verdicts_of(&listener.events());
        equal(verdicts.reserved.len() + verdicts.rejected.len(), ORDERS)
    })
    .await;
    let verdicts = verdicts_of(&listener.events());
    expect_sold_out_letters(&sandbox, &orders, &verdicts.rejected).await;
    sandbox.finish(workers).await;
    expect_recorded(&sandbox.sql().await, &verdicts).await;
    sandbox.audit().await;
}

/// Orders are collected while others wait to be published, but not behind one that cannot be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_cannot_be_published_holds_up_no_other_order() {
    let mut sandbox = sandbox(Backend::Postgres).await;
    sandbox.set("batch.max_orders", 2);
    sandbox.stock("GONE-1", 0).await;
    sandbox.stock("SHELF-1", 9).await;
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(1).await;
    let order = |id: &str, sku: &str| format!(r#"{{"order_id":"{id}","sku":"{sku}","quantity":1}}"#);
    sandbox.rabbit.send([order("A-1", "SHELF-1")]).await;
    listener.wait_for(1, SOON).await;
    sandbox.rabbit.delete(&[], &["dead.lost-race".to_owned()]).await.expect("deleted");
    for (sent, (id, sku)) in (2..).zip([("A-2", "GONE-1"), ("A-3", "SHELF-1"), ("A-4", "SHELF-1")]) {
        sandbox.rabbit.send([order(id, sku)]).await;
        listener.wait_for(sent, SOON).await;
    }
    sandbox.run(&["topology"]).await.expect_code(0);
    eventually("its dead letter comes after all", SOON, async || {
        equal(sandbox.rabbit.count("dead.lost-race").await, 1)
    })
    .await;
    sandbox.finish(workers).await;
    sandbox.audit().await;
}
