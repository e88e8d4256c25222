//! The lastunit program: arguments, exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use lastunit::commands::Command;
use lastunit::config::Settings;
use lastunit::{admin, broker, config, lease, ledger, telemetry};

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
    let file = arguments.config.clone();
    run(arguments).unwrap_or_else(|error| {
        let code = exit_code(&error);
        let format = config::log_format(file.as_deref(), std::env::vars());
        telemetry::fatal(format, &format!("{error:#}"), code);
        ExitCode::from(code)
    })
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let env = std::env::vars_os();
    let env = env.map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    let settings = Settings::load(arguments.config.as_deref(), env)?;
    telemetry::init(&settings.log).map_err(|fault| config::Error::Invalid(vec![fault]))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(arguments.command.run(settings));
    // Somebody who is asked for input may never answer: nothing is waited for any more.
    runtime.shutdown_background();
    done
}

/// The first cause that says what to do next decides.
fn exit_code(error: &anyhow::Error) -> u8 {
    let code = error.chain().find_map(|cause| {
        if cause.is::<config::Error>() {
            return Some(EXIT_CONFIG);
        }
        if let Some(error) = cause.downcast_ref::<admin::Error>() {
            // Whoever has the port may be an older worker that drains.
            return Some(if error.is_taken() { EXIT_UNAVAILABLE } else { EXIT_CONFIG });
        }
        if let Some(error) = cause.downcast_ref::<ledger::Error>() {
            return match error {
                ledger::Error::Schema(_) | ledger::Error::Denied(_) => Some(EXIT_CONFIG),
                ledger::Error::Unavailable(_) => Some(EXIT_UNAVAILABLE),
                ledger::Error::Failed(_) => None,
            };
        }
        if let Some(error) = cause.downcast_ref::<broker::Error>() {
            return match error {
                // What it refuses (a password, a virtual host, a queue that is not there) is in the settings or the topology.
                broker::Error::Topology(_) | broker::Error::Refused(_) | broker::Error::Returned(_) => {
                    Some(EXIT_CONFIG)
                }
                broker::Error::Unavailable(_) => Some(EXIT_UNAVAILABLE),
            };
        }
        match cause.downcast_ref::<lease::Error>() {
            Some(lease::Error::Unavailable(_)) => Some(EXIT_UNAVAILABLE),
            // A password, a missing right, an address: the text says which.
            Some(lease::Error::Failed(_)) => Some(EXIT_CONFIG),
            None => None,
        }
    });
    code.unwrap_or(1)
}
