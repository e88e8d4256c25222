//! `lastunit publish`: sends newline-delimited JSON orders with confirms.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use futures_util::{Stream, StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

use crate::broker::{Names, client};
use crate::commands::output::{counted, print};
use crate::commands::services;
use crate::commands::worker::shutdown_signal;
use crate::config::Settings;
use crate::order::{self, Limits};

/// What to do after an early end.
const GO_ON: &str = "to go on, send the whole file again: an order that was sent before gets the same decision again";

/// What to do with JSON that is laid out for people, or a list.
const NOT_LINES: &str = "no line is an order. Each must hold a whole one, as `jq -c . FILE` writes it, or `jq -c '.[]' FILE` \
                         that of a list";

/// Arguments of `lastunit publish`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One JSON order a line; `-` reads standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Send every line as it is, also what is no order: the worker dead-letters it.
    #[arg(long)]
    unchecked: bool,
    /// For programs: the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Sends the orders. Lines that are no orders are named on standard error and left out; then the exit code is 1. It is 1 as
/// well when SIGINT or SIGTERM ended it early: what had been read by then is sent and confirmed.
///
/// # Errors
/// The file cannot be read, or the broker did not take an order.
pub async fn run(args: Args, settings: Settings) -> anyhow::Result<ExitCode> {
    let stop = shutdown_signal().context("cannot listen for signals")?;
    let (input, bytes) = open(&args.file).await?;
    let publisher = services::publisher(&settings).await?;
    let names = Names::new(&settings.broker.name_prefix);
    let bar = progress(bytes);
    let limits = (!args.unchecked).then_some(Limits {
        max_bytes: settings.broker.max_message_bytes,
        max_lines: settings.order.max_lines,
        max_quantity: settings.order.max_quantity,
    });
    let mut reader = Reader { input, bar: bar.clone(), limits, line: 0, faulty: 0, failure: None };
    let (began, mut sent, stopped) = (Instant::now(), 0, Cell::new(false));
    let orders = reader.orders().take_until(async {
        stop.await;
        stopped.set(true);
    });
    let published = client::publish_orders(&publisher, &names, orders, |count| {
        sent += count;
        bar.set_message(format!("{sent} confirmed"));
    });
    let published = published.await;
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    let before = || counted(sent, "order");
    published.with_context(|| format!("{} confirmed before; {GO_ON}", before()))?;
    if let Some(failure) = reader.failure {
        return Err(failure).with_context(|| format!("reading {} after {}; {GO_ON}", args.file.display(), before()));
    }
    if stopped.get() {
        eprintln!("lastunit: stopped after line {}, with {} confirmed; {GO_ON}", reader.line, before());
    }
    if sent == 0 && reader.faulty > 0 {
        eprintln!("lastunit: {NOT_LINES}");
    }
    summarise(args.json, sent, reader.faulty, seconds)?;
    Ok(if reader.faulty == 0 && !stopped.get() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn summarise(json: bool, sent: u64, faulty: u64, seconds: f64) -> anyhow::Result<()> {
    if json {
        return print(serde_json::json!({"confirmed": sent, "faulty_lines": faulty, "seconds": seconds}));
    }
    let rate = if seconds > 0.0 { sent as f64 / seconds } else { 0.0 };
    let (sent, faulty) = (counted(sent, "order"), counted(faulty, "faulty line"));
    print(format!("{sent} confirmed in {seconds:.2} s ({rate:.0}/s), {faulty} left out"))
}

type Input = Box<dyn AsyncBufRead + Unpin + Send>;

async fn open(file: &PathBuf) -> anyhow::Result<(Input, Option<u64>)> {
    if file.as_os_str() == "-" {
        let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        let input = tokio::fs::File::from_std(std::fs::File::from(input));
        return Ok((Box::new(BufReader::new(input)), None));
    }
    let open = tokio::fs::File::open(file).await.with_context(|| file.display().to_string())?;
    let metadata = open.metadata().await.with_context(|| file.display().to_string())?;
    anyhow::ensure!(!metadata.is_dir(), "{} is a folder: name a file, or - for standard input", file.display());
    Ok((Box::new(BufReader::new(open)), Some(metadata.len())))
}

/// A bar over the file's bytes; over standard input only a count. Shown on a terminal alone.
fn progress(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {bytes}/{total_bytes} {msg}, {eta} left"),
        None => (ProgressBar::no_length(), "{spinner} {bytes} {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Reads and checks lines.
struct Reader {
    input: Input,
    bar: ProgressBar,
    /// `None`: nothing is checked.
    limits: Option<Limits>,
    line: u64,
    faulty: u64,
    failure: Option<std::io::Error>,
}

impl Reader {
    /// Order ids with bodies, byte for byte as they stand in the lines; ends at the first failure to read.
    fn orders(&mut self) -> impl Stream<Item = (Option<String>, Vec<u8>)> {
        stream::unfold(self, |reader| async move {
            let order = reader.next_order().await?;
            Some((order, reader))
        })
    }

    async fn next_order(&mut self) -> Option<(Option<String>, Vec<u8>)> {
        loop {
            let mut body = Vec::new();
            match self.input.read_until(b'\n', &mut body).await {
                Ok(0) => return None,
                Ok(bytes) => self.bar.inc(bytes as u64),
                Err(failure) => {
                    self.failure = Some(failure);
                    return None;
                }
            }
            self.line += 1;
            while body.last().is_some_and(|end| matches!(end, b'\n' | b'\r')) {
                body.pop();
            }
            if body.is_empty() {
                continue;
            }
            let Some(limits) = &self.limits else { return Some((None, body)) };
            match order::parse(&body, limits) {
                Ok(order) => return Some((Some(order.id.to_string()), body)),
                Err(fault) => {
                    self.faulty += 1;
                    let line = self.line;
                    self.bar.suspend(|| eprintln!("line {line}: {fault}"));
                }
            }
        }
    }
}
