//! The test environment itself: it leaves nothing behind, and its processes obey.

mod support;

use std::process::Command;
use std::time::Duration;

use sea_orm::Database;
use support::wait::equal;
use support::{Backend, Rabbit, RedisServer, SOON, Sandbox, WorkerProcess, eventually};

on_each_backend!(a_sandbox_leaves_nothing_behind);

async fn a_sandbox_leaves_nothing_behind(backend: Backend) {
    let sandbox = Sandbox::empty(backend).await;
    let setting = |key: &str| sandbox.get(key).to_owned();
    let (database, prefix) = (setting("database.url"), setting("redis.key_prefix"));
    let (redis_url, amqp_url) = (setting("redis.url"), setting("broker.url"));
    assert_eq!(sandbox.sql().await.number("count(*)", "(select 1 as one) as t").await, 1);
    sandbox.rabbit.declare_otherwise("orders").await;
    let redis = redis::Client::open(redis_url).expect("an address");
    let mut redis = redis.get_multiplexed_async_connection().await.expect("redis");
    let key = format!("{prefix}:{{SNKR-42}}:fence");
    redis::cmd("SET").arg(&key).arg("1").query_async::<()>(&mut redis).await.expect("set");
    drop(sandbox);

    let readable = Database::connect(database.replace("mode=rwc", "mode=ro")).await;
    assert!(readable.is_err(), "the database is gone");
    assert!(!Rabbit::connect(&amqp_url, &prefix).await.exists("orders").await, "the queue is gone");
    let left: i64 = redis::cmd("EXISTS").arg(&key).query_async(&mut redis).await.expect("exists");
    assert_eq!(left, 0, "the key is gone");
}

#[tokio::test]
async fn a_process_stops_goes_on_and_ends_as_it_is_told() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("trap 'echo told; exit 0' TERM; echo ready; while :; do :; done");
    let mut process = WorkerProcess::start(shell, folder.path().join("log"));
    eventually("it is ready", SOON, async || equal(process.printed().as_str(), "ready\n")).await;
    process.stop();
    process.terminate();
    assert_eq!(process.printed(), "ready\n", "asleep, it notices nothing");
    process.cont();
    assert!(process.wait_exit(SOON).await.success());
    assert_eq!(process.printed(), "ready\ntold\n");
}

#[tokio::test]
async fn a_process_does_not_outlive_its_test() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("while :; do :; done");
    let process = WorkerProcess::start(shell, folder.path().join("log"));
    process.stop();
    let pid = process.pid();
    drop(process);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "even when it slept");
}

#[tokio::test]
async fn a_redis_server_of_ones_own_forgets_when_told() {
    let server = RedisServer::start(&[]);
    let redis = redis::Client::open(server.url()).expect("an address");
    let mut redis = redis.get_multiplexed_async_connection().await.expect("redis");
    redis::cmd("SET").arg("k").arg("v").query_async::<()>(&mut redis).await.expect("set");
    server.command::<()>(&["FLUSHALL"]).await;
    let left: i64 = redis::cmd("DBSIZE").query_async(&mut redis).await.expect("size");
    assert_eq!(left, 0);
}

#[tokio::test]
#[should_panic(expected = "not within 50ms: it happens; last seen: nothing yet")]
async fn waiting_in_vain_says_what_was_seen() {
    eventually("it happens", Duration::from_millis(50), async || Err::<(), _>("nothing yet")).await;
}
