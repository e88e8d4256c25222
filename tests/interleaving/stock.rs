//! Stock that changes between plan and commit.

use lastunit::checkpoint::Point;
use lastunit::ledger::Change;

use super::scene::{Scene, arrives};
use crate::on_each_backend;
use crate::support::Backend;

on_each_backend!(
    a_restock_in_the_middle_adds_up_and_serves_the_next_order,
    units_that_vanish_after_the_plan_are_not_sold,
);

async fn a_restock_in_the_middle_adds_up_and_serves_the_next_order(backend: Backend) {
    let mut scene = Scene::with_units(backend, 1).await;
    let (a, at_commit) = scene.held("a", Point::BeforeCommit, "A-1", 1).await;
    scene.change(Change::Add(2)).await;
    at_commit.release();
    scene.decided("A-1").await;
    assert_eq!(scene.row().await.available, 2);
    scene.order("A-2", 2).await;
    scene.order("A-3", 1).await;
    scene.ends([a], &["A-1", "A-2"]).await;
}

async fn units_that_vanish_after_the_plan_are_not_sold(backend: Backend) {
    let mut scene = Scene::with_units(backend, 3).await;
    let mut again = scene.hold("a", Point::AfterCommit);
    let (a, at_commit) = scene.held("a", Point::BeforeCommit, "A-1", 3).await;
    scene.change(Change::Add(-1)).await;
    at_commit.release();
    arrives(&mut again).await;
    assert_eq!(scene.row().await.available, 2, "planned again, on the stock that there is");
    again.release();
    scene.ends([a], &[]).await;
}
