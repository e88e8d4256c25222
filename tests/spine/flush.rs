//! Redis forgets everything while orders race.

use crate::on_each_backend;
use crate::support::verdicts::{expect_recorded, expect_sold_out_letters, orders_for, verdicts_of};
use crate::support::{Backend, RedisServer, SOON, Sandbox};

const SKUS: [&str; 3] = ["SNKR-42", "LACE-7", "85123a "];
const ORDERS: usize = 3_000;
const UNITS: u32 = 600;

on_each_backend!(a_flush_in_the_middle_loses_and_oversells_nothing);

async fn a_flush_in_the_middle_loses_and_oversells_nothing(backend: Backend) {
    let server = RedisServer::start(&[]);
    let mut sandbox = Sandbox::empty(backend).await;
    sandbox.set("redis.url", server.url());
    // Small batches, so that the flushes come in the middle; short leases, so that a lost one is soon over.
    sandbox.set("batch.max_orders", 20);
    sandbox.set("broker.prefetch", 100);
    sandbox.prepare().await;
    for sku in SKUS {
        sandbox.stock(sku, UNITS).await;
    }
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(3).await;
    let orders = orders_for(&SKUS, ORDERS);
    sandbox.rabbit.send(orders.values()).await;
    for tenth in 1..=3 {
        let events = listener.wait_for(ORDERS * tenth / 10, SOON).await;
        assert!(events.len() < ORDERS, "the flush came in the middle");
        server.command::<()>(&["FLUSHALL"]).await;
    }
    listener.wait_for(ORDERS, SOON).await;
    sandbox.finish(workers).await;

    let verdicts = verdicts_of(&listener.events());
    assert_eq!(verdicts.reserved.len(), UNITS as usize * SKUS.len());
    let sql = sandbox.sql().await;
    expect_recorded(&sql, &verdicts).await;
    assert!(sql.available().await.values().all(|units| *units == 0));
    expect_sold_out_letters(&sandbox, &orders, &verdicts.rejected).await;
    sandbox.audit().await;
}
