//! Some hundred orders for a few SKUs, more than there are units, and workers that race for them.

use std::collections::BTreeMap;

use crate::support::rabbit::Listener;
use crate::support::verdicts::{expect_recorded, expect_sold_out_letters, orders_for, verdicts_of};
use crate::support::{Backend, SOON, Sandbox, WorkerProcess};

pub const SKUS: [&str; 6] = ["SNKR-42", "LACE-7", "85123A", "85123a", "85123a ", "{a}:b"];
const UNITS: u32 = 100;
const ORDERS: usize = 1_200;
/// What a token is made of: its epoch stands above these bits.
const SEQUENCE_VALUES: i64 = 1 << 40;

/// See the module.
pub struct Rush {
    pub sandbox: Sandbox,
    listener: Listener,
    orders: BTreeMap<String, String>,
    workers: Vec<WorkerProcess>,
}

impl Rush {
    /// Everything is ready; nobody works yet.
    pub async fn on(redis_url: &str) -> Self {
        let mut sandbox = Sandbox::empty(Backend::Postgres).await;
        sandbox.set("redis.url", redis_url);
        // Small batches, so that a loss comes in the middle; short leases, so that a crashed server's are soon over.
        sandbox.set("batch.max_orders", 5);
        sandbox.set("broker.prefetch", 30);
        sandbox.set("lease.ttl_ms", 2_000);
        sandbox.set("lease.safety_margin_ms", 500);
        sandbox.prepare().await;
        for sku in SKUS {
            sandbox.stock(sku, UNITS).await;
        }
        let listener = sandbox.rabbit.listen().await;
        Self { sandbox, listener, orders: orders_for(&SKUS, ORDERS), workers: Vec::new() }
    }

    /// So many workers start, and the orders come.
    pub async fn begin(&mut self, workers: u32) {
        self.join(workers).await;
        self.sandbox.rabbit.send(self.orders.values()).await;
    }

    /// More workers, attached to wherever `redis.url` says now.
    pub async fn join(&mut self, workers: u32) {
        self.workers.extend(self.sandbox.workers(workers).await);
    }

    /// Waits until so many tenths of the orders are decided: what comes next comes in the middle.
    pub async fn tenths(&self, tenths: usize) {
        let events = self.listener.wait_for(ORDERS * tenths / 10, SOON).await;
        assert!(events.len() < ORDERS, "all orders were decided before the loss");
    }

    /// The highest epoch of all SKUs: each recovery adds one.
    pub async fn epoch(&self) -> i64 {
        self.sandbox.sql().await.number(&format!("max(fence_token) / {SEQUENCE_VALUES}"), "stock").await
    }

    /// Waits for all orders and counts: promises 1, 4 and 5, and at least so many recoveries of some SKU. Returns how
    /// often the fence refused a token.
    pub async fn ends(mut self, recoveries: i64) -> usize {
        self.listener.wait_for(ORDERS, SOON).await;
        let refusals = |worker: &WorkerProcess| worker.printed().matches("the fence refused a stale token").count();
        let refusals = self.workers.iter().map(refusals).sum();
        self.sandbox.finish(std::mem::take(&mut self.workers)).await;
        let verdicts = verdicts_of(&self.listener.events());
        assert_eq!(verdicts.reserved.len(), UNITS as usize * SKUS.len(), "all units are sold");
        assert_eq!(verdicts.reserved.len() + verdicts.rejected.len(), ORDERS, "every order is decided");
        let sql = self.sandbox.sql().await;
        expect_recorded(&sql, &verdicts).await;
        assert!(sql.available().await.values().all(|units| *units == 0), "none is sold twice");
        expect_sold_out_letters(&self.sandbox, &self.orders, &verdicts.rejected).await;
        self.sandbox.audit().await;
        // The first use of a SKU is the first recovery.
        let epoch = self.epoch().await;
        assert!(epoch > recoveries, "the losses were met: epoch {epoch} after {recoveries}");
        refusals
    }
}
