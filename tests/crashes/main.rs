//! A worker process dies, or sleeps over its leases, at every point of a message's life, one point after the other.

#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt as _;

use lastunit::checkpoint::Point;
use support::rabbit::Listener;
use support::verdicts::{expect_recorded, expect_sold_out_letters, verdicts_of};
use support::{Backend, SOON, Sandbox, WorkerProcess, eventually};

const SIGABRT: i32 = 6;
/// Of the orders of a point, for each of its two SKUs; so many units there are.
const ORDERS: usize = 20;
const UNITS: u32 = 7;
/// Messages that a worker holds at most.
const PREFETCH: usize = 10;

struct Scene {
    sandbox: Sandbox,
    listener: Listener,
    orders: BTreeMap<String, String>,
}

impl Scene {
    async fn new() -> Self {
        let mut sandbox = Sandbox::empty(Backend::Postgres).await;
        // Small batches, so that a point is passed in the middle; short leases, so that a dead worker's are soon over.
        for (key, value) in [("batch.max_orders", 5), ("broker.prefetch", PREFETCH as u64), ("lease.ttl_ms", 1_500)] {
            sandbox.set(key, value);
        }
        sandbox.set("lease.safety_margin_ms", 500);
        sandbox.prepare().await;
        let listener = sandbox.rabbit.listen().await;
        Self { sandbox, listener, orders: BTreeMap::new() }
    }

    /// Orders for SKUs that nobody has seen before, so that their counters are unknown to Redis.
    async fn send(&mut self, point: Point) {
        let skus = [format!("{point:?}-A"), format!("{point:?}-B")];
        let rows: String = skus.iter().map(|sku| format!("{sku},{UNITS}\n")).collect();
        let file = self.sandbox.folder().join("stock.csv");
        std::fs::write(&file, format!("sku,available\n{rows}")).expect("a file");
        self.sandbox.run(&["stock", "import", &file.to_string_lossy()]).await.expect_code(0);
        let order = |number: usize| {
            let id = format!("{point:?}-{number:03}");
            let body = format!("{{\"order_id\":  \"{id}\", \"sku\": \"{}\", \"quantity\": 1}}\n", skus[number % 2]);
            (id, body)
        };
        let orders: BTreeMap<_, _> = (0..2 * ORDERS).map(order).collect();
        self.sandbox.rabbit.send(orders.values()).await;
        self.orders.extend(orders);
    }

    /// A worker that the environment asks something of, at a point.
    fn worker(&self, variable: &str, point: Point) -> WorkerProcess {
        // Each new SKU is recovered once; everything else is met again and again.
        let arrival = if matches!(point, Point::BeforeAdvance | Point::BeforeSeed) { 1 } else { 2 };
        let mut command = self.sandbox.command(&["worker"]);
        command.env(variable, format!("{point:?}:{arrival}"));
        self.sandbox.start(command)
    }

    /// Waits until so many orders have their event.
    async fn decided(&self, orders: usize) {
        eventually(&format!("{orders} orders are decided"), SOON, async || {
            let decided: BTreeSet<String> = self.listener.events().iter().map(support::Message::order_id).collect();
            if decided.len() >= orders { Ok(()) } else { Err(format!("{} are", decided.len())) }
        })
        .await;
    }

    /// Counts: promises 1, 4 and 5.
    async fn ends(self, workers: Vec<WorkerProcess>) {
        self.decided(self.orders.len()).await;
        self.sandbox.finish(workers).await;
        let verdicts = verdicts_of(&self.listener.events());
        let sql = self.sandbox.sql().await;
        expect_recorded(&sql, &verdicts).await;
        assert_eq!(verdicts.reserved.len(), Point::ALL.len() * 2 * UNITS as usize, "all units are sold");
        assert!(sql.available().await.values().all(|units| *units == 0), "none is sold twice");
        expect_sold_out_letters(&self.sandbox, &self.orders, &verdicts.rejected).await;
        self.sandbox.audit().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_at_any_point_loses_nothing_and_decides_nothing_twice() {
    let mut scene = Scene::new().await;
    for point in Point::ALL {
        scene.send(point).await;
        let mut worker = scene.worker("LASTUNIT_TEST_KILL", point);
        let status = worker.wait_exit(SOON).await;
        assert_eq!(status.signal(), Some(SIGABRT), "killed at {point:?}");
    }
    let worker = scene.sandbox.worker();
    scene.ends(vec![worker]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_sleeps_over_its_leases_at_any_point_stops_nobody_and_decides_nothing_twice() {
    let mut scene = Scene::new().await;
    for point in Point::ALL {
        let worker = scene.worker("LASTUNIT_TEST_STOP", point);
        scene.send(point).await;
        eventually(&format!("the worker sleeps at {point:?}"), SOON, async || match state_of(&worker) {
            'T' => Ok(()),
            state => Err(state),
        })
        .await;
        // Whatever it does not hold itself is decided by others, under new leases for the same SKUs.
        let others = scene.sandbox.workers(1).await;
        scene.decided(scene.orders.len() - PREFETCH).await;
        worker.cont();
        scene.decided(scene.orders.len()).await;
        worker.end(SOON).await;
        scene.sandbox.finish(others).await;
    }
    scene.ends(Vec::new()).await;
}

/// The kernel's letter for what a process does: T is stopped.
fn state_of(worker: &WorkerProcess) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", worker.pid())).expect("a process");
    // The name before it stands in parentheses, and may hold anything.
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).expect("its state")
}
