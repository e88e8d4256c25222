//! One decision per order, whatever is lost or repeated around its commit.

use lastunit::checkpoint::Point;

use super::scene::Scene;
use crate::on_each_backend;
use crate::support::Backend;

on_each_backend!(
    a_commit_whose_answer_is_lost_decides_once,
    two_copies_at_the_same_time_decide_once_when_the_newer_holder_is_first,
    two_copies_at_the_same_time_decide_once_when_the_older_holder_is_first,
);

async fn a_commit_whose_answer_is_lost_decides_once(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    let (a, committed) = scene.held("a", Point::AfterCommit, "A-1", 2).await;
    let fence = scene.row().await.fence;
    scene.lose_answer("a", Point::AfterCommit);
    committed.release();
    scene.decided("A-1").await;
    let row = scene.row().await;
    assert_eq!((row.available, row.fence), (3, fence), "the commit was not made again");
    scene.ends([a], &["A-1"]).await;
}

async fn two_copies_at_the_same_time_decide_once_when_the_newer_holder_is_first(backend: Backend) {
    two_copies(backend, true).await;
}

async fn two_copies_at_the_same_time_decide_once_when_the_older_holder_is_first(backend: Backend) {
    two_copies(backend, false).await;
}

/// Both have planned the order, each under its lease, and stand before their commit.
async fn two_copies(backend: Backend, newer_first: bool) {
    let mut scene = Scene::with_units(backend, 5).await;
    let (a, a_commits) = scene.held("a", Point::BeforeCommit, "A-1", 2).await;
    scene.lose_lease().await;
    let (b, b_commits) = scene.held("b", Point::BeforeCommit, "A-1", 2).await;
    let newer = scene.leased_token("b").await;
    let (first, second) = if newer_first { (b_commits, a_commits) } else { (a_commits, b_commits) };
    first.release();
    scene.decided("A-1").await;
    let decided = scene.token_of("A-1").await;
    assert_eq!(decided == newer, newer_first, "decided under {decided}; B had {newer}");
    second.release();
    scene.all_decided().await;
    assert_eq!(scene.row().await.available, 3, "taken once");
    assert_eq!(scene.token_of("A-1").await, decided, "the decision stands");
    scene.ends([a, b], &["A-1"]).await;
}
