//! `lastunit topology`: declares exchanges and queues, or says what differs.

use std::process::ExitCode;

use comfy_table::{Table, presets};

use crate::broker::Error;
use crate::broker::topology::{self, Item, State, Topology};
use crate::commands::output::{print, print_json_lines};
use crate::commands::services;
use crate::config::Settings;

/// Arguments of `lastunit topology`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// For programs: a JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Declares what is missing (or only looks, with `broker.declare = false`) and prints how everything was found.
///
/// # Errors
/// The broker does not answer, or something is missing or differs: then what, and how to mend it.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let topology = Topology::new(&settings.broker, &settings.retry);
    let items = services::inspect(&settings, &topology).await?;
    if args.json {
        print_json_lines(&items)?;
    } else {
        print(table(&items))?;
    }
    match topology::problems(&items) {
        None => Ok(ExitCode::SUCCESS),
        Some(problems) => Err(Error::Topology(problems).into()),
    }
}

fn table(items: &[Item]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["kind", "name", "state"]);
    for item in items {
        let state = match &item.state {
            State::Present => "present",
            State::Created => "created",
            State::Missing => "missing",
            State::Differs(_) => "differs",
        };
        table.add_row([item.kind, &item.name, state]);
    }
    table
}
