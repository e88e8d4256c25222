//! A worker that is told to stop is alive and not ready until it is gone.

use url::Url;

use crate::probe::Observed;
use crate::support::wait::equal;
use crate::support::{Backend, Links, Proxy, SOON, Sandbox, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_worker_is_alive_and_not_ready() {
    let mut sandbox = Sandbox::ready(Backend::Postgres).await;
    sandbox.stock("X", 1).await;
    let direct = sandbox.get("database.url").to_owned();
    let mut url = Url::parse(&direct).expect("an address");
    let proxy = Proxy::before(url.port().unwrap_or(5432));
    url.set_port(Some(proxy.port())).expect("an address with a port");
    sandbox.set("database.url", &url);
    let mut observed = Observed::ready(&mut sandbox).await;
    sandbox.set("database.url", direct);

    // A batch that cannot end keeps the worker from ending.
    proxy.set(Links::HELD);
    sandbox.rabbit.send([r#"{"order_id":"A-1","sku":"X","quantity":1}"#]).await;
    eventually("the order is with the worker", SOON, async || equal(sandbox.rabbit.count("orders").await, 0)).await;
    observed.sample_becomes("lastunit_batches_in_flight", 1.0).await;
    observed.worker.terminate();
    assert_eq!(observed.becomes_unready("worker", SOON).await, "draining");
    proxy.set(Links::OPEN);
    let status = observed.worker.wait_exit(SOON).await;
    assert!(status.success(), "{status}\n{}", observed.worker.printed());
}
