//! The worker: takes orders in, puts them together into batches, and keeps going.
//!
//! [`run`] is the whole of it: one loop that owns the waiting orders ([`waiting`]) and starts a task per batch when it is time for one (`pace`). A batch
//! (`batch`) takes leases (`leasing`), decides and commits; then its SKUs are free for the next one, while the same
//! task publishes and acknowledges (`settle`).

mod batch;
mod context;
mod decision;
mod dispatch;
mod idle;
mod intake;
mod leasing;
mod outage;
mod overdue;
mod pace;
mod settle;
mod standing;
mod succession;
pub mod waiting;

use std::future::Future;
use std::sync::Arc;

pub use context::Trouble;

use crate::broker::{self, Consumer, Publisher};
use crate::config::Settings;
use crate::health::Health;
use crate::lease::Leases;
use crate::ledger::Ledger;
use crate::telemetry::Metrics;

/// What a worker is made of: settings and open connections.
#[derive(Debug)]
pub struct Parts {
    /// All settings.
    pub settings: Settings,
    /// The database.
    pub ledger: Ledger,
    /// Redis.
    pub leases: Leases,
    /// The publishing side of the broker.
    pub publisher: Publisher,
    /// This worker's name, in leases and logs.
    pub holder: String,
    /// What it tells about itself.
    pub health: Arc<Health>,
    /// What it counts and measures.
    pub metrics: Arc<Metrics>,
}

/// Why a worker ended other than by its shutdown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not begin to consume.
    #[error("the worker cannot consume")]
    Broker(#[from] broker::Error),
    /// A task panicked, which is a bug: the messages go back to the queue, and the process should be started anew.
    #[error("a task of the worker panicked: {0}")]
    Panicked(String),
    /// The time for finishing was over; what was left goes back to the queue.
    #[error("the time for finishing was over; orders still in work go back to the queue (batches: {0})")]
    Unfinished(usize),
}

/// Works until `shutdown`; then takes nothing new, finishes what is in flight and gives the rest back.
///
/// # Errors
/// See [`Error`].
pub async fn run(parts: Parts, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    let consumer = Consumer::start(&parts.settings.broker, &parts.settings.retry).await?;
    tracing::info!("taking orders");
    standing::begin(&parts.health, consumer.subscription.clone());
    dispatch::Dispatcher::new(parts, consumer).run(shutdown).await
}
