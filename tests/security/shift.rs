//! One worker's work from end to end, such that it needs all the rights that a worker needs.

use lastunit::config::Settings;
use lastunit::fence::Epoch;
use lastunit::lease::{Attempt, Leases, Reply, Request, Seed};
use lastunit::order::Sku;

use crate::support::verdicts::verdicts_of;
use crate::support::wait::equal;
use crate::support::{Rabbit, SOON, Sandbox, WorkerProcess, eventually};

const SKU: &str = "SNKR-42";
const UNITS: u32 = 3;
/// Somebody else holds its lease, so that its order goes through the delay queues.
const HELD: &str = "HELD";

/// Puts on the shelf what [`work`] sells; needs more rights than a worker has.
pub async fn prepare(sandbox: &mut Sandbox) {
    sandbox.stock(SKU, UNITS).await;
    sandbox.stock(HELD, 0).await;
    sandbox.set("lease.wait_ms", 200);
    sandbox.set("lease.ttl_ms", 2_000);
    sandbox.set("lease.safety_margin_ms", 500);
    // Two at a time: orders of one SKU take several batches, and the fence of its row moves on.
    sandbox.set("batch.max_orders", 2);
}

/// Clients with rights of their own, where that matters.
pub struct Roles {
    pub sender: Rabbit,
    pub reader: Rabbit,
}

/// A race, a duplicate, a held lease, an unknown SKU and a body that is no order: every way out of a worker. Returns the
/// log of the worker, which has finished.
pub async fn work(sandbox: &Sandbox) -> String {
    work_among(sandbox, None).await
}

/// The same with clients of their own who send the orders and read the events.
pub async fn work_among(sandbox: &Sandbox, roles: Option<&Roles>) -> String {
    hold(sandbox).await;
    let (sender, reader) = roles.map_or((&sandbox.rabbit, &sandbox.rabbit), |roles| (&roles.sender, &roles.reader));
    let listener = reader.listen().await;
    let worker = sandbox.workers(1).await;
    let order = |id: &str, sku: &str| format!(r#"{{"order_id": "{id}", "sku": "{sku}", "quantity": 1}}"#);
    let mut bodies: Vec<_> = (0..8).map(|number| order(&format!("A-{number}"), SKU)).collect();
    bodies.extend([order("H-1", HELD), order("U-1", "NOWHERE"), "no order".to_owned()]);
    sender.send(&bodies).await;
    // All but the last have an event.
    listener.wait_for(bodies.len() - 1, SOON).await;
    sender.send([&bodies[0]]).await;
    let events = listener.wait_for(bodies.len(), SOON).await;
    let verdicts = verdicts_of(&events);
    assert_eq!((verdicts.reserved.len(), verdicts.rejected.len()), (UNITS as usize, bodies.len() - 1 - UNITS as usize));
    eventually("dead letters", SOON, async || {
        let invalid = sandbox.rabbit.count("dead.invalid").await;
        equal((sandbox.rabbit.count("dead.lost-race").await >= 6, invalid), (true, 2))
    })
    .await;
    let lost = sandbox.rabbit.drain("dead.lost-race").await;
    let delayed = lost.iter().find(|letter| letter.json()["order_id"] == "H-1").expect("the order for a held SKU");
    assert!(delayed.header("lastunit-attempts").is_some(), "it went through a delay queue: {delayed:?}");
    assert_eq!(sandbox.rabbit.count("dead.failed").await, 0);
    let log = worker.iter().map(WorkerProcess::printed).collect();
    sandbox.finish(worker).await;
    log
}

/// Takes a lease as another worker would, and never gives it back.
async fn hold(sandbox: &Sandbox) {
    let settings = Settings::load(None, sandbox.env()).expect("settings");
    let leases = Leases::connect(&settings.redis, &settings.lease, "somebody").await.expect("leases");
    let sku = Sku::new(HELD).expect("a sku");
    let epoch = Epoch::new(1).expect("an epoch");
    let request = [Request { sku: sku.clone(), previous: None, floor: epoch.floor() }];
    let attempt = Attempt::new();
    let unknown = leases.acquire(attempt, &request).await.expect("an answer").remove(0);
    let Reply::Unknown { incarnation, .. } = unknown else { panic!("a SKU never seen is {unknown:?}") };
    leases.seed(&[Seed { sku, incarnation, epoch }]).await.expect("seeded");
    let granted = leases.acquire(attempt, &request).await.expect("an answer").remove(0);
    assert!(matches!(granted, Reply::Granted(_)), "{granted:?}");
}
