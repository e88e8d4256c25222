//! One SKU, workers inside of the test's own process, and what can be seen from outside.

use std::collections::BTreeMap;

use lastunit::checkpoint::{self, Held, Point};
use lastunit::config::Settings;
use lastunit::fence::FenceToken;
use lastunit::lease::{Holding, Leases};
use lastunit::ledger::{Change, Ledger};
use lastunit::order::Sku;
use lastunit::plan::StockRow;

use super::workers::Worker;
use crate::support::rabbit::Listener;
use crate::support::verdicts::{expect_recorded, expect_sold_out_letters, verdicts_of};
use crate::support::wait::equal;
use crate::support::{Backend, SOON, Sandbox, Sql, eventually, show_logs};

/// The SKU that everybody wants.
pub const SKU: &str = "SNKR-42";
/// A lease that a test ends by hand: its worker goes on trusting it, and only the fence is left.
const LONG_MS: u64 = 300_000;
/// A lease that ends by itself while its worker is held.
pub const SHORT_LEASE: [(&str, &str); 2] = [("lease.ttl_ms", "3000"), ("lease.safety_margin_ms", "300")];

/// See the module.
pub struct Scene {
    pub sandbox: Sandbox,
    pub sql: Sql,
    ledger: Ledger,
    leases: Leases,
    redis: redis::aio::MultiplexedConnection,
    listener: Listener,
    orders: BTreeMap<String, String>,
    sent: usize,
}

impl Scene {
    /// So many units on the shelf; leases last until a test ends them.
    pub async fn with_units(backend: Backend, units: i64) -> Self {
        Self::with(backend, units, &[]).await
    }

