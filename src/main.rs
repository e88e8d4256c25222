//! The lastunit program: arguments, exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use lastunit::commands::Command;
use lastunit::config::Settings;
use lastunit::{broker, config, lease, ledger, telemetry};

/// Settings, schema or topology are wrong (`EX_CONFIG`).
const EXIT_CONFIG: u8 = 78;
/// A service does not answer (`EX_UNAVAILABLE`).
const EXIT_UNAVAILABLE: u8 = 69;

/// Sells the last unit once: an asynchronous job worker for queue-driven order pipelines.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120)]
struct Arguments {
    /// A settings file over the embedded defaults (config/default.toml documents every key).
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lastunit: {error:#}");
            exit_code(&error)
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(arguments.config.as_deref(), std::env::vars())?;
    telemetry::init(&settings.log).map_err(|fault| config::Error::Invalid(vec![fault]))?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(arguments.command.run(settings))
}

/// The first cause that says what to do next decides.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    let code = error.chain().find_map(|cause| {
        if cause.is::<config::Error>() {
            return Some(EXIT_CONFIG);
        }
        if let Some(error) = cause.downcast_ref::<ledger::Error>() {
            return match error {
                ledger::Error::Schema(_) | ledger::Error::Settings(_) => Some(EXIT_CONFIG),
                ledger::Error::Unavailable(_) => Some(EXIT_UNAVAILABLE),
                ledger::Error::Failed(_) => None,
            };
        }
        if let Some(error) = cause.downcast_ref::<broker::Error>() {
            return match error {
                // What it refuses (a password, a virtual host, a queue that is not there) is in the settings or the topology.
                broker::Error::Topology(_) | broker::Error::Refused(_) => Some(EXIT_CONFIG),
                broker::Error::Unavailable(_) => Some(EXIT_UNAVAILABLE),
                broker::Error::Returned(_) => None,
            };
        }
        match cause.downcast_ref::<lease::Error>() {
            Some(lease::Error::Unavailable(_)) => Some(EXIT_UNAVAILABLE),
            // A password, a missing right, an address: the text says which.
            Some(lease::Error::Failed(_)) => Some(EXIT_CONFIG),
            None => None,
        }
    });
    ExitCode::from(code.unwrap_or(1))
}
