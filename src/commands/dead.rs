//! `lastunit dead`: looks at dead letters.

use std::borrow::Cow;
use std::fmt;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::bail;
use clap::value_parser;
use comfy_table::{Table, presets};

use crate::broker::client::{DeadLetter, MOST_LETTERS, Observer};
use crate::broker::{DeadQueue, Names};
use crate::commands::output::{print, print_bytes, print_json, shown};
use crate::commands::services;
use crate::config::Settings;

/// Dead letters that `show` looks through for a publish id, per queue.
const SEARCH_MOST: u16 = 10_000;

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
        #[arg(long, default_value_t = 20, value_parser = value_parser!(u16).range(1..=i64::from(MOST_LETTERS)))]
        limit: u16,
        /// For programs: one JSON object with `counts` and `letters`.
        #[arg(long)]
        json: bool,
    },
    /// Shows one with its headers and its body.
    Show {
        /// Its lastunit-publish-id, or `QUEUE/POSITION` like `lost-race/3`; positions change with every look.
        which: Which,
        /// For programs: one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Looks, and changes nothing: what is looked at stays where it is.
///
/// # Errors
/// The broker does not answer, a queue does not exist, or there is no such dead letter.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let observer = services::observer(&settings).await?;
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
    limit: u16,
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
        return print_json(&serde_json::json!({"counts": counts, "letters": letters}));
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
        let cell =
            |text: &Option<String>| text.as_deref().map_or_else(|| "?".to_owned(), |text| shown(text).into_owned());
        table.add_row([
            letter.position.clone(),
            shown(&letter.reason).into_owned(),
            cell(&letter.order_id),
            letter.attempts.to_string(),
            cell(&letter.died_at),
            cell(&letter.publish_id),
        ]);
    }
    table
}

async fn show(observer: &Observer, which: &Which, json: bool) -> anyhow::Result<()> {
    let Some(letter) = find(observer, which).await? else {
        bail!("there is no dead letter {which}: `lastunit dead list` shows what there is");
    };
    if json {
        return print_json(&letter);
    }
    print(format!("{} {}", letter.position, shown(&letter.reason)))?;
    for part in [&letter.properties, &letter.headers] {
        for (name, value) in part.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), |text| visible(text).into_owned());
            print(format!("  {}: {value}", shown(name)))?;
        }
    }
    if std::io::stdout().is_terminal() {
        return print(visible(&String::from_utf8_lossy(&letter.body)));
    }
    print_bytes(&letter.body)?;
    print_bytes(b"\n")
}

/// A text whose control characters cannot steer the terminal.
fn visible(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| if steers(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(show).collect())
}

async fn find(observer: &Observer, which: &Which) -> anyhow::Result<Option<DeadLetter>> {
    match which {
        Which::Place(queue, position) => {
            let letters = observer.dead_letters(*queue, *position).await?;
            Ok(letters.into_iter().nth(usize::from(*position) - 1))
        }
        Which::Id(id) => {
            for queue in DeadQueue::ALL {
                let letters = observer.dead_letters(queue, SEARCH_MOST).await?;
                if let Some(found) = letters.into_iter().find(|letter| letter.publish_id.as_ref() == Some(id)) {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
    }
}

/// Names a dead letter.
#[derive(Clone, Debug)]
enum Which {
    /// Where it would stand in a look now, counted from 1.
    Place(DeadQueue, u16),
    /// Its publish id.
    Id(String),
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((queue, position)) = text.split_once('/') else { return Ok(Self::Id(text.to_owned())) };
        let queue = DeadQueue::ALL.into_iter().find(|known| known.as_str() == queue);
        let queue = queue.ok_or("the queues are lost-race, invalid and failed")?;
        let position = position.parse().ok().filter(|position| *position > 0);
        Ok(Self::Place(queue, position.ok_or_else(|| format!("the position must be from 1 to {MOST_LETTERS}"))?))
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(queue, position) => write!(f, "{}/{position}", queue.as_str()),
            Self::Id(id) => f.write_str(id),
        }
    }
}
