//! `lastunit migrate`: the schema, up, down, and where it stands.

use std::process::ExitCode;

use anyhow::bail;
use clap::ValueEnum;

use super::output::{self, counted, print_json_lines};
use super::services;
use crate::config::Settings;
use crate::ledger::{Direction, Ledger, Step};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which way
    #[arg(value_enum, default_value = "up")]
    action: Action,
    /// With `down`: although decisions and stock are lost with their tables
    #[arg(long)]
    force: bool,
    /// For programs: a JSON object per line
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
/// What the database answered; a table of our name that is somebody else's; a refusal to drop decisions.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let ledger = services::database(&settings).await?;
    let steps = match args.action {
        Action::Up => ledger.migrate(Direction::Up).await?,
        Action::Down => {
            if !args.force {
                refuse_to_lose(&ledger).await?;
            }
            ledger.migrate(Direction::Down).await?
        }
        Action::Status => ledger.schema_status().await?,
    };
    print(&steps, args.action, args.json)?;
    if args.action == Action::Up {
        // With other connections than those that migrated: what is not there for them is there for nobody.
        ledger.verify_schema().await?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn refuse_to_lose(ledger: &Ledger) -> anyhow::Result<()> {
    if ledger.schema_status().await?.iter().any(|step| !step.applied) {
        return Ok(());
    }
    ledger.verify_schema().await?;
    let totals = ledger.totals().await?;
    let (decisions, in_stock) = (totals.decisions(), totals.in_stock);
    if decisions > 0 || in_stock > 0 {
        bail!(
            "the database holds {} and {} in stock, which would be lost: repeat with --force if you mean it",
            counted(decisions, "decision"),
            counted(in_stock, "SKU")
        );
    }
    Ok(())
}

fn print(steps: &[Step], action: Action, json: bool) -> anyhow::Result<()> {
    if json {
        let step =
            |step: &Step| serde_json::json!({"step": step.name, "applied": step.applied, "changed": step.changed});
        return print_json_lines(steps.iter().map(step));
    }
    steps.iter().try_for_each(|step| {
        let state = match (step.applied, step.changed) {
            (true, false) if action == Action::Up => "already applied",
            (true, _) => "applied",
            (false, true) => "undone",
            (false, false) => "missing",
        };
        output::print(format!("{state}  {}", step.name))
    })
}
