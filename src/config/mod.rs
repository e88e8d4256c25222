//! Settings: an embedded default, then a file, then the environment; validated as a whole before anything opens.
//!
//! [`Settings::load`] is the only way in. `config/default.toml` documents every key.

mod address;
mod layers;
mod listen;
mod tls;
mod validate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

pub use address::Address;
pub(crate) use tls::certificate_hint;

use layers::Layers;

/// The embedded default settings, as TOML.
pub const DEFAULT: &str = include_str!("../../config/default.toml");

/// Why the settings cannot be used. Each ends the program with exit code 78.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A layer could not be read.
    #[error("settings: {0}")]
    Unreadable(String),
    /// A `_FILE` variable names a file that cannot be read.
    #[error("settings: {variable} names {}, which cannot be read", .path.display())]
    Secret {
        /// The environment variable.
        variable: String,
        /// The file that it names.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Keys that are unknown, and values that cannot work, alone or together; one line per problem.
    #[error("settings: {}", .0.join("\nsettings: "))]
    Invalid(Vec<String>),
}

/// All settings, valid as a whole.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The ledger's database.
    pub database: Database,
    /// The lease server.
    pub redis: Redis,
    /// The message broker.
    pub broker: Broker,
    /// Leases per SKU.
    pub lease: Lease,
    /// How orders are put together into transactions.
    pub batch: Batch,
    /// Delay queues.
    pub retry: Retry,
    /// Limits of one order.
    pub order: Order,
    /// Health and metrics over HTTP.
    pub admin: Admin,
    /// Start.
    pub startup: Startup,
    /// Stop.
    pub shutdown: Shutdown,
    /// Log lines.
    pub log: Log,
}

/// `[database]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Where the database is.
    pub url: Address,
    /// Connections in the pool of one process.
    pub max_connections: u32,
    /// How long to wait for a free connection.
    pub acquire_timeout_ms: Millis,
    /// How long one statement may take.
    pub statement_timeout_ms: Millis,
    /// SQLite is allowed although the broker is on another host.
    pub allow_sqlite: bool,
    /// PEM file of the authority that signed the server's certificate; empty: the system's authorities.
    pub tls_ca: String,
    /// PEM file of the client's certificate; empty: none.
    pub tls_client_cert: String,
    /// PEM file of the client's key; empty: none.
    pub tls_client_key: String,
}

/// `[redis]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// Where the server, the Cluster or the Sentinels are.
    pub url: Address,
    /// First part of every key.
    pub key_prefix: String,
    /// Time limit of one command.
    pub command_timeout_ms: Millis,
    /// PEM file of the authority that signed the server's certificate; empty: the system's authorities.
    pub tls_ca: String,
    /// PEM file of the client's certificate; empty: none.
    pub tls_client_cert: String,
    /// PEM file of the client's key; empty: none.
    pub tls_client_key: String,
}

/// `[broker]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broker {
    /// Where the broker is.
    pub url: Address,
    /// First part of every exchange's and queue's name.
    pub name_prefix: String,
    /// Whether to declare the topology, or only to verify it.
    pub declare: bool,
    /// Messages in memory of one worker.
    pub prefetch: u16,
    /// Bodies in memory of one worker, bytes.
    pub prefetch_bytes: usize,
    /// Deliveries after which the broker dead-letters a message itself.
    pub delivery_limit: u32,
    /// Time limit of one call.
    pub call_timeout_ms: Millis,
    /// Largest body that is read.
    pub max_message_bytes: usize,
    /// PEM file of the authority that signed the server's certificate; empty: the system's authorities.
    pub tls_ca: String,
    /// PEM file of the client's certificate; empty: none.
    pub tls_client_cert: String,
    /// PEM file of the client's key; empty: none.
    pub tls_client_key: String,
}

/// `[lease]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// A lease ends by itself after this time.
    pub ttl_ms: Millis,
    /// A lease is trusted until its TTL minus this margin.
    pub safety_margin_ms: Millis,
    /// How long an order waits in memory for a held SKU.
    pub wait_ms: Millis,
    /// A SKU's counter is forgotten after this idle time.
    pub fence_idle_ms: Millis,
}

/// `[batch]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The most orders in one transaction.
    pub max_orders: usize,
    /// The most order lines in one transaction.
    pub max_lines: usize,
    /// Batches in work at the same time.
    pub max_in_flight: usize,
}

/// `[retry]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The delay queues.
    pub delays_ms: Vec<u64>,
    /// Passes through the delay queues before an order is rejected as lost.
    pub max_attempts: u32,
}

/// `[order]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The most lines of one order.
    pub max_lines: usize,
    /// The most units of one SKU in one order.
    pub max_quantity: i64,
    /// How long a reservation without `hold_seconds` is held; zero: until it is released.
    pub hold_ms: Millis,
}

/// `[admin]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Address of the HTTP listener, see [`Admin::address`]; empty: off.
    pub listen: String,
}

/// `[startup]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Startup {
    /// How long to wait for services at start.
    pub wait_ms: Millis,
}

/// `[shutdown]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// How long work in flight may take to finish.
    pub grace_ms: Millis,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// For people or for programs.
    pub format: LogFormat,
    /// Which lines.
    pub filter: String,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// A whole number of milliseconds in a settings file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// The same time as a [`Duration`].
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl Settings {
    /// Loads the layers over each other and validates the result.
    ///
    /// `file` is `--config`; without it `config/$LASTUNIT_ENV.toml` is read when `LASTUNIT_ENV` is set. `env` is the
    /// process's environment.
    ///
    /// # Errors
    /// Any [`Error`]: nothing has been opened yet.
    pub fn load(file: Option<&Path>, env: impl IntoIterator<Item = (String, String)>) -> Result<Self, Error> {
        let (settings, mut problems) = layers(file, env)?.build()?;
        problems.extend(settings.problems());
        if problems.is_empty() { Ok(settings) } else { Err(Error::Invalid(problems)) }
    }
}

/// The form of log lines, from the same layers, whatever else is wrong with them: a program that cannot use its settings
/// says so in that form.
#[must_use]
pub fn log_format(file: Option<&Path>, env: impl IntoIterator<Item = (String, String)>) -> LogFormat {
    let settings = layers(file, env).and_then(Layers::build);
    settings.map_or(LogFormat::Pretty, |(settings, _problems)| settings.log.format)
}

fn layers(file: Option<&Path>, env: impl IntoIterator<Item = (String, String)>) -> Result<Layers, Error> {
    let env: BTreeMap<String, String> = env.into_iter().collect();
    let mut layers = Layers::over(DEFAULT)?;
    let named = env.get("LASTUNIT_ENV").filter(|name| !name.is_empty());
    let named = named.map(|name| PathBuf::from(format!("config/{name}.toml")));
    if let Some(path) = named.as_ref().filter(|path| file.is_none() && !path.exists()) {
        let path = path.display();
        return Err(Error::Unreadable(format!("LASTUNIT_ENV names {path}, which is not there in the current folder")));
    }
    if let Some(path) = file.map(Path::to_owned).or(named) {
        if path.is_dir() {
            return Err(Error::Unreadable(format!("{} is a directory, not a file of settings", path.display())));
        }
        layers.add_file(&path)?;
    }
    layers.add_environment(env)?;
    Ok(layers)
}

impl From<config::ConfigError> for Error {
    fn from(fault: config::ConfigError) -> Self {
        // It quotes values and lines of files.
        Self::Unreadable(address::without_passwords(&fault.to_string()))
    }
}

#[cfg(test)]
mod tests;
