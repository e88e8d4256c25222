//! Logs, metrics and traces: set up once, names in one place.

mod fatal;
mod metrics;
mod registering;
mod traces;

use std::io::IsTerminal as _;

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
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
    let filter = filter(&settings.filter)?;
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

/// Reads the filter. A word alone must be a level: one with a slip in it would be the name of a target, and silence all
/// others.
fn filter(text: &str) -> Result<EnvFilter, String> {
    let is_slip = |word: &str| !word.is_empty() && !word.contains(['=', '[']) && word.parse::<LevelFilter>().is_err();
    match EnvFilter::try_new(text) {
        Ok(filter) if !text.split(',').any(|word| is_slip(word.trim())) => Ok(filter),
        _faulty => Err(format!(
            "log.filter is {text:?}: it must be off, error, warn, info, debug or trace, or a list of those for parts of the \
             program, such as info,lastunit::broker=debug"
        )),
    }
}

/// The AMQP client traces every frame that it sends, and the password is in one of the first.
fn is_harmless(metadata: &Metadata<'_>) -> bool {
    !(metadata.target().starts_with("lapin") && *metadata.level() == Level::TRACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_with_a_slip_in_it_is_refused_with_its_value() {
        for good in ["info", "WARN", "off", "warn,lapin=off", "info,lastunit::broker=debug", "[span]=debug", ""] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for wrong in ["inof", "verbose", "info,,=x", "info,lastunit", "lastunit=loud"] {
            assert!(filter(wrong).is_err_and(|fault| fault.contains(&format!("{wrong:?}"))), "{wrong}");
        }
    }
}
