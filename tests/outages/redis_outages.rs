//! Redis goes away, becomes slow or silent.

use std::time::Duration;

use super::scene::{Scene, sandbox, through_proxy};
use crate::support::{Backend, Flow, Links, Proxy};

/// A worker that works, with a proxy before its Redis.
async fn scene() -> (Scene, Proxy) {
    let mut sandbox = sandbox(Backend::Postgres).await;
    let proxy = through_proxy(&mut sandbox, "redis.url");
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    (scene, proxy)
}

async fn outage(scene: &mut Scene, proxy: &Proxy, links: Links) {
    proxy.set(links);
    scene.suffers().await;
    proxy.set(Links::OPEN);
    scene.recovers().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_is_waited_for() {
    let (mut scene, proxy) = scene().await;
    for _ in 0..2 {
        proxy.close();
        scene.suffers().await;
        proxy.set(Links::OPEN);
        scene.recovers().await;
    }
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_says_nothing_is_waited_for() {
    let (mut scene, proxy) = scene().await;
    outage(&mut scene, &proxy, Links::HELD).await;
    outage(&mut scene, &proxy, Links { down: Flow::Held, ..Links::OPEN }).await;
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_too_slow_is_waited_for() {
    let (mut scene, proxy) = scene().await;
    let slow = Flow::Slow(Duration::from_millis(400));
    outage(&mut scene, &proxy, Links { up: slow, down: slow, refused: false }).await;
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_redis_that_is_dead_without_a_word_is_given_up() {
    let (mut scene, proxy) = scene().await;
    for _ in 0..3 {
        proxy.forsake();
        scene.works().await;
    }
    scene.nothing_else_happened().await;
    scene.ends().await;
}
