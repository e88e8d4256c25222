//! The connection: made when needed, shared by all tasks, dropped when it breaks. It never repeats a command.
//!
//! The library's own connection manager is not used: the same few lines serve one server, a Cluster and Sentinel alike,
//! and here it can be seen that nothing is sent twice.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisError, RedisResult};
use tokio::sync::Mutex;

use super::address::{self, Target};
use super::{Error, faults};
use crate::config;

/// SKUs in one call: one call's constant costs are shared by many, and no call blocks the server for long.
const SKUS_PER_CALL: usize = 64;
/// A new connection takes several steps: asking Sentinels, logging in, asking a Cluster for its slots.
const STEPS: u32 = 4;

/// A link to the lease server.
pub(super) struct Link {
    address: String,
    is_cluster: bool,
    settings: config::Redis,
    limit: Duration,
    state: Mutex<State>,
}

struct State {
    target: Target,
    session: Option<Session>,
    opened: u64,
}

/// One connection, as long as it lives. Cheap to clone; commands of all clones travel together.
#[derive(Clone)]
pub(super) struct Session {
    number: u64,
    pub(super) channel: Channel,
}

/// What commands travel on.
#[derive(Clone)]
pub(super) enum Channel {
    /// To one server.
    Server(MultiplexedConnection),
    /// To all masters of a Cluster.
    Cluster(ClusterConnection),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.address).finish()
    }
}

impl Link {
    /// Reads the settings; connects to nothing yet.
    pub(super) fn new(settings: &config::Redis) -> Result<Self, Error> {
        let target = address::read(settings)?;
        Ok(Self {
            address: settings.url.to_string(),
            is_cluster: matches!(target, Target::Cluster(_)),
            settings: settings.clone(),
            limit: settings.command_timeout_ms.duration(),
            state: Mutex::new(State { target, session: None, opened: 0 }),
        })
    }

    /// How many SKUs one call may name. On a Cluster each SKU has its slot, and a script may touch only one.
    pub(super) const fn skus_per_call(&self) -> usize {
        if self.is_cluster { 1 } else { SKUS_PER_CALL }
    }

    /// The living connection, or a new one.
    pub(super) async fn open(&self) -> Result<Session, Error> {
        let mut state = self.state.lock().await;
        if let Some(session) = &state.session {
            return Ok(session.clone());
        }
        let channel = tokio::time::timeout(self.limit * STEPS, connect(&mut state.target, self.limit))
            .await
            .unwrap_or_else(|_| Err(RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))))
            .map_err(|error| self.name(self.explain_handshake(faults::classify(&error))))?;
        state.opened += 1;
        let session = Session { number: state.opened, channel };
        tracing::debug!(redis.address = %self.address, redis.session = session.number, "connected to redis");
        state.session = Some(session.clone());
        Ok(session)
    }

    /// Says what an error of `session` means, and drops the connection if that is over.
    pub(super) async fn fault(&self, session: &Session, error: &RedisError) -> Error {
        if faults::ends_link(error) {
            let mut state = self.state.lock().await;
            // Another task may have connected anew meanwhile.
            state.session.take_if(|current| current.number == session.number);
        }
        self.name(faults::classify(error))
    }

    fn explain_handshake(&self, error: Error) -> Error {
        let Error::Unavailable(text) = error else { return error };
        let is_encrypted = self.settings.url.scheme().starts_with("rediss");
        let hint = config::certificate_hint("redis", is_encrypted, &self.settings.tls_client_cert, &text);
        Error::Unavailable(text + &hint.unwrap_or_default())
    }

    fn name(&self, error: Error) -> Error {
        match error {
            Error::Unavailable(what) => Error::Unavailable(format!("{what} ({})", self.address)),
            Error::Failed(what) => Error::Failed(format!("{what} ({})", self.address)),
        }
    }
}

async fn connect(target: &mut Target, limit: Duration) -> RedisResult<Channel> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(Some(limit));
    match target {
        Target::Server(client) => {
            client.get_multiplexed_async_connection_with_config(&config).await.map(Channel::Server)
        }
        Target::Sentinel(client) => client.get_async_connection_with_config(&config).await.map(Channel::Server),
        Target::Cluster(client) => client.get_async_connection().await.map(Channel::Cluster),
    }
}

impl Session {
    /// Sends a command once and waits for its reply.
    pub(super) async fn send<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        match self.channel.clone() {
            Channel::Server(mut connection) => command.query_async(&mut connection).await,
            Channel::Cluster(mut connection) => command.query_async(&mut connection).await,
        }
    }
}
