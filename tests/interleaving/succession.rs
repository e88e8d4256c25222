//! Two batches of one worker on one SKU: the second takes its lease, in succession to the first's, while the first commits.

use std::time::Duration;

use lastunit::checkpoint::{Held, Point};

use super::scene::{Scene, arrives};
use super::workers::Worker;
use crate::on_each_backend;
use crate::support::Backend;

on_each_backend!(
    a_batch_leased_during_a_commit_whose_answer_is_lost_sees_what_that_took,
    a_commit_refused_after_its_leases_were_lent_is_decided_behind_its_successor,
    the_second_plans_only_when_the_first_has_ended,
    a_successor_does_not_wait_for_long_and_lets_others_have_the_sku,
    a_lease_goes_on_past_a_batch_that_needed_none,
);

/// What is decided before the two batches, a unit each.
const BEFORE: [&str; 3] = ["A-0", "A-00", "A-000"];

/// A worker that may have two batches, of one order each, in work at a time; units for what comes after [`BEFORE`].
async fn scene(backend: Backend, units: i64) -> Scene {
    let settings = [("broker.prefetch", "2"), ("batch.max_orders", "1")];
    Scene::with(backend, units + BEFORE.len() as i64, &settings).await
}

/// Until a worker has shown that it survives its messages, it takes them one by one; then it subscribes anew, for two. It
/// has done so when a second message comes while one is not settled. Else what comes next might be on the first
/// subscription, beside the two of the new one.
async fn takes_two(scene: &mut Scene) -> Worker {
    let a = scene.worker("a").await;
    let [first, second, third] = BEFORE;
    scene.order(first, 1).await;
    scene.decided(first).await;
    let mut unsettled = scene.hold("a", Point::BeforeSettle);
    scene.order(second, 1).await;
    arrives(&mut unsettled).await;
    scene.order(third, 1).await;
    scene.decided(third).await;
    unsettled.release();
    a
}

/// All of [`BEFORE`], and these.
async fn end(scene: Scene, workers: impl IntoIterator<Item = Worker>, reserved: &[&str]) {
    scene.ends(workers, &[&BEFORE[..], reserved].concat()).await;
}

/// One batch is held at a point of its commit; the next one has taken its lease.
async fn two_batches(scene: &mut Scene, point: Point) -> (Worker, Held, Held) {
    let a = takes_two(scene).await;
    let mut first = scene.hold("a", point);
    scene.order("A-1", 1).await;
    arrives(&mut first).await;
    let older = scene.leased_token("a").await;
    let mut second = scene.hold("a", Point::AfterLease);
    scene.order("A-2", 1).await;
    arrives(&mut second).await;
    assert!(scene.leased_token("a").await > older, "a newer lease, with a token of its own");
    (a, first, second)
}

async fn a_batch_leased_during_a_commit_whose_answer_is_lost_sees_what_that_took(backend: Backend) {
    let mut scene = scene(backend, 1).await;
    let (a, first, second) = two_batches(&mut scene, Point::AfterCommit).await;
    scene.lose_answer("a", Point::AfterCommit);
    second.release();
    first.release();
    end(scene, [a], &["A-1"]).await;
}

async fn a_commit_refused_after_its_leases_were_lent_is_decided_behind_its_successor(backend: Backend) {
    let mut scene = scene(backend, 2).await;
    let (a, first, second) = two_batches(&mut scene, Point::BeforeCommit).await;
    scene.lose_lease().await;
    let mut b_decided = scene.hold("b", Point::AfterCommit);
    // Only the other worker has room for one more.
    let b = scene.worker("b").await;
    scene.order("B-1", 1).await;
    arrives(&mut b_decided).await;
    let fence = scene.row().await.fence;
    second.release();
    first.release();
    b_decided.release();
    scene.all_decided().await;
    assert!(scene.row().await.fence > fence, "both came back with new leases");
    end(scene, [a, b], &["A-1", "B-1"]).await;
}

async fn the_second_plans_only_when_the_first_has_ended(backend: Backend) {
    let mut scene = scene(backend, 2).await;
    let (a, first, second) = two_batches(&mut scene, Point::BeforeCommit).await;
    let mut at_commit = scene.hold("a", Point::BeforeCommit);
    second.release();
    let early = tokio::time::timeout(Duration::from_millis(300), at_commit.arrived()).await;
    assert!(early.is_err(), "the second plans before the first has ended");
    first.release();
    arrives(&mut at_commit).await;
    assert!(scene.is_recorded("A-1").await);
    at_commit.release();
    end(scene, [a], &["A-1", "A-2"]).await;
}

/// The first hangs in its commit. The second gives its lease back, and both are decided in their sequence in the end.
async fn a_successor_does_not_wait_for_long_and_lets_others_have_the_sku(backend: Backend) {
    let mut scene = scene(backend, 2).await;
    let (a, first, second) = two_batches(&mut scene, Point::BeforeCommit).await;
    second.release();
    let b = scene.worker("b").await;
    scene.order("B-1", 1).await;
    scene.decided("B-1").await;
    first.release();
    end(scene, [a, b], &["A-1", "B-1"]).await;
}

/// An order that was decided before is settled without a lease; the one that the worker had kept must not stay behind.
async fn a_lease_goes_on_past_a_batch_that_needed_none(backend: Backend) {
    let mut scene = scene(backend, 2).await;
    let a = scene.worker("a").await;
    for id in ["A-0", "A-0"] {
        scene.order(id, 1).await;
        scene.all_decided().await;
    }
    // From here on the worker looks first.
    let mut committed = scene.hold("a", Point::AfterCommit);
    scene.order("A-1", 1).await;
    arrives(&mut committed).await;
    scene.order("A-0", 1).await;
    committed.release();
    scene.all_decided().await;
    for id in ["A-0", "A-2"] {
        scene.order(id, 1).await;
        scene.all_decided().await;
    }
    scene.ends([a], &["A-0", "A-1", "A-2"]).await;
}
