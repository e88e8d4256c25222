//! `lastunit bench-contender`: a baseline of `bench`, in a process of its own. Not for people.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Subcommand, value_parser};

use super::bench::cause;
use super::worker::shutdown_signal;
use crate::bench::baseline::{self, Baseline};
use crate::config::Settings;

/// Which baseline.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Consumes, publishes, acknowledges.
    PassThrough {
        /// A dead letter beside each event.
        #[arg(long)]
        dead_letters: bool,
    },
    /// A lease and a transaction per message.
    OneAtATime {
        /// Messages in work at the same time.
        #[arg(long, default_value_t = 32, value_parser = value_parser!(u16).range(1..=1000))]
        tasks: u16,
    },
}

/// Works until SIGTERM or SIGINT.
///
/// # Errors
/// See [`crate::bench::Error`].
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let shutdown = shutdown_signal().context("cannot listen for signals")?;
    let baseline = match args.kind {
        Kind::PassThrough { dead_letters } => Baseline::PassThrough { dead_letters },
        Kind::OneAtATime { tasks } => Baseline::OneAtATime { tasks },
    };
    baseline::run(baseline, &settings, shutdown).await.map_err(cause)?;
    Ok(ExitCode::SUCCESS)
}
