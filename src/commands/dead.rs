//! `lastunit dead`: looks at dead letters.

use std::process::ExitCode;

use anyhow::bail;
use comfy_table::{Table, presets};

use crate::broker::client::{DeadLetter, Observer};
use crate::broker::{DeadQueue, Names};
use crate::commands::output::print;
use crate::config::Settings;

/// Dead letters that `show` looks through for a publish id, per queue.
const SEARCH_MOST: usize = 10_000;

/// Arguments of `lastunit dead`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Lists what waits.
    List {
        /// Only this queue.
        queue: Option<DeadQueue>,
        /// The most of each queue.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Print JSON for programs.
        #[arg(long)]
        json: bool,
    },
    /// Shows one with its headers and its body.
    Show {
        /// Its lastunit-publish-id, or `QUEUE/POSITION` like `lost-race/3`; positions change with every look.
        which: String,
        /// Print JSON for programs.
        #[arg(long)]
        json: bool,
    },
}

/// Looks, and changes nothing: what is looked at stays where it is.
///
/// # Errors
/// The broker does not answer, a queue does not exist, or there is no such dead letter.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let observer = Observer::connect(&settings.broker).await?;
    match args.action {
        Action::List { queue, limit, json } => {
            let names = Names::new(&settings.broker.name_prefix);
            list(&observer, &names, queue, limit, json).await?;
        }
        Action::Show { which, json } => show(&observer, &which, json).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(
    observer: &Observer,
    names: &Names,
    only: Option<DeadQueue>,
    limit: usize,
    json: bool,
) -> anyhow::Result<()> {
    let mut letters = Vec::new();
    let mut counts = Vec::new();
    for queue in DeadQueue::ALL.into_iter().filter(|queue| only.is_none_or(|only| only == *queue)) {
        counts.push((queue, observer.count(&names.dead_queue(queue)).await?));
        letters.extend(observer.dead_letters(queue, limit).await?);
    }
    if json {
        let counts: serde_json::Map<_, _> =
            counts.iter().map(|(queue, count)| (queue.as_str().to_owned(), (*count).into())).collect();
        print(serde_json::to_string_pretty(&serde_json::json!({"counts": counts, "letters": letters}))?)?;
        return Ok(());
    }
    if !letters.is_empty() {
        print(table(&letters))?;
    }
    let counts: Vec<String> = counts.iter().map(|(queue, count)| format!("{count} {}", queue.as_str())).collect();
    print(format!("{} shown of {}", letters.len(), counts.join(", ")))?;
    Ok(())
}

fn table(letters: &[DeadLetter]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["which", "reason", "order id", "attempts", "died at", "publish id"]);
    for letter in letters {
        table.add_row([
            letter.position.as_str(),
            &letter.reason,
            letter.order_id.as_deref().unwrap_or("?"),
            &letter.attempts.to_string(),
            letter.died_at.as_deref().unwrap_or("?"),
            letter.publish_id.as_deref().unwrap_or("?"),
        ]);
    }
    table
}

async fn show(observer: &Observer, which: &str, json: bool) -> anyhow::Result<()> {
    let Some(letter) = find(observer, which).await? else {
        bail!("there is no dead letter {which}: `lastunit dead list` shows what there is");
    };
    if json {
        print(serde_json::to_string_pretty(&letter)?)?;
        return Ok(());
    }
    print(format!("{} {}", letter.position, letter.reason))?;
    for part in [&letter.properties, &letter.headers] {
        for (name, value) in part.as_object().into_iter().flatten() {
            print(format!("  {name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))?;
        }
    }
    print(String::from_utf8_lossy(&letter.body))?;
    Ok(())
}

async fn find(observer: &Observer, which: &str) -> anyhow::Result<Option<DeadLetter>> {
    let placed = which.split_once('/').and_then(|(queue, position)| {
        let queue = DeadQueue::ALL.into_iter().find(|known| known.as_str() == queue)?;
        Some((queue, position.parse::<usize>().ok().filter(|position| *position > 0)?))
    });
    if let Some((queue, position)) = placed {
        let letters = observer.dead_letters(queue, position).await?;
        return Ok(letters.into_iter().nth(position - 1));
    }
    for queue in DeadQueue::ALL {
        let letters = observer.dead_letters(queue, SEARCH_MOST).await?;
        if let Some(found) = letters.into_iter().find(|letter| letter.publish_id.as_deref() == Some(which)) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
