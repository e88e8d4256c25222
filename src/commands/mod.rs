//! One file per command.

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Settings;

mod audit;
mod database;
mod migrate;
mod stock;

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create or change the database's tables
    Migrate(migrate::Args),
    /// Put units on the shelf, or look at it
    Stock(stock::Args),
    /// Check that nothing was oversold, and the fence history, over the whole database
    Audit(audit::Args),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// Whatever went wrong, with what to do about it.
    pub async fn run(self, settings: Settings) -> anyhow::Result<ExitCode> {
        match self {
            Self::Migrate(args) => migrate::run(args, settings).await,
            Self::Stock(args) => stock::run(args, settings).await,
            Self::Audit(args) => audit::run(args, settings).await,
        }
    }
}
