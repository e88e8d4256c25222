//! Orders are collected while others wait to be published, and a full batch does not wait for that.

use lastunit::checkpoint::Point;

use super::scene::{Scene, arrives};
use crate::on_each_backend;
use crate::support::Backend;

on_each_backend!(what_would_wait_to_be_published_is_decided_together_and_a_full_batch_at_once);

/// A batch is two orders, so that one that is not published yet is congestion.
async fn what_would_wait_to_be_published_is_decided_together_and_a_full_batch_at_once(backend: Backend) {
    let settings = [("broker.prefetch", "8"), ("batch.max_orders", "2")];
    let mut scene = Scene::with(backend, 5, &settings).await;
    let a = scene.worker("a").await;
    scene.order("A-0", 1).await;
    scene.decided("A-0").await;
    let mut unpublished = scene.hold("a", Point::BeforeSettle);
    scene.order("A-1", 1).await;
    arrives(&mut unpublished).await;

    scene.order("A-2", 1).await;
    scene.all_taken().await;
    scene.order("A-3", 1).await;
    scene.decided("A-2").await;
    scene.decided("A-3").await;
    assert_eq!(scene.commit_of("A-2").await, scene.commit_of("A-3").await, "they were collected");

    scene.order("A-4", 1).await;
    unpublished.release();
    scene.ends([a], &["A-0", "A-1", "A-2", "A-3", "A-4"]).await;
}
