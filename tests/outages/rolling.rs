//! Workers are replaced one after the other, as a deployment does, while orders come in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::interval;

use crate::support::rabbit::Listener;
use crate::support::verdicts::{expect_recorded, verdicts_of};
use crate::support::wait::equal;
use crate::support::{Backend, Rabbit, SOON, Sandbox, eventually};

/// Between two outcomes, whoever is being replaced.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const SKUS: [&str; 4] = ["SNKR-42", "LACE-7", "85123A", "85123a"];

/// A shop that sends some orders fifty times a second until it is told to stop.
struct Shop {
    stop: Arc<AtomicBool>,
    task: JoinHandle<BTreeMap<String, String>>,
}

impl Shop {
    fn open(rabbit: Rabbit) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut sent = BTreeMap::new();
            let mut tick = interval(Duration::from_millis(20));
            for number in 0_usize.. {
                tick.tick().await;
                let id = format!("A-{number:05}");
                let body = format!(r#"{{"order_id": "{id}", "sku": "{}", "quantity": 1}}"#, SKUS[number % SKUS.len()]);
                rabbit.send([body.clone()]).await;
                sent.insert(id, body);
                if told.load(Ordering::Relaxed) {
                    break;
                }
            }
            sent
        });
        Self { stop, task }
    }

    async fn close(self) -> BTreeMap<String, String> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("no panic")
    }
}

/// The longest time without an outcome until `until` is true.
async fn longest_pause(listener: &Listener, until: impl Fn() -> bool) -> Duration {
    let (mut longest, mut seen, mut since) = (Duration::ZERO, listener.len(), Instant::now());
    let mut look = interval(Duration::from_millis(10));
    while !until() {
        look.tick().await;
        let now = listener.len();
        longest = longest.max(since.elapsed());
        if now > seen {
            (seen, since) = (now, Instant::now());
        }
    }
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_rolling_restart_pauses_outcomes_for_less_than_two_seconds_and_decides_each_order_once() {
    let sandbox = Sandbox::ready(Backend::Postgres).await;
    for sku in SKUS {
        sandbox.stock(sku, 100_000).await;
    }
    let listener = sandbox.rabbit.listen().await;
    let mut workers = sandbox.workers(3).await;
    let shop = Shop::open(Rabbit::connect(sandbox.get("broker.url"), sandbox.get("broker.name_prefix")).await);
    listener.wait_for(50, SOON).await;
    let done = AtomicBool::new(false);
    let rolling = async {
        for _ in 0..3 {
            workers.remove(0).end(SOON).await;
            workers.push(sandbox.worker());
            let rabbit = &sandbox.rabbit;
            eventually("the new one consumes", SOON, async || equal(rabbit.consumers("orders").await, 3)).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    let ((), pause) = tokio::join!(rolling, longest_pause(&listener, || done.load(Ordering::Relaxed)));
    let orders = shop.close().await;
    eventually("all is decided", SOON, async || equal(verdicts_of(&listener.events()).reserved.len(), orders.len()))
        .await;
    sandbox.finish(workers).await;
    let verdicts = verdicts_of(&listener.events());
    expect_recorded(&sandbox.sql().await, &verdicts).await;
    for queue in ["dead.lost-race", "dead.invalid", "dead.failed", "retry.200", "retry.1000"] {
        assert_eq!(sandbox.rabbit.count(queue).await, 0, "nothing is in {queue}");
    }
    sandbox.audit().await;
    assert!(pause < LONGEST_PAUSE, "no outcome for {pause:?}");
}
