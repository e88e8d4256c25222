//! Ready only while the worker is really consuming; again by itself.

use std::time::Duration;

use url::Url;

use crate::probe::Observed;
use crate::support::{Backend, Links, Proxy, SOON, Sandbox};

/// After the fault has gone.
const AGAIN: Duration = Duration::from_secs(10);

/// A worker without work, whose connection to one service goes through a proxy.
async fn behind(key: &str) -> (Sandbox, Proxy, Observed) {
    let mut sandbox = Sandbox::ready(Backend::Postgres).await;
    sandbox.stock("X", 10).await;
    let direct = sandbox.get(key).to_owned();
    let mut url = Url::parse(&direct).expect("a service's address");
    let default = if key == "redis.url" { 6379 } else { 5672 };
    let proxy = Proxy::before(url.port().unwrap_or(if key == "database.url" { 5432 } else { default }));
    url.set_port(Some(proxy.port())).expect("an address with a port");
    sandbox.set(key, &url);
    let observed = Observed::ready(&mut sandbox).await;
    sandbox.set(key, direct);
    (sandbox, proxy, observed)
}

/// Orders are decided.
async fn works(sandbox: &Sandbox, order: &str) {
    let listener = sandbox.rabbit.listen().await;
    sandbox.rabbit.send([format!(r#"{{"order_id":"{order}","sku":"X","quantity":1}}"#)]).await;
    let events = listener.wait_for(1, SOON).await;
    assert_eq!(events[0].order_id(), order);
}

/// Refused or silent, then there again: in both cases the part is named, the worker stays alive, and resumes by itself.
async fn goes_and_comes(key: &str, part: &str) {
    let (sandbox, proxy, observed) = behind(key).await;
    works(&sandbox, "A-1").await;
    for (order, silent) in [("A-2", false), ("A-3", true)] {
        if silent {
            proxy.set(Links::HELD);
        } else {
            proxy.close();
        }
        let reason = observed.becomes_unready(part, SOON).await;
        assert!(!reason.is_empty());
        let name = format!("lastunit_service_up{{service=\"{part}\"}}");
        assert_eq!(observed.samples().await[&name], 0.0);
        proxy.set(Links::OPEN);
        observed.becomes_ready(AGAIN).await;
        works(&sandbox, order).await;
    }
    let outages = observed.samples().await[&format!("lastunit_outages_total{{service=\"{part}\"}}")];
    assert!(outages >= 2.0, "both were counted: {outages}");
    sandbox.finish(vec![observed.worker]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_is_not_ready_while_redis_is_away() {
    goes_and_comes("redis.url", "redis").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_is_not_ready_while_the_database_is_away() {
    goes_and_comes("database.url", "database").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_is_not_ready_while_the_broker_is_away() {
    goes_and_comes("broker.url", "broker").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_queue_was_deleted_is_not_ready_until_the_queue_is_back() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.stock("X", 10).await;
    sandbox.set("broker.declare", false);
    let observed = Observed::ready(&mut sandbox).await;
    sandbox.rabbit.delete(&[], &["orders".to_owned()]).await.expect("deleted");
    observed.becomes_unready("broker", SOON).await;
    sandbox.set("broker.declare", true);
    sandbox.run(&["topology"]).await.expect_code(0);
    observed.becomes_ready(AGAIN).await;
    works(&sandbox, "A-1").await;
    sandbox.finish(vec![observed.worker]).await;
}

/// It keeps the orders that it has decided, and says that it cannot tell anybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_publish_is_not_ready() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    let observed = Observed::ready(&mut sandbox).await;
    sandbox.rabbit.delete(&[], &["dead.invalid".to_owned()]).await.expect("deleted");
    sandbox.rabbit.send(["not an order"]).await;
    let reason = observed.becomes_unready("broker", SOON).await;
    assert!(reason.contains("invalid.json"), "{reason}");
    sandbox.run(&["topology"]).await.expect_code(0);
    observed.becomes_ready(AGAIN).await;
    observed.sample_becomes("lastunit_dead_letters_total{reason=\"invalid.json\"}", 1.0).await;
    sandbox.finish(vec![observed.worker]).await;
}
