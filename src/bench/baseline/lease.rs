//! The lease of the textbooks: `SET NX PX` and `INCR`, and a script that deletes what is still one's own.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, Script};
use uuid::Uuid;

use super::super::Error;
use crate::config;
use crate::retry::Backoff;

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
/// Between two attempts at a lease that another task holds. With 32 tasks after one SKU somebody asks every millisecond;
/// asking more often costs more than it gains.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(25);

/// Takes and gives back leases, on one connection for all tasks.
pub(super) struct Leases {
    connection: MultiplexedConnection,
    prefix: String,
    ttl_ms: u64,
    release: Script,
}

/// The leases of one order.
pub(super) struct Held {
    owner: String,
    keys: Vec<String>,
    /// A token per SKU, in the sequence asked for.
    pub(super) tokens: Vec<i64>,
}

impl Leases {
    pub(super) async fn connect(settings: &config::Redis, ttl_ms: u64) -> Result<Self, Error> {
        let client = Client::open(settings.url.secret())?;
        let connection = client.get_multiplexed_async_connection().await?;
        Ok(Self { connection, prefix: settings.key_prefix.clone(), ttl_ms, release: Script::new(RELEASE) })
    }

    /// One lease after the other, each as soon as it is free.
    pub(super) async fn acquire<'a>(&self, skus: impl Iterator<Item = &'a str>) -> Result<Held, Error> {
        let mut held = Held { owner: Uuid::new_v4().to_string(), keys: Vec::new(), tokens: Vec::new() };
        for sku in skus {
            let key = format!("{}:{{{sku}}}:base-lease", self.prefix);
            held.tokens.push(self.acquire_one(&key, &held.owner, sku).await?);
            held.keys.push(key);
        }
        Ok(held)
    }

    async fn acquire_one(&self, key: &str, owner: &str, sku: &str) -> Result<i64, Error> {
        let mut connection = self.connection.clone();
        let fence = format!("{}:{{{sku}}}:base-fence", self.prefix);
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        loop {
            // Both in one round trip; a token that goes with no lease is skipped.
            let mut both = redis::pipe();
            both.cmd("SET").arg(key).arg(owner).arg("NX").arg("PX").arg(self.ttl_ms).cmd("INCR").arg(&fence);
            let (taken, token): (Option<String>, i64) = both.query_async(&mut connection).await?;
            if taken.is_some() {
                return Ok(token);
            }
            backoff.wait().await;
        }
    }

    /// All at once. One that has ended meanwhile is not ours to give back.
    pub(super) async fn release(&self, held: Held) -> Result<(), Error> {
        let mut connection = self.connection.clone();
        if let [key] = &held.keys[..] {
            let _freed: u64 = self.release.key(key).arg(&held.owner).invoke_async(&mut connection).await?;
            return Ok(());
        }
        let mut all = redis::pipe();
        for key in &held.keys {
            all.cmd("EVAL").arg(RELEASE).arg(1).arg(key).arg(&held.owner);
        }
        let _freed: Vec<u64> = all.query_async(&mut connection).await?;
        Ok(())
    }
}
