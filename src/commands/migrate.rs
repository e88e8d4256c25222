//! `lastunit migrate`: the schema, up, down, and where it stands.

use std::process::ExitCode;

use anyhow::bail;
use clap::ValueEnum;

use super::services;
use crate::config::Settings;
use crate::ledger::{Direction, Ledger};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which way
    #[arg(value_enum, default_value = "up")]
    action: Action,
    /// With `down`: although orders were decided, which would be lost with their tables
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Action {
    /// Apply all steps that are missing
    Up,
    /// Undo the last step, with all that its tables hold
    Down,
    /// Say which steps the database has
    Status,
}

/// Migrates. Several processes may do so at once.
///
/// # Errors
/// What the database answered; a refusal to drop decisions.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let ledger = services::database(&settings).await?;
    match args.action {
        Action::Up => ledger.migrate(Direction::Up).await?,
        Action::Down => {
            if !args.force {
                refuse_to_lose_decisions(&ledger).await?;
            }
            ledger.migrate(Direction::Down).await?;
        }
        Action::Status => {}
    }
    print(&ledger, args.json).await?;
    Ok(ExitCode::SUCCESS)
}

async fn refuse_to_lose_decisions(ledger: &Ledger) -> anyhow::Result<()> {
    if ledger.schema_status().await?.iter().any(|step| !step.applied) {
        return Ok(());
    }
    let decisions = ledger.totals().await?.decisions();
    if decisions > 0 {
        bail!("the database holds {decisions} decisions, which would be lost: repeat with --force if you mean it");
    }
    Ok(())
}

async fn print(ledger: &Ledger, json: bool) -> anyhow::Result<()> {
    let steps = ledger.schema_status().await?;
    if json {
        let steps: Vec<_> =
            steps.iter().map(|step| serde_json::json!({"step": step.name, "applied": step.applied})).collect();
        println!("{}", serde_json::to_string(&steps)?);
        return Ok(());
    }
    for step in steps {
        println!("{}  {}", if step.applied { "applied" } else { "missing" }, step.name);
    }
    Ok(())
}
