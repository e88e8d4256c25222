//! `lastunit worker`: the main job.

use std::future::Future;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::broker::{self, Publisher};
use crate::config::Settings;
use crate::lease::{self, Leases};
use crate::ledger::{self, Ledger};
use crate::retry::Backoff;
use crate::worker;

/// Takes orders from the queue and decides them, until SIGTERM or SIGINT.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// This worker's name in leases and logs [default: HOST-PID].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Opens everything, works, drains.
///
/// # Errors
/// A service that does not answer in time, a schema or a topology that differs, an unfinished drain.
pub async fn run(args: WorkerArgs, settings: Settings) -> anyhow::Result<ExitCode> {
    let shutdown = shutdown_signal().context("cannot listen for signals")?;
    let holder = args.name.unwrap_or_else(default_name);
    let wait = settings.startup.wait_ms.duration();
    let ledger = patiently(wait, "the database", || Ledger::connect(&settings.database)).await?;
    ledger.verify_schema().await?;
    let leases = patiently(wait, "redis", || Leases::connect(&settings.redis, &settings.lease, &holder)).await?;
    let publisher = patiently(wait, "the broker", || Publisher::connect(&settings.broker)).await?;
    info!(
        name = holder,
        database = %settings.database.url,
        redis = %settings.redis.url,
        broker = %settings.broker.url,
        queue = format!("{}.orders", settings.broker.name_prefix),
        "the worker starts"
    );
    let parts = worker::Parts { settings, ledger, leases, publisher, holder };
    worker::run(parts, shutdown).await?;
    info!("the worker has finished");
    Ok(ExitCode::SUCCESS)
}

fn default_name() -> String {
    format!("{}-{}", gethostname::gethostname().to_string_lossy(), std::process::id())
}

/// Ends with the first SIGTERM or SIGINT.
fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "asked to stop");
    })
}

/// Whether trying again can help.
trait MayPass {
    fn may_pass(&self) -> bool;
}

impl MayPass for ledger::Error {
    fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Schema(_) | Self::Failed(_) => false,
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

/// Tries to open a service until it answers or `wait` is over: services and workers start side by side.
async fn patiently<T, E, F>(wait: Duration, what: &str, mut open: impl FnMut() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: MayPass + std::fmt::Display,
{
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
