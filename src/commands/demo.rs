//! `lastunit demo`: a rush on a last unit, start to finish, on real services.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::value_parser;

use super::output::{counted, print, print_json};
use super::worker::shutdown_signal;
use crate::config::Settings;
use crate::demo::{self, Size};

/// How large the rush is.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Orders that race, for one unit each.
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u32).range(1..=1_000_000))]
    orders: u32,
    /// Units on the shelf.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(..=1_000_000))]
    units: u32,
    /// Worker processes.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=64))]
    workers: u32,
    /// For programs: one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs it and prints what happened; the exit code is 1 when anything is off.
///
/// # Errors
/// See [`demo::Error`].
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let Args { orders, units, workers, json } = args;
    if !json {
        let counts = [(orders, "order"), (units, "unit"), (workers, "worker")];
        let [orders, units, workers] = counts.map(|(count, what)| counted(count, what));
        print(format!("{orders} for {units}, decided by {workers}"))?;
    }
    let shutdown = shutdown_signal().context("cannot listen for signals")?;
    let report = match demo::run(Size { orders, units, workers }, &settings, shutdown).await {
        Ok(report) => report,
        Err(fault) => match fault.exit_code() {
            Some(code) => {
                eprintln!("lastunit: {fault}");
                return Ok(ExitCode::from(code));
            }
            None => return Err(cause(fault)),
        },
    };
    if json {
        print_json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The exit code hangs on what lies beneath.
fn cause(error: demo::Error) -> anyhow::Error {
    match error {
        demo::Error::Broker(beneath) => beneath.into(),
        demo::Error::Redis(beneath) => beneath.into(),
        demo::Error::Settings(beneath) => beneath.into(),
        own => own.into(),
    }
}
