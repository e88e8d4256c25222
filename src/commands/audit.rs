//! `lastunit audit`: nothing was oversold, and the fence did its work.

use std::process::ExitCode;

use comfy_table::{Table, presets};

use super::output::{counted, print, shown};
use super::services;
use crate::config::Settings;
use crate::ledger::{Audit, Finding};

/// Findings shown to people; `--json` has all.
const MOST_SHOWN: usize = 100;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

/// Audits the whole database; workers may go on meanwhile. Exits with 1 when a promise is broken.
///
/// # Errors
/// What the database answered.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let audit = services::ledger(&settings).await?.audit().await?;
    if args.json {
        let mut json = serde_json::to_value(&audit)?;
        json["clean"] = audit.is_clean().into();
        print(json)?;
    } else {
        print_audit(&audit)?;
    }
    Ok(if audit.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_audit(audit: &Audit) -> anyhow::Result<()> {
    let verdict = match audit.failures.len() {
        0 => "audit clean".to_owned(),
        count => format!("audit FAILED with {}", counted(count, "finding")),
    };
    let [skus, orders, lines] =
        [(audit.skus, "SKU"), (audit.orders, "order"), (audit.lines, "line")].map(|(count, what)| counted(count, what));
    print(format!("{verdict}: {skus}, {orders}, {lines}"))?;
    print_findings("", &audit.failures)?;
    print_findings("warnings:\n", &audit.warnings)
}

fn print_findings(heading: &str, findings: &[Finding]) -> anyhow::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(["check", "SKU or order", "found"]);
    for finding in findings.iter().take(MOST_SHOWN) {
        table.add_row([finding.check.as_str(), &shown(&finding.subject), &finding.detail]);
    }
    print(format!("{heading}{table}"))?;
    if findings.len() > MOST_SHOWN {
        print(format!("and {} more", findings.len() - MOST_SHOWN))?;
    }
    Ok(())
}
