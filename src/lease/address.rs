//! Reads `redis.url`: one server, a Cluster, or the Sentinels of a master.
//!
//! * `redis://[USER][:PASSWORD@]HOST[:PORT][/DB]`
//! * `redis+cluster://[USER][:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]`
//! * `redis+sentinel://[USER][:PASSWORD@]HOST[:PORT][,…]/MASTER[/DB]`; user and password are the server's own, those of
//!   the Sentinels may follow as `?sentinel_username=…&sentinel_password=…`
//!
//! `rediss` in place of `redis` means TLS, to the Sentinels too. User and password are percent-encoded.

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo as _, TlsCertificates, TlsMode};
use url::Url;

use super::Error;
use crate::config;

const SENTINEL_PORT: u16 = 26379;

/// What to connect to.
pub(super) enum Target {
    /// One server.
    Server(Box<Client>),
    /// Whatever server the Sentinels call the master.
    Sentinel(Box<SentinelClient>),
    /// All masters of a Cluster.
    Cluster(Box<ClusterClient>),
}

/// Reads the address and its certificates; connects to nothing yet.
pub(super) fn read(settings: &config::Redis) -> Result<Target, Error> {
    let url = settings.url.secret();
    let certificates = read_certificates(settings)?;
    match settings.url.scheme().as_str() {
        "redis+cluster" | "rediss+cluster" => cluster(settings, certificates),
        "redis+sentinel" | "rediss+sentinel" => sentinel(settings, certificates),
        "rediss" => {
            let certificates = certificates.unwrap_or(TlsCertificates { client_tls: None, root_cert: None });
            Client::build_with_tls(url, certificates)
                .map(|client| Target::Server(Box::new(client)))
                .map_err(|error| wrong(settings, &error.to_string()))
        }
        _plain => Client::open(url)
            .map(|client| Target::Server(Box::new(client)))
            .map_err(|error| wrong(settings, &error.to_string())),
    }
}

fn cluster(settings: &config::Redis, certificates: Option<TlsCertificates>) -> Result<Target, Error> {
    let parts = Parts::read(settings)?;
    let limit = settings.command_timeout_ms.duration();
    let nodes = parts.nodes.iter().map(|node| format!("{}://{}{node}", parts.scheme, parts.login));
    let mut builder = ClusterClientBuilder::new(nodes)
        // By itself the client repeats a command up to 16 times, after a lost connection too: a seed would be sent twice.
        .retries(0)
        .connection_timeout(limit)
        .response_timeout(limit)
        .overall_response_timeout(Some(limit));
    if let Some(certificates) = certificates.filter(|_| parts.is_tls()) {
        builder = builder.certs(certificates);
    }
    builder.build().map(|client| Target::Cluster(Box::new(client))).map_err(|error| wrong(settings, &error.to_string()))
}

fn sentinel(settings: &config::Redis, certificates: Option<TlsCertificates>) -> Result<Target, Error> {
    let parts = Parts::read(settings)?;
    let (master, db) = parts.path.split_once('/').unwrap_or((&parts.path, "0"));
    let db = db.parse().map_err(|_| wrong(settings, "the database after the master's name is not a number"))?;
    if master.is_empty() {
        return Err(wrong(settings, "the master's name is missing: redis+sentinel://HOST:PORT/MASTER"));
    }
    let addresses = parts.nodes.iter().map(|node| parts.address(node, settings)).collect::<Result<Vec<_>, _>>()?;
    let build = || {
        let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?;
        builder = builder.set_client_to_redis_db(db);
        if parts.is_tls() {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
            if let Some(certificates) = certificates {
                builder = builder.set_client_to_redis_certificates(certificates.clone());
                builder = builder.set_client_to_sentinel_certificates(certificates);
            }
        }
        parts.log_in(builder)?.build()
    };
    build()
        .map(|client| Target::Sentinel(Box::new(client)))
        .map_err(|error: redis::RedisError| wrong(settings, &error.to_string()))
}

/// An address with several hosts, which no URL library reads.
struct Parts {
    /// `redis` or `rediss`.
    scheme: &'static str,
    /// `USER:PASSWORD@`, percent-encoded, or nothing.
    login: String,
    nodes: Vec<String>,
    path: String,
    query: String,
}

impl Parts {
    fn read(settings: &config::Redis) -> Result<Self, Error> {
        let (scheme, rest) =
            settings.url.secret().split_once("://").ok_or_else(|| wrong(settings, "it is not a URL"))?;
        let scheme = if scheme.to_ascii_lowercase().starts_with("rediss") { "rediss" } else { "redis" };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let nodes: Vec<_> = hosts.split(',').map(str::to_owned).collect();
        if nodes.iter().any(String::is_empty) {
            return Err(wrong(settings, "a host is missing"));
        }
        let login = if login.is_empty() { String::new() } else { format!("{login}@") };
        Ok(Self { scheme, login, nodes, path: path.to_owned(), query: query.to_owned() })
    }

    fn is_tls(&self) -> bool {
        self.scheme == "rediss"
    }

    /// The address of a Sentinel.
    fn address(&self, node: &str, settings: &config::Redis) -> Result<ConnectionAddr, Error> {
        let url =
            Url::parse(&format!("{}://{node}", self.scheme)).map_err(|error| wrong(settings, &error.to_string()))?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = url.port().unwrap_or(SENTINEL_PORT);
        Ok(if self.is_tls() {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        })
    }

    /// Hands users and passwords to the builder.
    fn log_in(&self, mut builder: SentinelClientBuilder) -> redis::RedisResult<SentinelClientBuilder> {
        // The library decodes what a plain URL holds; any host does.
        let info = format!("redis://{}localhost", self.login).into_connection_info()?;
        if let Some(user) = info.redis_settings().username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = info.redis_settings().password() {
            builder = builder.set_client_to_redis_password(password);
        }
        for (key, value) in url::form_urlencoded::parse(self.query.as_bytes()) {
            builder = match &*key {
                "sentinel_username" => builder.set_client_to_sentinel_username(value),
                "sentinel_password" => builder.set_client_to_sentinel_password(value),
                _foreign => builder,
            };
        }
        Ok(builder)
    }
}

fn read_certificates(settings: &config::Redis) -> Result<Option<TlsCertificates>, Error> {
    let file = |key: &str, path: &String| match path.as_str() {
        "" => Ok(None),
        path => std::fs::read(path)
            .map(Some)
            .map_err(|error| Error::Failed(format!("redis.{key} names {path:?}, which cannot be read: {error}"))),
    };
    let root_cert = file("tls_ca", &settings.tls_ca)?;
    let client_cert = file("tls_client_cert", &settings.tls_client_cert)?;
    let client_key = file("tls_client_key", &settings.tls_client_key)?;
    let client_tls = match (client_cert, client_key) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(Error::Failed("redis.tls_client_cert and redis.tls_client_key go together: set both".into()));
        }
    };
    Ok((root_cert.is_some() || client_tls.is_some()).then_some(TlsCertificates { client_tls, root_cert }))
}

fn wrong(settings: &config::Redis, what: &str) -> Error {
    Error::Failed(format!("redis.url is {}: {what}", settings.url))
}
