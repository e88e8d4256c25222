//! One file per command.

pub mod dead;
pub mod demo;
pub mod publish;
pub mod topology;
pub mod worker;

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Settings;

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Takes orders from the queue and decides them, until SIGTERM or SIGINT.
    Worker(worker::WorkerArgs),
    /// Declares exchanges and queues, or says what differs.
    Topology(topology::Args),
    /// Publishes newline-delimited JSON orders with confirms.
    Publish(publish::Args),
    /// Looks at dead letters.
    Dead(dead::Args),
    /// A rush on a last unit, start to finish, with several worker processes, on real services.
    Demo(demo::Args),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// Whatever went wrong, with what to do about it.
    pub async fn run(self, settings: Settings) -> anyhow::Result<ExitCode> {
        match self {
            Self::Worker(args) => worker::run(args, settings).await,
            Self::Topology(args) => topology::run(args, settings).await,
            Self::Publish(args) => publish::run(args, settings).await,
            Self::Dead(args) => dead::run(args, settings).await,
            Self::Demo(args) => demo::run(args, settings).await,
        }
    }
}
