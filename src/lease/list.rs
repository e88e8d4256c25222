//! Who holds what, for people: `lastunit leases`.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, FromRedisValue as _, RedisResult, from_redis_value};

use super::keys::LeaseText;
use super::link::{Channel, Session};
use super::scripts::{Call, Script, lines_of, unreadable};
use super::{Attempt, Error, Leases};
use crate::fence::FenceToken;
use crate::order::Sku;

/// Keys that one step of a scan looks at, more or less.
const SCAN_COUNT: u32 = 1_000;

/// A lease as it was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holding {
    /// Of what.
    pub sku: Sku,
    /// Whose, as the worker calls itself.
    pub holder: String,
    /// Granted under this name.
    pub attempt: Attempt,
    /// With this token.
    pub token: FenceToken,
    /// Until it ends by itself.
    pub remaining: Duration,
    /// Whether the server that granted it is still the same. If not, it holds nobody up.
    pub is_current: bool,
}

/// A cursor, 0 at the end, and keys.
type Page = (u64, Vec<Vec<u8>>);

impl Leases {
    /// All leases under the key prefix, by SKU. Leases that come and go meanwhile may be missed.
    ///
    /// Walks through the whole key space of the server in small steps: for people, not for workers.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list(&self) -> Result<Vec<Holding>, Error> {
        let session = self.link().open().await?;
        let keys = match scan(&session, &self.keys().lease_pattern()).await {
            Ok(keys) => keys,
            Err(error) => return Err(self.link().fault(&session, &error).await),
        };
        let inspect = Script::inspect();
        let chunks = keys.chunks(self.link().skus_per_call());
        let calls: Vec<_> = chunks.clone().map(Call::inspect).collect();
        let replies: Vec<Vec<String>> = self.call(&inspect, &calls).await?;
        // A scan may name a key twice.
        let mut holdings = BTreeMap::new();
        for (chunk, reply) in chunks.zip(replies) {
            let (here, lines) = lines_of(&reply, chunk.len() * 2)?;
            for (key, pair) in chunk.iter().zip(lines.chunks(2)) {
                if let Some(holding) = self.read(here, key, &pair[0], &pair[1])? {
                    holdings.insert(holding.sku.clone(), holding);
                }
            }
        }
        Ok(holdings.into_values().collect())
    }

    /// `None` for a lease that has ended, and for what is none of ours.
    fn read(&self, here: &str, key: &str, value: &str, remaining_ms: &str) -> Result<Option<Holding>, Error> {
        let remaining: i64 = remaining_ms.parse().map_err(|_| unreadable(remaining_ms))?;
        let (Some(sku), Some(lease), Ok(remaining)) =
            (self.keys().sku(key), LeaseText::parse(value), u64::try_from(remaining))
        else {
            return Ok(None);
        };
        Ok(Some(Holding {
            sku,
            holder: lease.holder,
            attempt: lease.attempt,
            token: lease.token,
            remaining: Duration::from_millis(remaining),
            is_current: lease.incarnation == here,
        }))
    }
}

/// All keys that match a pattern, on every master of a Cluster.
async fn scan(session: &Session, pattern: &str) -> RedisResult<Vec<String>> {
    let mut keys = Vec::new();
    match session.channel.clone() {
        Channel::Server(_) => {
            let mut cursor = 0;
            loop {
                let (next, page): Page = session.send(&step(cursor, pattern)).await?;
                keys.extend(page);
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        Channel::Cluster(connection) => scan_cluster(connection, pattern, &mut keys).await?,
    }
    // Our keys are ASCII.
    Ok(keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect())
}

async fn scan_cluster(mut cluster: ClusterConnection, pattern: &str, keys: &mut Vec<Vec<u8>>) -> RedisResult<()> {
    let everywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
    let first = cluster.route_command(step(0, pattern), everywhere).await?;
    let first: BTreeMap<String, redis::Value> = from_redis_value(first)?;
    for (master, page) in first {
        let (mut cursor, page) = Page::from_redis_value(page)?;
        keys.extend(page);
        while cursor != 0 {
            let page = cluster.route_command(step(cursor, pattern), only(&master)).await?;
            let (next, page) = Page::from_redis_value(page)?;
            keys.extend(page);
            cursor = next;
        }
    }
    Ok(())
}

/// The node with the address `HOST:PORT`, as the client itself wrote it.
fn only(master: &str) -> RoutingInfo {
    let (host, port) = master.rsplit_once(':').unwrap_or((master, ""));
    let port = port.parse().unwrap_or_default();
    RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port })
}

fn step(cursor: u64, pattern: &str) -> Cmd {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_COUNT);
    scan
}
