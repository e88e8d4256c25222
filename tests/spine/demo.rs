//! `lastunit demo`, as a newcomer runs it.

use serde_json::Value;

use crate::support::{Backend, Sandbox};

const UNAVAILABLE: i32 = 69;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_sells_what_there_is_and_leaves_no_keys() {
    let sandbox = Sandbox::empty(Backend::Sqlite).await;
    let finished = sandbox.run(&["demo", "--orders", "60", "--units", "2", "--workers", "2", "--json"]).await;
    let report: Value = serde_json::from_str(&finished.expect_code(0).stdout).expect("JSON");
    assert_eq!(report["winners"].as_array().map(Vec::len), Some(2), "{report}");
    let sold = sandbox.sql().await.texts("sku", "stock").await;
    let id = sold.first().and_then(|sku| sku.strip_prefix("SNKR-42-")).expect("the demo's SKU");
    let client = redis::Client::open(sandbox.get("redis.url")).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("redis");
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("lastunit-{id}:*")).query_async(&mut connection).await.expect("keys");
    assert!(keys.is_empty(), "{keys:?}");
}

#[tokio::test]
async fn a_demo_without_a_service_ends_with_the_code_that_says_so() {
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    let right = sandbox.get("redis.url").to_owned();
    sandbox.set("redis.url", "redis://127.0.0.1:1");
    sandbox.set("startup.wait_ms", 100);
    sandbox.run(&["demo", "--orders", "10", "--workers", "1"]).await.expect_code(UNAVAILABLE);
    sandbox.set("redis.url", right);
}
