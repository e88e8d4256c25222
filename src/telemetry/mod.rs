//! Logs, metrics and traces: set up once, names in one place.

mod fatal;
mod metrics;
mod registering;
mod traces;

use std::io::IsTerminal as _;

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use fatal::fatal;
pub use metrics::{Ended, METRICS_TYPE, Metrics, Stage};
pub use traces::{Sending, Span};

use crate::config::{Log, LogFormat};

/// Sends log lines to standard error, as the settings say.
///
/// # Errors
/// The filter's fault, when it cannot be read.
pub fn init(settings: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&settings.filter).map_err(|fault| format!("log.filter: {fault}"))?;
    // What no filter lets through.
    let harmless = filter_fn(is_harmless);
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    match settings.format {
        LogFormat::Pretty => lines.finish().with(harmless).init(),
        LogFormat::Json => lines.json().flatten_event(true).finish().with(harmless).init(),
    }
    Ok(())
}

/// The AMQP client traces every frame that it sends, and the password is in one of the first.
fn is_harmless(metadata: &Metadata<'_>) -> bool {
    !(metadata.target().starts_with("lapin") && *metadata.level() == Level::TRACE)
}