    /// The same with other settings.
    pub async fn with(backend: Backend, units: i64, settings: &[(&str, &str)]) -> Self {
        show_logs();
        let mut sandbox = Sandbox::empty(backend).await;
        // A held worker keeps exactly one message: the next one goes to another worker.
        sandbox.set("broker.prefetch", 1);
        sandbox.set("lease.ttl_ms", LONG_MS);
        // Whoever waits for a lease waits here: an order in a delay queue would be anybody's.
        sandbox.set("lease.wait_ms", LONG_MS);
        settings.iter().for_each(|(key, value)| sandbox.set(key, value));
        sandbox.prepare().await;
        let all = settings_of(&sandbox);
        let ledger = Ledger::connect(&all.database).await.expect("the database");
        let leases = Leases::connect(&all.redis, &all.lease, "observer").await.expect("redis");
        let redis = redis::Client::open(sandbox.get("redis.url")).expect("an address");
        let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(SOON));
        let redis = redis.get_multiplexed_async_connection_with_config(&patient).await.expect("redis");
        let (sql, listener) = (sandbox.sql().await, sandbox.rabbit.listen().await);
        let scene = Self { sandbox, sql, ledger, leases, redis, listener, orders: BTreeMap::new(), sent: 0 };
        scene.change(Change::Set(units)).await;
        scene
    }

    /// A name for a worker; points are known by it in the whole process, so it is this scene's alone.
    pub fn name(&self, short: &str) -> String {
        self.sandbox.rabbit.name(short)
    }

    /// Holds the next arrival of a worker, started or not, at a point.
    pub fn hold(&self, worker: &str, point: Point) -> Held {
        checkpoint::hold(&self.name(worker), point)
    }

    /// Loses the next answer that a worker gets at a point.
    pub fn lose_answer(&self, worker: &str, point: Point) {
        checkpoint::lose_answer(&self.name(worker), point);
    }

    /// Starts a worker, with connections of its own.
    pub async fn worker(&self, short: &str) -> Worker {
        Worker::start(settings_of(&self.sandbox), self.name(short)).await
    }

    /// An order for units of the SKU.
    pub async fn order(&mut self, id: &str, units: u32) {
        let body = format!(r#"{{"order_id":"{id}","sku":"{SKU}","quantity":{units}}}"#);
        self.sandbox.rabbit.send([&body]).await;
        self.orders.insert(id.to_owned(), body);
        self.sent += 1;
    }

    /// Starts a worker, sends it an order and stops it in its tracks.
    pub async fn held(&mut self, worker: &str, point: Point, order: &str, units: u32) -> (Worker, Held) {
        let mut held = self.hold(worker, point);
        let running = self.worker(worker).await;
        self.order(order, units).await;
        arrives(&mut held).await;
        (running, held)
    }

    /// Waits until the order's event was published.
    pub async fn decided(&self, order: &str) {
        eventually(&format!("{order} is decided"), SOON, async || {
            let events = self.listener.events();
            if events.iter().any(|event| event.order_id() == order) { Ok(()) } else { Err("no event") }
        })
        .await;
    }

    /// Waits until every message sent has led to its event.
    pub async fn all_decided(&self) {
        self.listener.wait_for(self.sent, SOON).await;
    }

    /// Whether the order stands in the table.
    pub async fn is_recorded(&self, order: &str) -> bool {
        self.sql.number("count(*)", &format!("reservation where order_id = '{order}'")).await == 1
    }

    /// The SKU's row.
    pub async fn row(&self) -> StockRow {
        self.ledger.stock(Some(&[sku()])).await.expect("stock")[&sku()]
    }

    /// The token under which an order took its units.
    pub async fn token_of(&self, order: &str) -> FenceToken {
        let token = self.sql.number("max(fence_token)", &format!("reservation_line where order_id = '{order}'")).await;
        FenceToken::from_row(token).expect("a token")
    }

    /// The transaction that decided an order.
    pub async fn commit_of(&self, order: &str) -> Vec<String> {
        self.sql.texts("commit_id", &format!("reservation where order_id = '{order}'")).await
    }

    /// Waits until no order waits for a worker.
    pub async fn all_taken(&self) {
        eventually("all are taken", SOON, async || equal(self.sandbox.rabbit.count("orders").await, 0)).await;
    }

    /// Changes the stock behind everybody's back.
    pub async fn change(&self, change: Change) {
        let changes = [(sku(), change)].into();
        self.ledger.change_stock(changes, "test").await.expect("changed").expect("possible");
    }

    /// The lease as it stands.
    pub async fn lease(&self) -> Option<Holding> {
        self.leases.list().await.expect("redis").into_iter().next()
    }

    /// The token of the lease that a worker has.
    pub async fn leased_token(&self, worker: &str) -> FenceToken {
        let lease = self.lease().await.expect("a lease");
        assert_eq!(lease.holder, self.name(worker), "whose lease it is");
        lease.token
    }

    /// Waits until the lease has ended by itself.
    pub async fn lease_ends(&self) {
        eventually("the lease ends", SOON, async || match self.lease().await {
            None => Ok(()),
            Some(lease) => Err(format!("{:?} left", lease.remaining)),
        })
        .await;
    }

    /// Redis forgets the lease, though its holder still trusts it.
    pub async fn lose_lease(&self) {
        assert_eq!(self.redis::<i64>(&["DEL", &self.key("lease")]).await, 1, "there was a lease");
    }

    /// Redis forgets all that it knows of the SKU.
    pub async fn lose_everything(&self) {
        self.redis::<i64>(&["DEL", &self.key("lease"), &self.key("fence")]).await;
    }

    /// Sets the SKU's counter by hand.
    pub async fn set_counter(&self, token: FenceToken) {
        let (epoch, sequence) = (token.epoch().to_string(), token.sequence().to_string());
        self.redis::<i64>(&["HSET", &self.key("fence"), "epoch", &epoch, "sequence", &sequence]).await;
    }

    /// Sends a command to the lease server.
    pub async fn redis<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::Cmd::new();
        command.arg(words);
        command.query_async(&mut self.redis.clone()).await.expect("redis")
    }

    fn key(&self, kind: &str) -> String {
        format!("{}:{{{SKU}}}:{kind}", self.sandbox.get("redis.key_prefix"))
    }

    /// Waits until nobody consumes.
    pub async fn nobody_consumes(&self) {
        eventually("nobody consumes", SOON, async || equal(self.sandbox.rabbit.consumers("orders").await, 0)).await;
    }

    /// Stops the workers and counts: these orders have their units and all others were sold out, each with one decision
    /// and one event per message, nothing else was dead-lettered, and the audit is clean.
    pub async fn ends(self, workers: impl IntoIterator<Item = Worker>, reserved: &[&str]) {
        self.all_decided().await;
        for worker in workers {
            worker.end().await;
        }
        let events = self.listener.events();
        assert_eq!(events.len(), self.sent, "one event per message");
        let verdicts = verdicts_of(&events);
        assert!(verdicts.reserved.iter().eq(reserved), "reserved: {:?}", verdicts.reserved);
        expect_recorded(&self.sql, &verdicts).await;
        expect_sold_out_letters(&self.sandbox, &self.orders, &verdicts.rejected).await;
        assert_eq!(self.sandbox.rabbit.count("orders").await, 0, "no order waits");
        self.sandbox.audit().await;
    }
}

/// Waits until a worker stands at its latch.
pub async fn arrives(held: &mut Held) {
    tokio::time::timeout(SOON, held.arrived()).await.expect("the worker comes to its latch");
}

fn sku() -> Sku {
    Sku::new(SKU).expect("a sku")
}

fn settings_of(sandbox: &Sandbox) -> Settings {
    Settings::load(None, sandbox.env()).expect("settings")
}
