//! One file per command.

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Settings;

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// Whatever went wrong, with what to do about it.
    pub async fn run(self, settings: Settings) -> anyhow::Result<ExitCode> {
        drop(settings);
        match self {}
    }
}
