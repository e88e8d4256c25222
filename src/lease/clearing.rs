//! Takes every key under a prefix away: for the demo and the bench, which have a prefix of their own. Never for a worker's.

use super::Error;
use crate::config;

/// The least that a fence may be kept (`lease.fence_idle_ms`): where keys cannot be deleted they are gone soon after.
pub const SHORTEST_FENCE_IDLE_MS: u32 = 3_600_000;
/// Keys deleted at once.
const AT_ONCE: usize = 1000;

/// Deletes all keys under the prefix from a single server. Elsewhere (Cluster, Sentinel) they end by themselves, the last
/// ones after `lease.fence_idle_ms`.
///
/// # Errors
/// [`Error::Unavailable`].
pub async fn delete_keys(redis: &config::Redis) -> Result<(), Error> {
    let Ok(client) = redis::Client::open(redis.url.secret()) else { return Ok(()) };
    let deleted = delete(&client, &format!("{}:*", redis.key_prefix)).await;
    deleted.map_err(|fault| Error::Unavailable(format!("keys could not be deleted: {fault}")))
}

async fn delete(client: &redis::Client, pattern: &str) -> redis::RedisResult<()> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(AT_ONCE);
        let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut connection).await?;
        if !keys.is_empty() {
            redis::cmd("UNLINK").arg(keys).exec_async(&mut connection).await?;
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}
