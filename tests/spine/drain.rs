//! A worker that is told to stop in the middle of its work.

use crate::on_each_backend;
use crate::support::verdicts::{expect_recorded, expect_sold_out_letters, orders_for, verdicts_of};
use crate::support::wait::equal;
use crate::support::{Backend, SOON, Sandbox, WorkerProcess, eventually};

const ORDERS: usize = 5_000;
const UNITS: u32 = 700;
const PREFETCH: i64 = 100;

on_each_backend!(orders_survive_a_stop_in_the_middle);

async fn orders_survive_a_stop_in_the_middle(backend: Backend) {
    stopped_by(backend, WorkerProcess::terminate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_stops_in_good_order_as_well() {
    stopped_by(Backend::Sqlite, WorkerProcess::interrupt).await;
}

async fn stopped_by(backend: Backend, signal: fn(&WorkerProcess)) {
    let mut sandbox = Sandbox::ready(backend).await;
    // Small batches: the signal comes while most of the orders are still to be decided.
    sandbox.set("batch.max_orders", 10);
    sandbox.set("broker.prefetch", PREFETCH);
    sandbox.stock("SNKR-42", UNITS).await;
    let listener = sandbox.rabbit.listen().await;
    let orders = orders_for(&["SNKR-42"], ORDERS);
    sandbox.rabbit.send(orders.values()).await;
    let mut worker = sandbox.worker();
    listener.wait_for(UNITS as usize / 2, SOON).await;
    signal(&worker);
    let status = worker.wait_exit(SOON).await;
    assert!(status.success(), "a stop in good order is no failure: {status}\n{}", worker.printed());
    let decided = sandbox.sql().await.number("count(*)", "reservation").await;
    assert!((1..ORDERS as i64).contains(&decided), "the stop came in the middle, not after {decided} decisions");
    // RabbitMQ 4.3 counts what a closed channel gave back a moment later, and may not have heard the last acknowledgements.
    let all = ORDERS as i64;
    eventually("what is not decided waits in the queue", SOON, async || {
        let found = i64::from(sandbox.rabbit.count("orders").await) + decided;
        if (all..=all + PREFETCH).contains(&found) { Ok(()) } else { Err(format!("{found} of {all}")) }
    })
    .await;

    sandbox.set("batch.max_orders", 500);
    sandbox.set("broker.prefetch", 2_000);
    let workers = vec![sandbox.worker()];
    listener.wait_for(ORDERS, SOON).await;
    let sql = sandbox.sql().await;
    // Events may have come twice.
    eventually("all are decided", SOON, async || equal(sql.number("count(*)", "reservation").await, all)).await;
    sandbox.finish(workers).await;
    let verdicts = verdicts_of(&listener.events());
    assert_eq!(verdicts.reserved.len(), UNITS as usize);
    expect_recorded(&sql, &verdicts).await;
    assert_eq!(sql.number("count(*)", "reservation").await, ORDERS as i64);
    assert_eq!(sql.available().await["SNKR-42"], 0);
    expect_sold_out_letters(&sandbox, &orders, &verdicts.rejected).await;
    sandbox.audit().await;
}
