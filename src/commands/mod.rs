//! One file per command.

pub mod worker;

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Settings;

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Takes orders from the queue and decides them, until SIGTERM or SIGINT.
    Worker(worker::WorkerArgs),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// Whatever went wrong, with what to do about it.
    pub async fn run(self, settings: Settings) -> anyhow::Result<ExitCode> {
        match self {
            Self::Worker(args) => worker::run(args, settings).await,
        }
    }
}
