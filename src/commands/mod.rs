//! One file per command.

pub mod audit;
pub mod bench;
pub mod bench_contender;
pub mod dead;
pub mod demo;
pub mod leases;
pub mod migrate;
mod output;
pub mod publish;
mod services;
pub mod stock;
pub mod topology;
pub mod worker;

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Settings;

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Takes orders from the queue and decides them, until SIGTERM or SIGINT.
    Worker(worker::Args),
    /// Brings the database schema up or down, or shows where it stands.
    Migrate(migrate::Args),
    /// Declares exchanges and queues, or says what differs.
    Topology(topology::Args),
    /// Changes or shows units on the shelf.
    Stock(stock::Args),
    /// Publishes newline-delimited JSON orders with confirms.
    Publish(publish::Args),
    /// Looks at dead letters.
    Dead(dead::Args),
    /// Checks the books: no oversell, and the fence history of every SKU.
    Audit(audit::Args),
    /// Shows who holds which SKU, for how long, in which epoch.
    Leases(leases::Args),
    /// Lets workers race for the last unit and shows what happened.
    Demo(demo::Args),
    /// Measures throughput and latency beside two baselines, in one run.
    Bench(bench::Args),
    /// A baseline of `bench`, in a process of its own.
    #[command(hide = true)]
    BenchContender(bench_contender::Args),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// Whatever went wrong, with what to do about it.
    pub async fn run(self, settings: Settings) -> anyhow::Result<ExitCode> {
        match self {
            Self::Worker(args) => worker::run(args, settings).await,
            Self::Migrate(args) => migrate::run(args, settings).await,
            Self::Topology(args) => topology::run(args, settings).await,
            Self::Stock(args) => stock::run(args, settings).await,
            Self::Publish(args) => publish::run(args, settings).await,
            Self::Dead(args) => dead::run(args, settings).await,
            Self::Audit(args) => audit::run(args, settings).await,
            Self::Leases(args) => leases::run(args, settings).await,
            Self::Demo(args) => demo::run(args, settings).await,
            Self::Bench(args) => bench::run(args, settings).await,
            Self::BenchContender(args) => bench_contender::run(args, settings).await,
        }
    }
}
