//! `lastunit stock`: put units on the shelf, or look at it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use comfy_table::{CellAlignment, Table, presets};
use tracing::warn;

use super::output::{counted, print, print_json_lines, shown};
use super::services;
use crate::config::Settings;
use crate::ledger::{Change, Changed, Ledger};
use crate::order::Sku;
use crate::plan::StockRow;

mod csv_file;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make it this many available units; a delta from what is there is recorded
    Set {
        /// What, byte for byte: `A` and `A ` are two
        #[arg(value_parser = parse_sku)]
        sku: Sku,
        /// Units that can be reserved from now on, 0 or more
        #[arg(value_name = "UNITS", allow_negative_numbers = true, value_parser = parse_units)]
        available: i64,
        #[command(flatten)]
        common: Common,
    },
    /// Add units, or take them away with a negative number
    Add {
        /// What, byte for byte: `A` and `A ` are two
        #[arg(value_parser = parse_sku)]
        sku: Sku,
        /// Units to add; negative: to take away
        #[arg(value_name = "UNITS", allow_negative_numbers = true, value_parser = parse_delta)]
        delta: i64,
        #[command(flatten)]
        common: Common,
    },
    /// Show these SKUs, or all
    Show {
        /// Which; none: all
        #[arg(value_name = "SKU", value_parser = parse_sku)]
        skus: Vec<Sku>,
        /// For programs: a JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Set every SKU of a CSV file with the columns sku,available: all of it, or nothing when a row is bad
    Import {
        /// The file; `-` reads standard input
        file: PathBuf,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Why, for the record
    #[arg(long)]
    reason: Option<String>,
    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_sku(text: &str) -> Result<Sku, String> {
    Sku::new(text)
}

/// A count of units, as a text of the command line or of a file.
fn parse_units(text: &str) -> Result<i64, String> {
    match text.trim().parse() {
        Ok(units) if units >= 0 => Ok(units),
        Ok(_) => Err("it must be 0 or more (`lastunit stock add` takes units away)".into()),
        Err(_) => Err(format!("it must be a whole number from 0 to {}", i64::MAX)),
    }
}

fn parse_delta(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("it must be a whole number from -{0} to {0}", i64::MAX))
}

/// Changes or shows the stock.
///
/// # Errors
/// What the database answered; changes that cannot be made, of which none was made.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Set { sku, available, common } => {
            let changes = BTreeMap::from([(sku, Change::Set(available))]);
            report(&change(&settings, changes, "set", &common).await?, common.json)?;
        }
        Action::Add { sku, delta, common } => {
            let changes = BTreeMap::from([(sku, Change::Add(delta))]);
            report(&change(&settings, changes, "add", &common).await?, common.json)?;
        }
        Action::Show { skus, json } => {
            let ledger = services::ledger(&settings).await?;
            return show(&ledger, &skus, json).await;
        }
        Action::Import { file, common } => {
            let changes = csv_file::read(&file)?;
            if changes.is_empty() {
                warn!("{}: no rows after the columns' names", file.display());
            }
            let changed = change(&settings, changes, &format!("import {}", file.display()), &common).await?;
            summarise(&changed, common.json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn change(
    settings: &Settings,
    changes: BTreeMap<Sku, Change>,
    what: &str,
    common: &Common,
) -> anyhow::Result<Vec<Changed>> {
    let ledger = services::ledger(settings).await?;
    let reason = common.reason.as_deref().unwrap_or(what);
    match ledger.change_stock(changes, reason).await? {
        Ok(changed) => Ok(changed),
        Err(impossible) => {
            let lines: Vec<_> = impossible.iter().map(ToString::to_string).collect();
            bail!("nothing was changed: {}", lines.join("\n"))
        }
    }
}

fn report(changed: &[Changed], json: bool) -> anyhow::Result<()> {
    for changed in changed {
        let Changed { sku, before, delta } = changed;
        let available = changed.available();
        if json {
            print(serde_json::json!({"sku": sku, "before": before, "delta": delta, "available": available}))?;
        } else {
            print(format!("{}: {available} available ({delta:+})", shown(sku.as_str())))?;
        }
    }
    Ok(())
}

fn summarise(changed: &[Changed], json: bool) -> anyhow::Result<()> {
    let units: i128 = changed.iter().map(|changed| i128::from(changed.available())).sum();
    if json {
        return print(format!("{{\"skus\":{},\"available\":{units}}}", changed.len()));
    }
    print(format!("{}, {} available", counted(changed.len(), "SKU"), counted(units, "unit")))
}

/// Exits with 1 when a SKU that was asked for does not exist.
async fn show(ledger: &Ledger, skus: &[Sku], json: bool) -> anyhow::Result<ExitCode> {
    let rows = ledger.stock((!skus.is_empty()).then_some(skus)).await?;
    if json {
        print_json_lines(rows.iter().map(json_row))?;
    } else if !rows.is_empty() {
        print(table(&rows))?;
    } else if skus.is_empty() {
        print(counted(0_usize, "SKU"))?;
    }
    let missing: Vec<_> = skus.iter().filter(|sku| !rows.contains_key(*sku)).collect();
    for sku in &missing {
        eprintln!("lastunit: {}: no such SKU", shown(sku.as_str()));
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn json_row((sku, row): (&Sku, &StockRow)) -> serde_json::Value {
    let fence = row.fence;
    serde_json::json!({"sku": sku, "available": row.available, "fence_token": fence.to_row(),
        "epoch": fence.epoch().get(), "sequence": fence.sequence()})
}

fn table(rows: &BTreeMap<Sku, StockRow>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(["SKU", "available", "fence (epoch.sequence)"]);
    for (sku, row) in rows {
        table.add_row([shown(sku.as_str()).into_owned(), row.available.to_string(), row.fence.to_string()]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
