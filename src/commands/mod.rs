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
use futures_util::future::LocalBoxFuture;

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
    ///
    /// Queues and keys have names of their own and are taken away afterwards. With the default database everything is in a
    /// temporary folder; in another one its SKU and its reservations stay, all with "demo" in their names: not for production.
    Demo(demo::Args),
    /// Measures throughput and latency beside two baselines, in one run.
    ///
    /// On the configured services, with a database, queues and keys of its own (lastunit-bench-…), which are taken away
    /// afterwards, after Ctrl-C too. Pass-through is what the broker allows: no lease, no database. One at a time is a worker
    /// as one writes it by hand, 32 messages at a time, each with its own lease and transaction.
    Bench(bench::Args),
    /// A baseline of `bench`, in a process of its own.
    #[command(hide = true)]
    BenchContender(bench_contender::Args),
}

impl Command {
    /// Does it. The future fails with whatever went wrong, and what to do about it.
    ///
    /// Boxed: one future type with all commands in it would take the compiler minutes.
    #[must_use]
    pub fn run(self, settings: Settings) -> LocalBoxFuture<'static, anyhow::Result<ExitCode>> {
        match self {
            Self::Worker(args) => Box::pin(worker::run(args, settings)),
            Self::Migrate(args) => Box::pin(migrate::run(args, settings)),
            Self::Topology(args) => Box::pin(topology::run(args, settings)),
            Self::Stock(args) => Box::pin(stock::run(args, settings)),
            Self::Publish(args) => Box::pin(publish::run(args, settings)),
            Self::Dead(args) => Box::pin(dead::run(args, settings)),
            Self::Audit(args) => Box::pin(audit::run(args, settings)),
            Self::Leases(args) => Box::pin(leases::run(args, settings)),
            Self::Demo(args) => Box::pin(demo::run(args, settings)),
            Self::Bench(args) => Box::pin(bench::run(args, settings)),
            Self::BenchContender(args) => Box::pin(bench_contender::run(args, settings)),
        }
    }
}
