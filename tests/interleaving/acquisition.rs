//! Between a worker's request for a lease and its answer, and between the end of a lease and its release.

use lastunit::checkpoint::Point;

use super::scene::{Scene, arrives};
use super::stale::expect_refused;
use super::workers::ended;
use crate::on_each_backend;
use crate::support::Backend;

on_each_backend!(
    a_pause_inside_of_acquisition_ends_in_a_refusal_not_in_a_stale_write,
    a_reply_that_was_lost_is_given_again_with_its_token,
    a_release_that_arrives_late_leaves_the_next_holder_its_lease,
);

/// The token was given out with the lease, in one step: whoever sleeps over the answer has an old token, never a new one.
async fn a_pause_inside_of_acquisition_ends_in_a_refusal_not_in_a_stale_write(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    // The first answer is that the counter is unknown; the next one is the grant.
    let (a, at_seed) = scene.held("a", Point::BeforeSeed, "A-1", 1).await;
    let mut answer = scene.hold("a", Point::AcquireReply);
    at_seed.release();
    arrives(&mut answer).await;
    let stale = scene.leased_token("a").await;
    scene.lose_lease().await;
    let b = scene.worker("b").await;
    scene.order("B-1", 1).await;
    scene.decided("B-1").await;
    let newer = scene.token_of("B-1").await;
    assert!(stale < newer);
    let mut at_commit = scene.hold("a", Point::BeforeCommit);
    answer.release();
    arrives(&mut at_commit).await;
    expect_refused(&scene, "a", at_commit, newer).await;
    scene.ends([a, b], &["A-1", "B-1"]).await;
}

async fn a_reply_that_was_lost_is_given_again_with_its_token(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    let (a, at_seed) = scene.held("a", Point::BeforeSeed, "A-1", 1).await;
    let mut answer = scene.hold("a", Point::AcquireReply);
    at_seed.release();
    arrives(&mut answer).await;
    let token = scene.leased_token("a").await;
    scene.lose_answer("a", Point::AcquireReply);
    answer.release();
    scene.decided("A-1").await;
    assert_eq!(scene.token_of("A-1").await, token, "the same attempt, the same token");
    scene.ends([a], &["A-1"]).await;
}

async fn a_release_that_arrives_late_leaves_the_next_holder_its_lease(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    let (a, at_release) = scene.held("a", Point::BeforeRelease, "A-1", 1).await;
    scene.decided("A-1").await;
    // Otherwise the next order could be A's as well.
    let a = a.stop();
    scene.nobody_consumes().await;
    scene.lose_lease().await;
    let (b, at_commit) = scene.held("b", Point::BeforeCommit, "B-1", 1).await;
    let token = scene.leased_token("b").await;
    at_release.release();
    ended("a", a).await;
    assert_eq!(scene.leased_token("b").await, token, "A's release has left it alone");
    at_commit.release();
    scene.decided("B-1").await;
    assert_eq!(scene.token_of("B-1").await, token);
    scene.ends([b], &["A-1", "B-1"]).await;
}
