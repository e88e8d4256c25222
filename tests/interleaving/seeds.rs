//! A seed that arrives late, or on a server that is another one by now, or whose answer is lost.

use lastunit::checkpoint::Point;
use lastunit::fence::Epoch;

use super::scene::Scene;
use super::spy::Spy;
use crate::on_each_backend;
use crate::support::{Backend, RedisServer};

on_each_backend!(
    a_seed_that_arrives_late_changes_nothing,
    a_seed_for_an_earlier_incarnation_is_refused_and_the_next_epoch_is_won,
    a_seed_whose_answer_is_lost_is_not_sent_again,
    a_recovery_sends_one_seed,
);

async fn a_seed_that_arrives_late_changes_nothing(backend: Backend) {
    let mut scene = Scene::with_units(backend, 5).await;
    let (a, at_seed) = scene.held("a", Point::BeforeSeed, "A-1", 1).await;
    let first = scene.row().await.fence.epoch();
    let b = scene.worker("b").await;
    scene.order("B-1", 1).await;
    scene.decided("B-1").await;
    let newer = scene.token_of("B-1").await;
    assert!(first < newer.epoch(), "B has recovered the same SKU after A");
    at_seed.release();
    scene.decided("A-1").await;
    let token = scene.token_of("A-1").await;
    assert!(newer < token, "{token} comes after {newer}");
    assert_eq!(token.epoch(), newer.epoch(), "the later recovery stands: A's seed has not set it back");
    scene.ends([a, b], &["A-1", "B-1"]).await;
}

async fn a_seed_for_an_earlier_incarnation_is_refused_and_the_next_epoch_is_won(backend: Backend) {
    let mut server = RedisServer::start(&[]);
    let mut scene = Scene::with(backend, 5, &[("redis.url", &server.url())]).await;
    let (a, at_seed) = scene.held("a", Point::BeforeSeed, "A-1", 1).await;
    let lost = scene.row().await.fence.epoch();
    server.resume();
    at_seed.release();
    scene.decided("A-1").await;
    assert!(lost < scene.token_of("A-1").await.epoch(), "the seed for the old server did not count");
    scene.ends([a], &["A-1"]).await;
}

/// A second copy, sent in doubt, could arrive after a flush and let a token be given out twice.
async fn a_seed_whose_answer_is_lost_is_not_sent_again(backend: Backend) {
    assert_eq!(seeds_of_one_epoch(backend, true).await, 1);
}

async fn a_recovery_sends_one_seed(backend: Backend) {
    assert_eq!(seeds_of_one_epoch(backend, false).await, 1);
}

/// The number of seeds on the wire while one order is decided in the first epoch.
async fn seeds_of_one_epoch(backend: Backend, loses_answer: bool) -> usize {
    let server = RedisServer::start(&[]);
    let spy = Spy::before(server.port(), loses_answer).await;
    let mut scene = Scene::with(backend, 5, &[("redis.url", &spy.url())]).await;
    let a = scene.worker("a").await;
    scene.order("A-1", 1).await;
    scene.decided("A-1").await;
    assert_eq!(scene.token_of("A-1").await.epoch(), Epoch::new(1).expect("an epoch"), "the seed had arrived");
    let seeds = spy.seeds();
    scene.ends([a], &["A-1"]).await;
    seeds
}
