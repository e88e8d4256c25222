//! A rush on the last unit, start to finish, with several worker processes, on real services.
//!
//! It does what a user would do, with the same commands: migrate, declare, stock the shelf, start workers, send orders. What
//! it shows it has counted itself: events as a subscriber of the outcomes, dead letters in their queues, and the audit's
//! word. Everything runs under names of its own. Queues and keys are taken away afterwards, after Ctrl-C too; rows stay in a
//! database that was configured, because rows of stock are never deleted.

pub(crate) mod crew;
mod race;
mod report;
mod stage;
mod tally;

use std::future::Future;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

pub use report::Report;

use crate::config::Settings;
use crate::{broker, config, lease};
use crew::Crew;
use stage::Stage;

/// How large the rush is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Orders, for one unit each.
    pub orders: u32,
    /// Units on the shelf.
    pub units: u32,
    /// Worker processes.
    pub workers: u32,
}

/// Why the demo could not be brought to its end. That something went wrong *in* it is in the [`Report`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A process could not be started or waited for.
    #[error("{what} cannot be run: {source}")]
    Process {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A command failed.
    #[error("`lastunit {command}` failed: {said}")]
    Step {
        /// Its arguments.
        command: String,
        /// What it printed.
        said: String,
        /// Its exit code.
        code: u8,
    },
    /// A worker ended by itself, or with a failure.
    #[error("a worker ended with {0}")]
    WorkerEnded(ExitStatus),
    /// A worker does not finish its work.
    #[error("a worker did not stop within {0:?}")]
    WorkerHangs(Duration),
    /// Nothing has been decided for too long.
    #[error("{decided} of {orders} orders are decided, and none for {limit:?}")]
    Stalled {
        /// Orders decided.
        decided: usize,
        /// Orders sent.
        orders: u32,
        /// For so long.
        limit: Duration,
    },
    /// Ctrl-C.
    #[error("interrupted; its queues and keys were taken away again")]
    Interrupted,
    /// The temporary folder.
    #[error("the folder for the database: {0}")]
    Folder(io::Error),
    /// The broker.
    #[error(transparent)]
    Broker(#[from] broker::Error),
    /// Redis.
    #[error(transparent)]
    Redis(#[from] lease::Error),
    /// The settings.
    #[error(transparent)]
    Settings(#[from] config::Error),
}

impl Error {
    /// The exit code of the process that failed, which knows best whether it is the settings or a service.
    #[must_use]
    pub fn exit_code(&self) -> Option<u8> {
        match self {
            Self::Step { code, .. } => Some(*code),
            Self::WorkerEnded(status) => status.code().and_then(|code| u8::try_from(code).ok()),
            _others => None,
        }
    }
}

/// Runs the demo; progress bars go to standard error when that is a terminal. `shutdown` ends it early.
///
/// # Errors
/// See [`Error`].
pub async fn run(size: Size, settings: &Settings, shutdown: impl Future<Output = ()>) -> Result<Report, Error> {
    let stage = Stage::new(settings)?;
    let mut crew = Crew::new(stage.env())?;
    let shown = tokio::select! {
        shown = race::run(size, &stage, &mut crew) => shown,
        () = shutdown => Err(Error::Interrupted),
    };
    // What went wrong first is what matters; taking everything away is tried in any case.
    let stopped = crew.stop().await;
    let cleared = stage.clear().await;
    let report = shown?;
    stopped?;
    cleared?;
    Ok(report)
}
