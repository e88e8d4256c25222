//! The server stays, its keys go.

use super::rush::Rush;
use crate::support::wait::equal;
use crate::support::{RedisServer, SOON, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_of_everything() {
    flushed("FLUSHALL").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_of_the_database() {
    flushed("FLUSHDB").await;
}

async fn flushed(command: &str) {
    let server = RedisServer::start(&[]);
    let mut rush = Rush::on(&server.url()).await;
    rush.begin(3).await;
    for tenths in [2, 4, 6] {
        rush.tenths(tenths).await;
        server.command::<()>(&[command]).await;
    }
    rush.ends(3).await;
}

/// Leases and counters go one by one, so that at any moment one may be there without the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_key_by_key() {
    let server = RedisServer::start(&[]);
    let mut rush = Rush::on(&server.url()).await;
    rush.begin(3).await;
    for tenths in 1..=7 {
        rush.tenths(tenths).await;
        for key in server.command::<Vec<String>>(&["KEYS", "*"]).await {
            server.command::<i64>(&["DEL", &key]).await;
        }
    }
    rush.ends(3).await;
}

/// Keys are evicted among a crowd of others until few are left, then all of them: no write passes for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eviction_under_memory_pressure() {
    // One sample makes the choice of a victim blind: the busiest keys go as well.
    let server = RedisServer::start(&["--maxmemory-policy", "allkeys-lru", "--maxmemory-samples", "1"]);
    let mut rush = Rush::on(&server.url()).await;
    rush.begin(3).await;
    for tenths in [2, 4] {
        rush.tenths(tenths).await;
        crowd(&server).await;
        let used = used_memory(&server).await;
        limit(&server, used / 2).await;
        eventually("keys are evicted", SOON, async || {
            let used_now = used_memory(&server).await;
            if used_now <= used / 2 { Ok(()) } else { Err(format!("{used_now} bytes of {used}")) }
        })
        .await;
    }
    rush.tenths(6).await;
    limit(&server, 1).await;
    eventually("all keys are evicted", SOON, async || equal(server.command::<i64>(&["DBSIZE"]).await, 0)).await;
    limit(&server, 0).await;
    rush.ends(2).await;
}

/// Some megabytes of keys that are none of ours.
async fn crowd(server: &RedisServer) {
    let script = "for i = 1, 8000 do redis.call('SET', 'other:' .. i, string.rep('x', 1000)) end";
    limit(server, 0).await;
    server.command::<()>(&["EVAL", script, "0"]).await;
}

async fn limit(server: &RedisServer, bytes: u64) {
    server.command::<()>(&["CONFIG", "SET", "maxmemory", &bytes.to_string()]).await;
}

async fn used_memory(server: &RedisServer) -> u64 {
    let info: String = server.command(&["INFO", "memory"]).await;
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("used memory");
    used.trim().parse().expect("bytes")
}
