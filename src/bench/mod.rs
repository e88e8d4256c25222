//! `lastunit bench`: throughput and latency beside two baselines, in one run, on the configured services.
//!
//! Every contender is a process of its own (or three), started from this program, so that its CPU time and memory are its
//! alone. Every measurement is the same: the orders wait in the queue; the contender is started; outcome events are
//! counted as a subscriber sees them, from the first tenth (warm-up) to the ninth. Then the contender, with nothing left to
//! do, is given 200 orders a second, each at its time whatever became of those before, and each order's time to its event is
//! taken. Contenders take turns, round by round, and ratios are taken within a round: what else the machine does meets all.
//!
//! Whether cost grows with what lies around is measured the same way, with old reservations in the tables ([`Plan::history`])
//! and orders in the queue that are not waited for ([`Plan::backlog`]).
//!
//! | file | holds |
//! | --- | --- |
//! | `workload`, `contender` | what is ordered, who decides it |
//! | `place`, `database` | names and a database of its own, taken away at the end, after Ctrl-C too |
//! | `measure`, `light`, `listener`, `process` | one measurement: full load, light load, events, CPU and memory |
//! | `report` | medians, spread, ratios |
//! | `baseline` | the contenders that are not lastunit |

pub mod baseline;
mod contender;
mod database;
mod light;
mod listener;
mod measure;
mod place;
mod process;
mod report;
mod workload;

use std::future::Future;
use std::time::Duration;

pub use contender::Contender;
pub use report::Report;
pub use workload::Workload;

use crate::config::Settings;
use crate::demo::crew::Crew;
use crate::{broker, demo, lease, ledger};
use measure::Session;
use place::Place;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Orders of one measurement; fewer where each is more work.
    pub orders: u32,
    /// Measurements of each contender under each workload.
    pub repeat: u32,
    /// How long the light load lasts each time.
    pub light: Duration,
    /// Reservations in the tables before anything is measured, at least.
    pub history: u32,
    /// Orders that wait in the queue behind those that are measured, and are not waited for: some are decided all the same
    /// before the contender is stopped, and count for batches and commits. Without a light load only.
    pub backlog: u32,
    /// Smallest size of an order's message, bytes.
    pub order_bytes: usize,
    /// Whether order ids are random, as UUIDs are, instead of ascending.
    pub scattered_ids: bool,
    /// Under which loads.
    pub workloads: Vec<Workload>,
    /// Who.
    pub contenders: Vec<Contender>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SIGINT or SIGTERM.
    #[error("interrupted; everything was taken away again")]
    Interrupted,
    /// The address of the database cannot be changed to another name.
    #[error("{0} cannot be read as an address")]
    Address(String),
    /// The stock could not be put in place.
    #[error("the stock could not be put in place: {0}")]
    Stock(String),
    /// Nothing has been decided for too long.
    #[error("{contender}: {heard} of {orders} events came, and none for {limit:?}")]
    Stalled {
        /// Who.
        contender: &'static str,
        /// Events so far.
        heard: usize,
        /// Events expected.
        orders: usize,
        /// For so long.
        limit: Duration,
    },
    /// A contender's books do not hold what its events say.
    #[error("{contender}: {events} events, but {decisions} decisions")]
    Books {
        /// Who.
        contender: &'static str,
        /// Events heard.
        events: u32,
        /// Decisions found.
        decisions: u64,
    },
    /// A message that is no order, among the bench's own.
    #[error("a baseline cannot read its own order: {0}")]
    Order(String),
    /// A baseline's message was not taken.
    #[error("the broker did not confirm a baseline's message")]
    Unconfirmed,
    /// A process.
    #[error(transparent)]
    Process(#[from] demo::Error),
    /// The broker, by this program's word.
    #[error(transparent)]
    Broker(#[from] broker::Error),
    /// The database, by this program's word.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// The broker, by the client library's.
    #[error("the broker: {0}")]
    Amqp(#[from] lapin::Error),
    /// Redis.
    #[error("redis: {0}")]
    Redis(#[from] redis::RedisError),
    /// Redis, by this program's word.
    #[error(transparent)]
    Leases(#[from] lease::Error),
    /// The database, by the ORM's.
    #[error("the database: {0}")]
    Database(#[from] sea_orm::DbErr),
    /// The folder of an embedded database.
    #[error("the folder for the database: {0}")]
    Folder(#[from] std::io::Error),
    /// A task ended before its time.
    #[error("a task failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Measures; a progress bar goes to standard error when that is a terminal. `shutdown` ends it early.
///
/// # Errors
/// See [`Error`].
pub async fn run(plan: &Plan, settings: &Settings, shutdown: impl Future<Output = ()>) -> Result<Report, Error> {
    let place = Place::new(settings)?;
    let mut crew = Crew::new(place.env())?;
    tracing::info!(names = place.settings().broker.name_prefix, "measuring under names of its own");
    let measured = tokio::select! {
        measured = Session::run(plan, &place, &mut crew) => measured,
        () = shutdown => Err(Error::Interrupted),
    };
    // What went wrong first is what matters; taking everything away is tried in any case.
    let stopped = crew.stop().await;
    let cleared = place.clear().await;
    let report = measured?;
    stopped?;
    cleared?;
    Ok(report)
}
