//! Workers inside of the test's own process, where they can be held.

use std::sync::Arc;

use lastunit::broker::Publisher;
use lastunit::config::Settings;
use lastunit::lease::Leases;
use lastunit::ledger::Ledger;
use lastunit::worker::{self, Parts};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::SOON;

/// A worker in this process.
pub struct Worker {
    name: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), worker::Error>>,
}

impl Worker {
    /// Starts one, with connections of its own.
    pub async fn start(settings: Settings, name: String) -> Self {
        let parts = Parts {
            ledger: Ledger::connect(&settings.database).await.expect("the database"),
            leases: Leases::connect(&settings.redis, &settings.lease, &name).await.expect("redis"),
            publisher: Publisher::connect(&settings.broker).await.expect("the broker"),
            holder: name.clone(),
            health: Arc::default(),
            metrics: Arc::default(),
            settings,
        };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(worker::run(parts, async { drop(stopped.await) }));
        Self { name, stop, task }
    }

    /// Asks it to stop and does not wait for it.
    pub fn stop(self) -> JoinHandle<Result<(), worker::Error>> {
        self.stop.send(()).expect("it runs");
        self.task
    }

    /// Stops it in good order.
    pub async fn end(self) {
        let name = self.name.clone();
        ended(&name, self.stop()).await;
    }
}

/// A worker that was asked to stop has done so in good order.
pub async fn ended(name: &str, task: JoinHandle<Result<(), worker::Error>>) {
    let ended = tokio::time::timeout(SOON, task).await.unwrap_or_else(|_| panic!("{name} does not end"));
    ended.expect("no panic").unwrap_or_else(|error| panic!("{name}: {error}"));
}
