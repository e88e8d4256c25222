//! `lastunit stock`: put units on the shelf, or look at it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Subcommand;
use comfy_table::{CellAlignment, Table, presets};

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
        #[arg(value_parser = parse_sku)]
        sku: Sku,
        available: i64,
        #[command(flatten)]
        common: Common,
    },
    /// Add units, or take them away with a negative number
    Add {
        #[arg(value_parser = parse_sku)]
        sku: Sku,
        #[arg(allow_negative_numbers = true)]
        delta: i64,
        #[command(flatten)]
        common: Common,
    },
    /// Show these SKUs, or all
    Show {
        #[arg(value_parser = parse_sku)]
        skus: Vec<Sku>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set every SKU of a CSV file with the columns sku,available: all of it, or nothing when a row is bad
    Import {
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_sku(text: &str) -> Result<Sku, String> {
    Sku::new(text)
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
            let changed = change(&settings, changes, &format!("import {}", file.display()), &common).await?;
            summarise(&changed, common.json);
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
            println!("{}", serde_json::json!({"sku": sku, "before": before, "delta": delta, "available": available}));
        } else {
            println!("{sku}: {available} available ({delta:+})");
        }
    }
    Ok(())
}

fn summarise(changed: &[Changed], json: bool) {
    let units: i128 = changed.iter().map(|changed| i128::from(changed.available())).sum();
    if json {
        println!("{{\"skus\":{},\"available\":{units}}}", changed.len());
    } else {
        println!("{} SKUs, {units} units available", changed.len());
    }
}

/// Exits with 1 when a SKU that was asked for does not exist.
async fn show(ledger: &Ledger, skus: &[Sku], json: bool) -> anyhow::Result<ExitCode> {
    let rows = ledger.stock((!skus.is_empty()).then_some(skus)).await?;
    if json {
        print_json(&rows)?;
    } else {
        println!("{}", table(&rows));
    }
    let missing: Vec<_> = skus.iter().filter(|sku| !rows.contains_key(*sku)).collect();
    for sku in &missing {
        eprintln!("lastunit: {sku}: no such SKU");
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_json(rows: &BTreeMap<Sku, StockRow>) -> anyhow::Result<()> {
    let row = |(sku, row): (&Sku, &StockRow)| {
        let fence = row.fence;
        serde_json::json!({"sku": sku, "available": row.available, "fence_token": fence.to_row(),
            "epoch": fence.epoch().get(), "sequence": fence.sequence()})
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    println!("{}", serde_json::to_string(&rows).context("writing JSON")?);
    Ok(())
}

fn table(rows: &BTreeMap<Sku, StockRow>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(["SKU", "available", "fence (epoch.sequence)"]);
    for (sku, row) in rows {
        table.add_row([sku.to_string(), row.available.to_string(), row.fence.to_string()]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
