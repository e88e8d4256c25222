//! One file per command.

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Settings;

pub mod leases;

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Who holds what, for how long, in which epoch.
    Leases(leases::Command),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// Whatever went wrong, with what to do about it.
    pub async fn run(self, settings: Settings) -> anyhow::Result<ExitCode> {
        match self {
            Self::Leases(command) => command.run(settings).await,
        }
    }
}
