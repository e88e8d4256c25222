//! Redis forgets, or goes back, while workers are in the middle of something.

use lastunit::checkpoint::Point;
use lastunit::fence::FenceToken;

use super::scene::Scene;
use super::stale::expect_refused;
use crate::on_each_backend;
use crate::support::{Backend, WorkerProcess};

on_each_backend!(
    the_next_holder_writes_at_once_after_a_wipe_and_a_higher_unused_token_is_refused,
    a_recovery_alone_refuses_every_token_given_out_before,
    a_counter_that_is_behind_is_noticed_and_recovered,
    two_workers_recover_the_same_sku_at_once,
    a_worker_dies_between_database_and_seed,
);

/// Reseeding from the highest token used would fail here: the highest token issued is A's, and was never used.
async fn the_next_holder_writes_at_once_after_a_wipe_and_a_higher_unused_token_is_refused(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    let (a, at_commit) = scene.held("a", Point::BeforeCommit, "A-1", 1).await;
    let unused = scene.leased_token("a").await;
    assert!(scene.row().await.fence < unused, "higher than all that was used");
    scene.lose_everything().await;
    let b = scene.worker("b").await;
    scene.order("B-1", 1).await;
    scene.decided("B-1").await;
    let newer = scene.token_of("B-1").await;
    assert_eq!(newer.epoch(), unused.epoch().next().expect("an epoch"), "recovered by itself");
    expect_refused(&scene, "a", at_commit, newer).await;
    scene.ends([a, b], &["A-1", "B-1"]).await;
}

async fn a_recovery_alone_refuses_every_token_given_out_before(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    let (a, at_commit) = scene.held("a", Point::BeforeCommit, "A-1", 1).await;
    let unused = scene.leased_token("a").await;
    scene.lose_everything().await;
    // B has moved the epoch and written nothing.
    let (b, at_seed) = scene.held("b", Point::BeforeSeed, "B-1", 1).await;
    let floor = unused.epoch().next().expect("an epoch").floor();
    expect_refused(&scene, "a", at_commit, floor).await;
    at_seed.release();
    scene.ends([a, b], &["A-1", "B-1"]).await;
}

async fn a_counter_that_is_behind_is_noticed_and_recovered(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    let a = scene.worker("a").await;
    scene.order("A-1", 1).await;
    scene.decided("A-1").await;
    let old = scene.token_of("A-1").await;
    scene.lose_everything().await;
    scene.order("A-2", 1).await;
    scene.decided("A-2").await;
    let newer = scene.token_of("A-2").await;
    assert!(old.epoch() < newer.epoch());
    // As a copy of earlier would have it, on the same incarnation.
    scene.set_counter(old).await;
    scene.order("A-3", 1).await;
    scene.decided("A-3").await;
    assert!(newer.epoch() < scene.token_of("A-3").await.epoch(), "noticed, and recovered");
    scene.ends([a], &["A-1", "A-2", "A-3"]).await;
}

async fn two_workers_recover_the_same_sku_at_once(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    let (a, a_asks) = scene.held("a", Point::BeforeAdvance, "A-1", 1).await;
    let (b, b_asks) = scene.held("b", Point::BeforeAdvance, "B-1", 1).await;
    assert_eq!(scene.row().await.fence, FenceToken::ZERO, "neither has moved the epoch");
    a_asks.release();
    b_asks.release();
    scene.all_decided().await;
    let tokens = [scene.token_of("A-1").await, scene.token_of("B-1").await];
    assert_ne!(tokens[0], tokens[1]);
    assert_eq!(scene.row().await.fence, tokens.into_iter().max().expect("two"));
    scene.ends([a, b], &["A-1", "B-1"]).await;
}

/// A real process, killed there: nobody seeds the epoch that it moved to, and its order comes back from the queue.
async fn a_worker_dies_between_database_and_seed(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    let mut command = scene.sandbox.command(&["worker"]);
    command.env("LASTUNIT_TEST_KILL", "BeforeSeed:1");
    let mut process = WorkerProcess::start(command, scene.sandbox.folder().join("worker-killed.log"));
    scene.order("A-1", 1).await;
    let status = process.wait_exit(crate::support::SOON).await;
    assert!(!status.success(), "{status}");
    let orphan = scene.row().await.fence;
    assert!(FenceToken::ZERO < orphan && orphan.sequence() == 0, "the epoch was moved and not seeded: {orphan}");
    let b = scene.worker("b").await;
    scene.decided("A-1").await;
    assert!(orphan.epoch() < scene.token_of("A-1").await.epoch(), "recovered with the next epoch");
    scene.ends([b], &["A-1"]).await;
}
