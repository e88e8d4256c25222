//! The real program on servers of the suite's own, while a shop sends orders: workers are killed, stopped and told to
//! end, servers crash and forget, links are cut, slow or dead without a word, about once a second. In the end everything
//! that came in is counted.
//!
//! `LASTUNIT_CHAOS_SECONDS` is how long (`make chaos SECONDS=1800`), `LASTUNIT_CHAOS_SEED` repeats a plan, `LASTUNIT_BIN`
//! names the program to test.

#[path = "../support/mod.rs"]
mod support;

mod amqp;
mod count;
mod crew;
mod figures;
mod health;
mod load;
mod orders;
mod plan;
mod random;
mod ready;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use figures::Figures;
use futures_util::future::join_all;
use health::Health;
use load::{Load, RATE};
use support::{SOON, Sandbox, eventually, setting};
use tokio::task::JoinSet;
use world::World;

/// How long a worker may take to be ready once all faults are gone.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// About as long as a round.
const ROUND: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_and_nothing_decided_twice_whatever_fails() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs().to_string();
    let seed: u64 = setting("LASTUNIT_CHAOS_SEED", &now).parse().expect("LASTUNIT_CHAOS_SEED is a number");
    // One round.
    let seconds: u64 = setting("LASTUNIT_CHAOS_SECONDS", "1").parse().expect("LASTUNIT_CHAOS_SECONDS is a number");
    println!("LASTUNIT_CHAOS_SEED={seed} repeats this plan");
    tokio::select! {
        figures = run(seed, Duration::from_secs(seconds)) => println!("\n{figures}"),
        // Unwinding takes the servers down.
        _ = tokio::signal::ctrl_c() => panic!("interrupted"),
    }
}

/// Shows the workers' logs when a run fails: whoever drops the sandbox last may be another thread, which does not know.
struct Witness(Weak<Sandbox>);

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(sandbox) = self.0.upgrade().filter(|_| std::thread::panicking()) {
            sandbox.print_logs();
        }
    }
}

async fn run(seed: u64, wanted: Duration) -> Figures {
    let mut world = World::start().await;
    let _witness = Witness(Arc::downgrade(&world.sandbox));
    // A round at least; what comes after that is sold out.
    let expected = wanted.max(ROUND).as_secs() * RATE;
    stock(&world, seed, expected).await;
    world.open().await;
    let (world, health) = (Arc::new(world), Arc::new(Health::new(READY_WITHIN)));
    let watching =
        [tokio::spawn(supervise(Arc::clone(&world))), tokio::spawn(watch(Arc::clone(&world), Arc::clone(&health)))];
    let exchange = world.sandbox.rabbit.name("orders");
    let load = Load::start(world.sandbox.get("broker.url"), exchange, seed);
    let (start, mut faults) = (Instant::now(), BTreeMap::new());
    for number in 0.. {
        round(&world, &health, seed, number, &mut faults).await;
        if start.elapsed() >= wanted {
            break;
        }
    }
    let (lasted, sent) = (start.elapsed(), load.end().await);
    let orders = count::sent_orders(seed, sent);
    count::wait_for_decisions(&world.sandbox, &orders).await;
    for task in watching {
        task.abort();
        assert!(task.await.is_err_and(|ended| ended.is_cancelled()), "watching never ends by itself");
    }
    let mut world = Arc::into_inner(world).expect("nobody else has it");
    let mut exits = BTreeMap::new();
    for worker in world.workers.drain(..) {
        for (status, count) in worker.end(SOON).await {
            *exits.entry(status).or_default() += count;
        }
    }
    let redelivered = world.redelivered().await;
    let outcome = count::count(&world.sandbox, &orders).await;
    let longest = health.longest();
    let figures =
        Figures::new((seed, lasted, sent), outcome, faults, redelivered, exits, longest, world.sandbox.folder());
    assert!(figures.outcome.reserved > 0 && figures.outcome.sold_out > 0, "a race");
    assert!(figures.redelivered > 0 && figures.recoveries() > 0, "the faults were felt\n{figures}");
    figures
}

/// Puts on the shelf what the plan of orders wants sold.
async fn stock(world: &World, seed: u64, expected: u64) {
    let rows = orders::stock(seed, expected).into_iter().map(|(sku, units)| format!("{sku},{units}\n"));
    let file = world.sandbox.folder().join("stock.csv");
    std::fs::write(&file, format!("sku,available\n{}", rows.collect::<String>())).expect("a file");
    world.sandbox.run(&["stock", "import", &file.to_string_lossy()]).await.expect_code(0);
}

/// The faults of one round, and then a moment of calm in which everybody becomes ready.
async fn round(world: &Arc<World>, health: &Arc<Health>, seed: u64, number: u64, faults: &mut BTreeMap<String, u64>) {
    println!("round {number}");
    let (start, mut tasks) = (tokio::time::Instant::now(), JoinSet::new());
    for fault in plan::round(seed, number) {
        tokio::time::sleep_until(start + fault.at).await;
        println!("{fault}");
        *faults.entry(fault.kind.label()).or_insert(0) += 1;
        let (world, health) = (Arc::clone(world), Arc::clone(health));
        health.begin(fault.kind);
        tasks.spawn(async move {
            world.suffer(fault).await;
            health.end(fault.kind);
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("a fault that could be made");
    }
    let calm = Instant::now();
    eventually("all workers are ready", READY_WITHIN * 2, async || health.is_well()).await;
    println!("all faults gone, all workers ready after {:.2} s", calm.elapsed().as_secs_f64());
}

/// Starts workers again that have ended.
async fn supervise(world: Arc<World>) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        look.tick().await;
        world.workers.iter().for_each(crew::Worker::supervise);
    }
}

/// Asks the workers whether they are ready.
async fn watch(world: Arc<World>, health: Arc<Health>) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        look.tick().await;
        let asked = Instant::now();
        let ready = join_all(world.workers.iter().map(|worker| ready::is_ready(worker.admin_port()))).await;
        ready.into_iter().zip(0..).for_each(|(ready, worker)| health.seen(worker, ready, asked));
    }
}
