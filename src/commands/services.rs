//! Opening services for a command: each may still be starting, and has `startup.wait_ms` for that.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::broker::{self, Publisher};
use crate::config::Settings;
use crate::lease::{self, Leases};
use crate::ledger::{self, Ledger};
use crate::retry::Backoff;

/// Connects to the database.
///
/// # Errors
/// The last answer of the database.
pub(super) async fn database(settings: &Settings) -> Result<Ledger, ledger::Error> {
    patiently(settings, "the database", || Ledger::connect(&settings.database)).await
}

/// Connects to the database and verifies its schema.
///
/// # Errors
/// The last answer of the database, or what is wrong with its schema.
pub(super) async fn ledger(settings: &Settings) -> Result<Ledger, ledger::Error> {
    let ledger = database(settings).await?;
    ledger.verify_schema().await?;
    Ok(ledger)
}

/// Connects to Redis.
///
/// # Errors
/// The last answer of Redis.
pub(super) async fn leases(settings: &Settings, holder: &str) -> Result<Leases, lease::Error> {
    patiently(settings, "redis", || Leases::connect(&settings.redis, &settings.lease, holder)).await
}

/// Connects to the broker, to publish.
///
/// # Errors
/// The last answer of the broker.
pub(super) async fn publisher(settings: &Settings) -> Result<Publisher, broker::Error> {
    patiently(settings, "the broker", || Publisher::connect(&settings.broker)).await
}

/// Whether trying again can help.
trait MayPass {
    fn may_pass(&self) -> bool;
}

impl MayPass for ledger::Error {
    fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Schema(_) | Self::Settings(_) | Self::Failed(_) => false,
        }
    }
}

impl MayPass for lease::Error {
    fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Failed(_) => false,
        }
    }
}

impl MayPass for broker::Error {
    fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Topology(_) | Self::Refused(_) | Self::Returned(_) => false,
        }
    }
}

/// Tries to open a service until it answers or the time is over.
async fn patiently<T, E, F>(settings: &Settings, what: &str, mut open: impl FnMut() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: MayPass + Display,
{
    let wait = settings.startup.wait_ms.duration();
    let deadline = Instant::now() + wait;
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    let mut told = false;
    loop {
        match open().await {
            Err(error) if error.may_pass() && Instant::now() < deadline => {
                if !told {
                    warn!(%error, "{what} does not answer yet; waiting up to {} s", wait.as_secs_f32());
                    told = true;
                }
                backoff.wait().await;
            }
            answer => return answer,
        }
    }
}
