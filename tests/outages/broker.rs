//! The links to the broker are cut, or dead without a word: on every end the worker connects anew, and goes on.

use super::scene::{Scene, sandbox, through_proxy};
use crate::support::{Backend, Flow, Links, Proxy, eventually};
use crate::support::{SOON, wait::equal};

const LOST: &str = "lost the orders queue";
const AGAIN: &str = "consuming again";

/// A worker that works, with a proxy before its broker, and notices a silent one after two seconds.
async fn scene() -> (Scene, Proxy) {
    let mut sandbox = sandbox(Backend::Postgres).await;
    let proxy = through_proxy(&mut sandbox, "broker.url");
    let url = format!("{}?heartbeat=1", sandbox.get("broker.url"));
    sandbox.set("broker.url", url);
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    (scene, proxy)
}

/// Waits until nobody consumes: the broker too has noticed.
async fn nobody_consumes(scene: &Scene) {
    let rabbit = &scene.sandbox.rabbit;
    eventually("nobody consumes", SOON, async || equal(rabbit.consumers("orders").await, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_links_lead_to_new_ones_with_the_whole_prefetch() {
    let (mut scene, proxy) = scene().await;
    for cuts in 1..=4 {
        scene.send().await;
        proxy.cut();
        scene.says(LOST, cuts).await;
        scene.says(AGAIN, cuts).await;
        scene.decided(SOON).await;
    }
    assert!(scene.said("takes many messages at once") >= 2, "{}", scene.worker.printed());
    scene.nothing_else_happened().await;
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_away_is_waited_for() {
    let (mut scene, proxy) = scene().await;
    proxy.close();
    nobody_consumes(&scene).await;
    scene.send().await;
    scene.says(LOST, 1).await;
    proxy.set(Links::OPEN);
    scene.decided(SOON).await;
    scene.says(AGAIN, 1).await;
    scene.nothing_else_happened().await;
    scene.ends().await;
}

/// Half-open in one direction, in the other, and in both: only the heartbeats tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_heartbeats_end_a_link_that_is_dead_without_a_word() {
    let (mut scene, proxy) = scene().await;
    let dead = [Links::HELD, Links { down: Flow::Held, ..Links::OPEN }, Links { up: Flow::Held, ..Links::OPEN }];
    for (links, times) in dead.into_iter().zip(1..) {
        proxy.set(links);
        scene.says(LOST, times).await;
        nobody_consumes(&scene).await;
        scene.send().await;
        proxy.set(Links::OPEN);
        scene.says(AGAIN, times).await;
        scene.decided(SOON).await;
    }
    scene.nothing_else_happened().await;
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_the_broker_that_are_dead_without_a_word_are_given_up() {
    let (mut scene, proxy) = scene().await;
    for times in 1..=2 {
        proxy.forsake();
        scene.send().await;
        scene.says(LOST, times).await;
        scene.says(AGAIN, times).await;
        scene.decided(SOON).await;
    }
    scene.nothing_else_happened().await;
    scene.ends().await;
}
