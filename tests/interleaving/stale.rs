//! A holder that was held up between lease and commit meets the fence.

use lastunit::checkpoint::{Held, Point};
use lastunit::fence::FenceToken;
use lastunit::ledger::Change;

use super::scene::{SHORT_LEASE, SKU, Scene, arrives};
use crate::on_each_backend;
use crate::support::Backend;

on_each_backend!(
    a_stale_holder_is_refused_although_stock_remains_and_decided_after_a_new_lease,
    a_sold_out_refusal_advances_the_fence_too,
    a_stale_refusal_is_refused_as_well,
    a_lease_that_ran_out_before_the_commit_is_taken_anew,
    a_lease_that_ran_out_while_waiting_for_the_database_loses_to_no_one_who_has_not_written,
);

/// Lets a worker go that is held before its commit, and sees it come for a new lease: nothing of its commit was written,
/// not for want of stock, and the fence still stands where the newer holder left it.
pub async fn expect_refused(scene: &Scene, worker: &str, at_commit: Held, newer: FenceToken) {
    let mut again = scene.hold(worker, Point::BeforeLease);
    let before = scene.row().await;
    assert!(before.fence == newer && before.available >= 1, "{before:?}");
    at_commit.release();
    arrives(&mut again).await;
    assert_eq!(scene.row().await, before, "the stale commit took nothing");
    assert!(!scene.is_recorded("A-1").await, "the stale commit left no decision");
    again.release();
}

async fn a_stale_holder_is_refused_although_stock_remains_and_decided_after_a_new_lease(backend: Backend) {
    let mut scene = Scene::with(backend, 5, &SHORT_LEASE).await;
    let (a, at_commit) = scene.held("a", Point::BeforeCommit, "A-1", 1).await;
    let stale = scene.leased_token("a").await;
    scene.lease_ends().await;
    let b = scene.worker("b").await;
    scene.order("B-1", 1).await;
    scene.decided("B-1").await;
    let newer = scene.token_of("B-1").await;
    assert!(stale < newer, "{stale} was given out before {newer}");
    expect_refused(&scene, "a", at_commit, newer).await;

    scene.decided("A-1").await;
    assert!(newer < scene.token_of("A-1").await, "under a new lease");
    assert_eq!(scene.row().await.available, 3);
    scene.ends([a, b], &["A-1", "B-1"]).await;
}

async fn a_sold_out_refusal_advances_the_fence_too(backend: Backend) {
    let mut scene = Scene::with_units(backend, 1).await;
    let (a, at_commit) = scene.held("a", Point::BeforeCommit, "A-1", 1).await;
    let stale = scene.leased_token("a").await;
    scene.lose_lease().await;
    let b = scene.worker("b").await;
    scene.order("B-1", 2).await;
    scene.decided("B-1").await;
    let row = scene.row().await;
    assert!(stale < row.fence, "the refusal moved the fence from below {stale} to {}", row.fence);
    expect_refused(&scene, "a", at_commit, row.fence).await;
    scene.ends([a, b], &["A-1"]).await;
}

/// A holder that sees nothing left sleeps over a restock: its refusal must not be written after the newer holder's sale.
async fn a_stale_refusal_is_refused_as_well(backend: Backend) {
    let mut scene = Scene::with_units(backend, 0).await;
    let (a, at_commit) = scene.held("a", Point::BeforeCommit, "A-1", 1).await;
    scene.lose_lease().await;
    scene.change(Change::Add(2)).await;
    let b = scene.worker("b").await;
    scene.order("B-1", 1).await;
    scene.decided("B-1").await;
    let newer = scene.token_of("B-1").await;
    expect_refused(&scene, "a", at_commit, newer).await;
    scene.ends([a, b], &["A-1", "B-1"]).await;
}

async fn a_lease_that_ran_out_before_the_commit_is_taken_anew(backend: Backend) {
    let mut scene = Scene::with(backend, 5, &SHORT_LEASE).await;
    let (a, at_read) = scene.held("a", Point::AfterLease, "A-1", 1).await;
    let first = scene.leased_token("a").await;
    scene.lease_ends().await;
    let mut again = scene.hold("a", Point::BeforeLease);
    at_read.release();
    arrives(&mut again).await;
    assert!(!scene.is_recorded("A-1").await, "nothing is committed on a lease that is over");
    again.release();
    scene.decided("A-1").await;
    assert!(first < scene.token_of("A-1").await);
    scene.ends([a], &["A-1"]).await;
}

/// What is not promised: to be alone before the newer holder writes. What is: each commits once, the older one first.
async fn a_lease_that_ran_out_while_waiting_for_the_database_loses_to_no_one_who_has_not_written(backend: Backend) {
    let patience = [SHORT_LEASE[0], SHORT_LEASE[1], ("database.statement_timeout_ms", "60000")];
    let mut scene = Scene::with(backend, 5, &patience).await;
    let (a, a_commits) = scene.held("a", Point::BeforeCommit, "A-1", 1).await;
    let older = scene.leased_token("a").await;
    let locked = scene.sandbox.sql().await;
    let lock = locked.lock_row(SKU).await;
    a_commits.release();
    scene.lease_ends().await;
    let (b, b_commits) = scene.held("b", Point::BeforeCommit, "B-1", 1).await;
    assert!(!scene.is_recorded("A-1").await, "A waits for the database");
    lock.rollback().await.expect("unlocked");
    scene.decided("A-1").await;
    assert_eq!(scene.token_of("A-1").await, older, "nobody has written since");
    b_commits.release();
    scene.decided("B-1").await;
    assert!(older < scene.token_of("B-1").await);
    scene.ends([a, b], &["A-1", "B-1"]).await;
}
