//! `lastunit leases`: who holds what, for how long, in which epoch.

use std::process::ExitCode;

use comfy_table::{Table, presets};

use super::output::{print, print_json_lines, shown};
use super::services;
use crate::config::Settings;
use crate::lease::Holding;

/// Shows the leases that are held now: SKU, holder, remaining time, token.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// For programs: a JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Prints the leases under `redis.key_prefix`.
///
/// # Errors
/// Redis cannot be reached, or refuses.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let leases = services::leases(&settings, "lastunit leases").await?;
    let holdings = leases.list().await?;
    if args.json {
        print_json_lines(holdings.iter().map(json))?;
    } else if holdings.is_empty() {
        print(format!("No SKU is leased under the prefix {:?}.", settings.redis.key_prefix))?;
    } else {
        print(table(&holdings))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn json(holding: &Holding) -> serde_json::Value {
    serde_json::json!({
        "sku": holding.sku.as_str(),
        "holder": holding.holder,
        "attempt": holding.attempt.0.to_string(),
        "remaining_ms": u64::try_from(holding.remaining.as_millis()).unwrap_or(u64::MAX),
        "epoch": holding.token.epoch().get(),
        "sequence": holding.token.sequence(),
        "fence_token": holding.token.to_row(),
        "is_current": holding.is_current,
    })
}

fn table(holdings: &[Holding]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["SKU", "holder", "ends in", "token (epoch.sequence)", "state"]);
    for holding in holdings {
        let state = if holding.is_current { "held" } else { "void: granted by another incarnation of the server" };
        table.add_row([
            shown(holding.sku.as_str()).into_owned(),
            holding.holder.clone(),
            format!("{:.1} s", holding.remaining.as_secs_f64()),
            holding.token.to_string(),
            state.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::{Epoch, FenceToken};
    use crate::lease::Attempt;
    use crate::order::Sku;

    #[test]
    fn people_and_programs_see_the_same_lease() {
        let token = FenceToken::new(Epoch::new(3).expect("epoch"), 17).expect("a token");
        let holding = Holding {
            sku: Sku::new("SNKR-42").expect("a sku"),
            holder: "pod-1".into(),
            attempt: Attempt::default(),
            token,
            remaining: std::time::Duration::from_millis(4_250),
            is_current: true,
        };
        let object = json(&holding);
        assert_eq!((&object["sku"], &object["remaining_ms"]), (&"SNKR-42".into(), &4_250.into()));
        assert_eq!((&object["epoch"], &object["sequence"]), (&3.into(), &17.into()));
        let text = table(&[holding]).to_string();
        assert!(["SNKR-42", "pod-1", "4.2 s", "3.17", "held"].iter().all(|part| text.contains(part)), "{text}");
    }
}
