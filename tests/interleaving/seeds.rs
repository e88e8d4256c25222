//! A seed that arrives late, or on a server that is another one by now, or whose answer is lost.

use lastunit::checkpoint::Point;
use lastunit::fence::Epoch;

use super::scene::Scene;
use crate::on_each_backend;
use crate::support::{Backend, RedisServer};

on_each_backend!(
    a_seed_that_arrives_late_changes_nothing,
    a_seed_for_an_earlier_incarnation_is_refused_and_the_next_epoch_is_won,
    a_seed_is_sent_once_per_epoch_whatever_becomes_of_its_answer,
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

/// The server sleeps over the seed and runs it after its sender gave up: a second copy, sent in doubt, could arrive after
/// a flush and let a token be given out twice.
async fn a_seed_is_sent_once_per_epoch_whatever_becomes_of_its_answer(backend: Backend) {
    let server = RedisServer::start(&[]);
    let settings = [("redis.url", server.url()), ("redis.command_timeout_ms", "200".to_owned())];
    let settings = settings.each_ref().map(|(key, value)| (*key, value.as_str()));
    let mut scene = Scene::with(backend, 5, &settings).await;
    let (a, at_seed) = scene.held("a", Point::BeforeSeed, "A-1", 1).await;
    scene.redis::<()>(&["CONFIG", "RESETSTAT"]).await;
    scene.redis::<()>(&["CLIENT", "PAUSE", "1500", "ALL"]).await;
    at_seed.release();
    scene.decided("A-1").await;
    let epoch = scene.token_of("A-1").await.epoch();
    // Only seeds carry their script along.
    let seeds = calls_of(&scene.redis::<String>(&["INFO", "commandstats"]).await, "eval");
    assert!(seeds >= 1, "the seed arrived after all");
    assert!(Epoch::new(seeds).expect("an epoch") <= epoch, "{seeds} seeds for {epoch} epochs");
    scene.ends([a], &["A-1"]).await;
}

/// How often a command was called, as `INFO commandstats` has it.
fn calls_of(stats: &str, command: &str) -> u64 {
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().expect("a number").parse().expect("a number"))
}
