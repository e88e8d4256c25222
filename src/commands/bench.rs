//! `lastunit bench`: throughput and latency beside two baselines, in one run.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::value_parser;

use super::output::{print, print_json};
use super::worker::shutdown_signal;
use crate::bench::{self, Contender, Plan, Workload};
use crate::config::Settings;
use crate::demo;

/// What is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Orders of one measurement; a tenth of them for one at a time, a fifth where each has many lines.
    #[arg(long, default_value_t = 20_000, value_parser = value_parser!(u32).range(100..=10_000_000))]
    orders: u32,
    /// Measurements of each contender under each workload.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// How long each contender is given 200 orders a second for its latency; 0: not at all.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = value_parser!(u32).range(..=600))]
    light: u32,
    /// Reservations that lie in the tables before anything is measured, as after years; copies of up to 10,000.
    #[arg(long, value_name = "RESERVATIONS", default_value_t = 0, value_parser = value_parser!(u32).range(..=100_000_000))]
    history: u32,
    /// Orders that wait in the queue behind those that are measured, which should be many more than one prefetch. There is
    /// no light load then.
    #[arg(long, value_name = "ORDERS", default_value_t = 0, value_parser = value_parser!(u32).range(..=10_000_000))]
    backlog: u32,
    /// Size of an order's message, if it is longer than what has to be in it.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = value_parser!(u32).range(..=65_536))]
    order_bytes: u32,
    /// Order ids as random as UUIDs, instead of ascending ones: they meet a large table's index all over.
    #[arg(long)]
    scattered_ids: bool,
    /// Only these loads [default: all].
    #[arg(long, value_name = "WORKLOAD")]
    workload: Vec<Workload>,
    /// Only these contenders [default: all].
    #[arg(long, value_name = "CONTENDER")]
    contender: Vec<Contender>,
    /// For programs: one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
///
/// # Errors
/// See [`bench::Error`].
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let Args { orders, repeat, light, history, backlog, order_bytes, scattered_ids, workload, contender, json } = args;
    let light = if backlog == 0 { light } else { 0 };
    let plan = Plan {
        orders,
        repeat,
        light: Duration::from_secs(light.into()),
        history,
        backlog,
        order_bytes: order_bytes as usize,
        scattered_ids,
        workloads: Workload::ALL.into_iter().filter(|one| workload.is_empty() || workload.contains(one)).collect(),
        contenders: Contender::ALL.into_iter().filter(|one| contender.is_empty() || contender.contains(one)).collect(),
    };
    let shutdown = shutdown_signal().context("cannot listen for signals")?;
    let report = match bench::run(&plan, &settings, shutdown).await {
        Ok(report) => report,
        // The step knows best whether it is the settings or a service.
        Err(bench::Error::Process(step @ demo::Error::Step { code, .. })) => {
            eprintln!("lastunit: {step}");
            return Ok(ExitCode::from(code));
        }
        Err(other) => return Err(cause(other)),
    };
    if json {
        print_json(&report)?
    } else {
        print(&report)?
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code hangs on what lies beneath.
pub(super) fn cause(error: bench::Error) -> anyhow::Error {
    match error {
        bench::Error::Broker(beneath) => beneath.into(),
        bench::Error::Ledger(beneath) => beneath.into(),
        own => own.into(),
    }
}
