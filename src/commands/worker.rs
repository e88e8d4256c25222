//! `lastunit worker`: the main job.

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::builder::NonEmptyStringValueParser;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use super::services;
use crate::broker::Publisher;
use crate::config::{self, Settings};
use crate::health::{Health, Service};
use crate::lease::Leases;
use crate::ledger::Ledger;
use crate::telemetry::{Metrics, Sending};
use crate::{admin, worker};

/// Takes orders from the queue and decides them, until SIGTERM or SIGINT.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// This worker's name in leases and logs [default: HOST-PID].
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
}

/// Opens everything, works, drains.
///
/// # Errors
/// An address for health and metrics that cannot be had, a service that does not answer in time, a schema or a topology that differs, an unfinished drain.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let shutdown = shutdown_signal().context("cannot listen for signals")?;
    let holder = args.name.unwrap_or_else(default_name);
    let (health, metrics) = (Arc::<Health>::default(), Arc::<Metrics>::default());
    if let Some(address) = settings.admin.address().map_err(|fault| config::Error::Invalid(vec![fault]))? {
        tokio::spawn(admin::listen(address, Arc::clone(&health), Arc::clone(&metrics)).await?);
    }
    tokio::pin!(shutdown);
    let (ledger, leases, publisher) = tokio::select! {
        opened = open(&settings, &holder, &health) => opened?,
        () = &mut shutdown => {
            info!("stopped before all services were there");
            return Ok(ExitCode::SUCCESS);
        }
    };
    info!(
        name = holder,
        database = %settings.database.url,
        redis = %settings.redis.url,
        broker = %settings.broker.url,
        queue = format!("{}.orders", settings.broker.name_prefix),
        "the worker starts"
    );
    let traces = Sending::start(&holder);
    let parts = worker::Parts { settings, ledger, leases, publisher, holder, health, metrics };
    worker::run(parts, shutdown).await?;
    traces.finish().await;
    info!("the worker has finished");
    Ok(ExitCode::SUCCESS)
}

/// Nothing has been taken on yet: giving up half way does no harm.
async fn open(settings: &Settings, holder: &str, health: &Health) -> anyhow::Result<(Ledger, Leases, Publisher)> {
    let ledger = services::ledger(settings).await?;
    health.lock().back(Service::Database);
    let leases = services::leases(settings, holder).await?;
    health.lock().back(Service::Redis);
    let publisher = services::publisher(settings).await?;
    Ok((ledger, leases, publisher))
}

fn default_name() -> String {
    format!("{}-{}", gethostname::gethostname().to_string_lossy(), std::process::id())
}

/// Ends with the first SIGTERM or SIGINT.
pub(super) fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
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
