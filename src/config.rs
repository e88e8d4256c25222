//! Settings: an embedded default, then a file, then the environment; validated as a whole before anything opens.
//!
//! [`Settings::load`] is the only way in. `config/default.toml` documents every key.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// The embedded default settings, as TOML.
pub const DEFAULT: &str = include_str!("../config/default.toml");

const ENV_PREFIX: &str = "LASTUNIT__";
const LIST_KEYS: [&str; 1] = ["retry.delays_ms"];
/// The largest size of a batch that every supported database takes in one statement.
const MAX_BATCH: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;

/// Why the settings cannot be used. Each ends the program with exit code 78.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A layer could not be read, or holds an unknown key or a value of the wrong type.
    #[error("settings: {0}")]
    Unreadable(#[from] config::ConfigError),
    /// A `_FILE` variable names a file that cannot be read.
    #[error("settings: {variable} names {path}, which cannot be read: {source}")]
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

/// A service's URL. Printing it, for people or for debugging, never shows the password.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

impl Address {
    /// Wraps a URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The URL with its password: for opening a connection, never for printing.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// The scheme, in lower case: what stands before the first colon.
    #[must_use]
    pub fn scheme(&self) -> String {
        self.0.split(':').next().unwrap_or_default().to_ascii_lowercase()
    }

    /// Whether the host is this one: a loopback address, `localhost`, or none at all.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let Ok(url) = url::Url::parse(&self.0) else { return false };
        match url.host_str() {
            None | Some("" | "localhost") => true,
            Some(host) => host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://") else { return f.write_str("(not a URL)") };
        // What stands before the last @ may hold a secret; so may a query.
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let place = place.split('?').next().unwrap_or_default();
        let user = rest.rsplit_once('@').map(|(who, _)| who.split(':').next().unwrap_or_default());
        match user {
            Some(user) => write!(f, "{scheme}://{user}:***@{place}"),
            None => write!(f, "{scheme}://{place}"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
        let mut variables = config::Environment::with_prefix("LASTUNIT")
            .prefix_separator("__")
            .separator("__")
            .try_parsing(true)
            .list_separator(",")
            .source(Some(read_secrets(env)?));
        for key in LIST_KEYS {
            variables = variables.with_list_parse_key(key);
        }
        let settings: Self = layers.add_source(variables).build()?.try_deserialize()?;
        settings.validate()?;
        Ok(settings)
    }

    /// Checks all values, alone and together.
    fn validate(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        self.validate_services(&mut problems);
        self.validate_times(&mut problems);
        self.validate_sizes(&mut problems);
        if problems.is_empty() { Ok(()) } else { Err(Error::Invalid(problems)) }
    }

    fn validate_services(&self, problems: &mut Vec<String>) {
        let mut check = |ok: bool, problem: String| {
            if !ok {
                problems.push(problem);
            }
        };
        let database = self.database.url.scheme();
        check(
            ["sqlite", "postgres", "postgresql", "mysql", "mariadb"].contains(&database.as_str()),
            format!("database.url is {}: its scheme must be sqlite, postgres or mysql", self.database.url),
        );
        check(
            ["redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"]
                .contains(&self.redis.url.scheme().as_str()),
            format!(
                "redis.url is {}: its scheme must be redis, rediss, redis+cluster or redis+sentinel",
                self.redis.url
            ),
        );
        check(
            ["amqp", "amqps"].contains(&self.broker.url.scheme().as_str()),
            format!("broker.url is {}: its scheme must be amqp or amqps", self.broker.url),
        );
        check(
            database != "sqlite" || self.database.allow_sqlite || self.broker.url.is_loopback(),
            format!(
                "database.url is an embedded SQLite file, but the broker {} is on another host: workers with a file each \
                 would sell the same stock twice. Use a database server, or set database.allow_sqlite = true if all \
                 workers share this one file",
                self.broker.url
            ),
        );
        let prefix = &self.redis.key_prefix;
        check(
            !prefix.is_empty() && prefix.len() <= 100 && !prefix.contains(['{', '}']),
            format!("redis.key_prefix is {prefix:?}: it must be 1 to 100 bytes without braces"),
        );
        let prefix = &self.broker.name_prefix;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        check(
            !prefix.is_empty() && prefix.len() <= 100 && prefix.chars().all(plain) && !prefix.starts_with("amq."),
            format!(
                "broker.name_prefix is {prefix:?}: it must be 1 to 100 of A-Z a-z 0-9 - _ . and not begin with amq."
            ),
        );
        check(
            self.admin.listen.is_empty() || self.admin.listen.parse::<std::net::SocketAddr>().is_ok(),
            format!("admin.listen is {:?}: it must be IP:PORT, or empty", self.admin.listen),
        );
    }

    fn validate_times(&self, problems: &mut Vec<String>) {
        let lease = &self.lease;
        let positive = [
            ("database.acquire_timeout_ms", self.database.acquire_timeout_ms),
            ("database.statement_timeout_ms", self.database.statement_timeout_ms),
            ("redis.command_timeout_ms", self.redis.command_timeout_ms),
            ("broker.call_timeout_ms", self.broker.call_timeout_ms),
            ("lease.ttl_ms", lease.ttl_ms),
            ("lease.wait_ms", lease.wait_ms),
        ];
        for (key, value) in positive {
            if value.0 == 0 {
                problems.push(format!("{key} is 0: it must be at least 1 ms"));
            }
        }
        if lease.safety_margin_ms >= lease.ttl_ms {
            problems.push(format!(
                "lease.safety_margin_ms ({}) must be less than lease.ttl_ms ({}): no lease would ever be trusted",
                lease.safety_margin_ms.0, lease.ttl_ms.0
            ));
        }
        if lease.fence_idle_ms.0 < HOUR_MS {
            problems.push(format!(
                "lease.fence_idle_ms is {}: it must be at least {HOUR_MS} (an hour), because each return of a forgotten SKU costs an epoch",
                lease.fence_idle_ms.0
            ));
        }
        if lease.fence_idle_ms < lease.ttl_ms {
            problems.push("lease.fence_idle_ms must not be less than lease.ttl_ms".into());
        }
        if self.retry.delays_ms.is_empty() || self.retry.delays_ms.contains(&0) {
            problems.push("retry.delays_ms must list at least one delay, each at least 1 ms".into());
        }
    }

    fn validate_sizes(&self, problems: &mut Vec<String>) {
        let batch = &self.batch;
        let within = [
            ("database.max_connections", u64::from(self.database.max_connections), 1, 10_000),
            ("broker.prefetch", u64::from(self.broker.prefetch), 1, u64::from(u16::MAX)),
            ("broker.delivery_limit", u64::from(self.broker.delivery_limit), 4, 1_000_000_000),
            ("broker.max_message_bytes", self.broker.max_message_bytes as u64, 64, 16 << 20),
            ("batch.max_orders", batch.max_orders as u64, 1, MAX_BATCH as u64),
            ("batch.max_lines", batch.max_lines as u64, 1, MAX_BATCH as u64),
            ("batch.max_in_flight", batch.max_in_flight as u64, 1, 1_000),
            ("retry.max_attempts", u64::from(self.retry.max_attempts), 1, 1_000_000),
            ("order.max_lines", self.order.max_lines as u64, 1, MAX_BATCH as u64),
            ("order.max_quantity", self.order.max_quantity.cast_unsigned(), 1, 1 << 40),
        ];
        for (key, value, least, most) in within {
            if !(least..=most).contains(&value) {
                problems.push(format!("{key} is {value}: it must be from {least} to {most}"));
            }
        }
    }
}

/// A list; from the environment, one number alone is a list of one.
fn list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Numbers {
        One(u64),
        Many(Vec<u64>),
    }
    Ok(match Numbers::deserialize(deserializer)? {
        Numbers::One(number) => vec![number],
        Numbers::Many(numbers) => numbers,
    })
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
mod tests {
    use super::*;

    fn load(env: &[(&str, &str)]) -> Result<Settings, Error> {
        Settings::load(None, env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
    }

    fn problem(env: &[(&str, &str)]) -> String {
        load(env).expect_err("refused").to_string()
    }

    #[test]
    fn defaults_work() {
        let settings = load(&[]).expect("valid");
        assert_eq!((settings.lease.ttl_ms, settings.retry.delays_ms.len()), (Millis(5000), 4));
    }

    #[test]
    fn the_environment_lies_over_the_defaults() {
        let settings = load(&[
            ("LASTUNIT__LEASE__TTL_MS", "7000"),
            ("LASTUNIT__RETRY__DELAYS_MS", "100,200"),
            ("LASTUNIT__BROKER__NAME_PREFIX", "42"),
            ("LASTUNIT_ENV", ""),
            ("OTHER__LEASE__TTL_MS", "1"),
        ]);
        let settings = settings.expect("valid");
        assert_eq!(settings.lease.ttl_ms, Millis(7000));
        assert_eq!(settings.retry.delays_ms, [100, 200]);
        assert_eq!(settings.broker.name_prefix, "42");
    }

    #[test]
    fn a_list_of_one_needs_no_comma() {
        assert_eq!(load(&[("LASTUNIT__RETRY__DELAYS_MS", "50")]).expect("valid").retry.delays_ms, [50]);
    }

    #[test]
    fn a_secret_is_read_from_the_file_that_a_variable_names() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, "redis://:s3cret@redis:6379\n").expect("written");
        let path = file.path().to_string_lossy();
        let settings = load(&[("LASTUNIT__REDIS__URL_FILE", &path)]).expect("valid");
        assert_eq!(settings.redis.url.secret(), "redis://:s3cret@redis:6379");
        let missing = problem(&[("LASTUNIT__REDIS__URL_FILE", "/nowhere")]);
        assert!(missing.contains("LASTUNIT__REDIS__URL_FILE") && missing.contains("/nowhere"), "{missing}");
    }

    #[test]
    fn unknown_keys_and_wrong_types_are_refused_by_name() {
        assert!(problem(&[("LASTUNIT__LEASE__TTL", "1")]).contains("ttl"));
        assert!(problem(&[("LASTUNIT__LEASE__TTL_MS", "soon")]).contains("ttl_ms"));
    }

    #[test]
    fn values_that_cannot_work_are_refused_all_at_once() {
        let problems = problem(&[
            ("LASTUNIT__LEASE__TTL_MS", "500"),
            ("LASTUNIT__LEASE__FENCE_IDLE_MS", "1000"),
            ("LASTUNIT__REDIS__KEY_PREFIX", "a{b}"),
            ("LASTUNIT__BATCH__MAX_ORDERS", "0"),
        ]);
        for key in ["lease.safety_margin_ms", "lease.fence_idle_ms", "redis.key_prefix", "batch.max_orders"] {
            assert!(problems.contains(key), "{problems}");
        }
    }

    #[test]
    fn an_embedded_database_is_for_one_host() {
        let remote = ("LASTUNIT__BROKER__URL", "amqp://u:p@rabbit.example:5672/%2f");
        assert!(problem(&[remote]).contains("database.allow_sqlite"));
        assert!(load(&[remote, ("LASTUNIT__DATABASE__ALLOW_SQLITE", "true")]).is_ok());
        assert!(load(&[("LASTUNIT__BROKER__URL", "amqp://u:p@[::1]:5672/%2f")]).is_ok());
    }

    #[test]
    fn printing_an_address_never_shows_a_password() {
        for (url, shown) in [
            ("amqp://guest:s3cret@host:5672/%2f", "amqp://guest:***@host:5672/%2f"),
            ("postgres://u:s3cret@host/db?sslpassword=s3cret", "postgres://u:***@host/db"),
            ("redis://:s3cret@host:6379", "redis://:***@host:6379"),
            ("redis://u:s3c@ret@host:6379", "redis://u:***@host:6379"),
            ("sqlite://lastunit.db?mode=rwc", "sqlite://lastunit.db"),
            ("s3cret", "(not a URL)"),
        ] {
            assert_eq!(Address::new(url).to_string(), shown);
            assert_eq!(format!("{:?}", Address::new(url)), shown);
        }
    }
}
