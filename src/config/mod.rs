//! Settings: an embedded default, then a file, then the environment; validated as a whole before anything opens.
//!
//! [`Settings::load`] is the only way in. `config/default.toml` documents every key.

mod address;
mod tls;
mod validate;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

pub use address::Address;
pub(crate) use tls::certificate_hint;

/// The embedded default settings, as TOML.
pub const DEFAULT: &str = include_str!("../../config/default.toml");

const ENV_PREFIX: &str = "LASTUNIT__";

/// Why the settings cannot be used. Each ends the program with exit code 78.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A layer could not be read, or holds an unknown key or a value of the wrong type.
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
    /// Values that cannot work, alone or together; one line per problem.
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
    #[serde(deserialize_with = "list")]
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
    /// Address of the HTTP listener; empty: off.
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
        let env: HashMap<String, String> = env.into_iter().collect();
        let mut layers =
            config::Config::builder().add_source(config::File::from_str(DEFAULT, config::FileFormat::Toml));
        let named = env.get("LASTUNIT_ENV").filter(|name| !name.is_empty());
        if let Some(path) = file.map(Path::to_owned).or(named.map(|name| format!("config/{name}.toml").into())) {
            layers = layers.add_source(config::File::from(path).format(config::FileFormat::Toml));
        }
        let variables = config::Environment::with_prefix("LASTUNIT")
            .prefix_separator("__")
            .separator("__")
            .try_parsing(true)
            .source(Some(read_secrets(env)?));
        let settings: Self = layers.add_source(variables).build()?.try_deserialize()?;
        settings.validate()?;
        Ok(settings)
    }
}

impl From<config::ConfigError> for Error {
    fn from(fault: config::ConfigError) -> Self {
        // It quotes values and lines of files.
        Self::Unreadable(address::without_passwords(&fault.to_string()))
    }
}

/// A list; in the environment its numbers are separated by commas.
fn list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Numbers {
        One(u64),
        Many(Vec<u64>),
        Text(String),
    }
    match Numbers::deserialize(deserializer)? {
        Numbers::One(number) => Ok(vec![number]),
        Numbers::Many(numbers) => Ok(numbers),
        Numbers::Text(text) => {
            text.split(',').map(|number| number.trim().parse().map_err(serde::de::Error::custom)).collect()
        }
    }
}

/// Puts the content of each file named by a `…_FILE` variable in place of that variable.
fn read_secrets(env: HashMap<String, String>) -> Result<HashMap<String, String>, Error> {
    let mut values = HashMap::new();
    for (variable, value) in env {
        match variable.strip_suffix("_FILE") {
            Some(key) if variable.starts_with(ENV_PREFIX) => {
                let path = PathBuf::from(value);
                let secret = std::fs::read_to_string(&path).map_err(|source| Error::Secret {
                    variable: variable.clone(),
                    path,
                    source,
                })?;
                values.insert(key.to_owned(), secret.trim_end_matches(['\r', '\n']).to_owned());
            }
            _ => {
                values.entry(variable).or_insert(value);
            }
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests;
