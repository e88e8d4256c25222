//! What a broker does to its clients, on a node of the test's own: alarms, refused passwords, time limits.

use super::scene::{ORDERS, SKU, Scene, sandbox_on, through_proxy};
use crate::support::{Backend, RabbitNode, SOON, Sandbox, Services, eventually};

async fn node(configuration: &'static str) -> (RabbitNode, Sandbox) {
    let node = tokio::task::spawn_blocking(move || RabbitNode::start(configuration)).await.expect("a node");
    let services = Services { rabbitmq: node.url(), ..Services::shared(Backend::Postgres) };
    (node, sandbox_on(Backend::Postgres, services).await)
}

/// A memory alarm: whoever publishes is no longer read from. Decisions are taken; nothing is acknowledged before its event
/// was confirmed, and every attempt to publish has a time limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_blocks_publishers_for_long_is_waited_for() {
    let (node, sandbox) = node("").await;
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    let published = scene.listener.len();
    // It sleeps, so that the orders still wait when the alarm is raised: it blocks this test as well.
    scene.worker.stop();
    scene.send().await;
    node.ctl(&["set_vm_memory_high_watermark", "0.00001"]);
    scene.worker.cont();
    eventually("attempts to publish end by their time limit", SOON, async || {
        // Twice the time limit and the back-off between them.
        if scene.said("outcomes could not be published") >= 2 { Ok(()) } else { Err("waiting") }
    })
    .await;
    assert_eq!(scene.listener.len(), published, "no event comes through");
    scene.nothing_else_happened().await;
    node.ctl(&["set_vm_memory_high_watermark", "0.6"]);
    scene.decided(SOON).await;
    scene.works().await;
    scene.ends().await;
}

/// A password that is being changed: refused for a while, and then the right one again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_refuses_the_password_for_a_while_is_waited_for() {
    let (node, mut sandbox) = node("").await;
    let proxy = through_proxy(&mut sandbox, "broker.url");
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    node.ctl(&["change_password", "guest", "other"]);
    proxy.cut();
    scene.says("lost the orders queue", 1).await;
    scene.says("no connection to the orders queue yet", 1).await;
    scene.send().await;
    node.ctl(&["change_password", "guest", "guest"]);
    scene.decided(SOON).await;
    scene.says("consuming again", 1).await;
    scene.nothing_else_happened().await;
    scene.ends().await;
}

/// The broker closes the channel of a consumer that does not acknowledge in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_the_broker_closed_over_a_late_acknowledgement_is_replaced() {
    let (_node, mut sandbox) = node("{rabbit, [{consumer_timeout, 1000}, {channel_tick_interval, 200}]}").await;
    // The database takes its time, and is not taken for away.
    sandbox.set("database.statement_timeout_ms", 60_000);
    let sql = sandbox.sql().await;
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    let lock = sql.lock_row(SKU).await;
    scene.send().await;
    scene.says("lost the orders queue", 1).await;
    lock.rollback().await.expect("unlocked");
    scene.decided(SOON).await;
    let decided = sql.number("count(*)", "reservation").await;
    assert_eq!(decided, 2 * ORDERS as i64, "each once");
    scene.ends().await;
}

/// The queue is gone, with a word from the broker that is easy to overlook: the end of the subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_deleted_under_its_consumer_is_declared_again_and_consumed() {
    let sandbox = super::scene::sandbox(Backend::Postgres).await;
    let mut scene = Scene::start(sandbox).await;
    for times in 1..=2 {
        scene.works().await;
        scene.sandbox.rabbit.delete(&[], &["orders".to_owned()]).await.expect("deleted");
        scene.says("consuming again", times).await;
    }
    scene.works().await;
    scene.ends().await;
}

/// Nobody may declare it again: the worker waits for whoever may, and says what is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_the_worker_may_not_declare_is_waited_for() {
    let mut sandbox = super::scene::sandbox(Backend::Postgres).await;
    sandbox.set("broker.declare", false);
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    let orders = scene.sandbox.rabbit.name("orders");
    scene.sandbox.rabbit.delete(&[], &["orders".to_owned()]).await.expect("deleted");
    eventually("it says what is missing", SOON, async || {
        if scene.said(&format!("queue {orders}")) > 0 { Ok(()) } else { Err(scene.worker.printed()) }
    })
    .await;
    scene.sandbox.set("broker.declare", true);
    scene.sandbox.run(&["topology"]).await.expect_code(0);
    scene.says("consuming again", 1).await;
    scene.works().await;
    scene.ends().await;
}
