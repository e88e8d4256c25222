//! Redis goes away, becomes slow or silent.

use std::time::Duration;

use super::scene::{Scene, behind_proxy, sandbox};
use crate::support::{Backend, Flow, Links, Proxy};

async fn scene() -> (Scene, Proxy) {
    behind_proxy(sandbox(Backend::Postgres).await, "redis.url").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_is_waited_for() {
    let (mut scene, proxy) = scene().await;
    for _ in 0..2 {
        proxy.close();
        scene.gets_over(&proxy).await;
    }
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_says_nothing_is_waited_for() {
    let (mut scene, proxy) = scene().await;
    proxy.set(Links::HELD);
    scene.gets_over(&proxy).await;
    proxy.set(Links { down: Flow::Held, ..Links::OPEN });
    scene.gets_over(&proxy).await;
    scene.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_too_slow_is_waited_for() {
    let (mut scene, proxy) = scene().await;
    let slow = Flow::Slow(Duration::from_millis(400));
    proxy.set(Links { up: slow, down: slow, refused: false });
    scene.gets_over(&proxy).await;
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
