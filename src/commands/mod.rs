//! One file per command.

pub mod dead;
pub mod output;
pub mod publish;
pub mod topology;

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Settings;

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Declares exchanges and queues, or says what differs.
    Topology(topology::Args),
    /// Publishes newline-delimited JSON orders with confirms.
    Publish(publish::Args),
    /// Looks at dead letters.
    Dead(dead::Args),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// Whatever went wrong, with what to do about it.
    pub async fn run(self, settings: Settings) -> anyhow::Result<ExitCode> {
        match self {
            Self::Topology(args) => topology::run(args, settings).await,
            Self::Publish(args) => publish::run(args, settings).await,
            Self::Dead(args) => dead::run(args, settings).await,
        }
    }
}
