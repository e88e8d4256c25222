//! Large messages: memory is bounded by their bytes, not by their number.

use std::time::Duration;

use lapin::BasicProperties;
use lastunit::broker::{Consumer, Event};

use crate::support::{Place, delivery};

const BUDGET: usize = 1_000_000;
const LARGE: usize = 100_000;

/// The deliveries that come until none does for a while.
async fn all_that_come(consumer: &mut Consumer) -> Vec<lastunit::broker::Delivery> {
    let mut taken = vec![delivery(consumer).await];
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(500), consumer.events.recv()).await {
        match event {
            Event::Delivery(delivery) => taken.push(delivery),
            Event::Lost { session } => panic!("session {session} was lost"),
        }
    }
    taken
}

#[tokio::test]
async fn as_many_large_messages_are_taken_as_fit_the_budget() {
    let place = Place::with("large", |settings| settings.broker.prefetch_bytes = BUDGET).await;
    for number in 0..60 {
        place.send(&vec![number; LARGE], BasicProperties::default()).await;
    }
    let mut consumer = place.consumer().await;
    let mut heard = 0;
    while heard < 60 {
        let taken = all_that_come(&mut consumer).await;
        assert!(taken.len() * LARGE <= BUDGET, "{} large messages at once", taken.len());
        heard += taken.len();
        consumer.control.ack(taken.iter().map(|delivery| delivery.tag).collect());
    }
    place.wait_for_count(&place.names.orders(), 0).await;
    consumer.control.close().await;
    place.clean_up().await;
}

/// The window is wide when the first large one comes: what is on its way by then comes, and nothing new before there is
/// room. When small ones follow, many are taken at once again.
#[tokio::test]
async fn small_messages_are_taken_by_the_dozen_again_after_large_ones() {
    let place = Place::with("mixed", |settings| settings.broker.prefetch_bytes = BUDGET).await;
    place.send_numbers(100).await;
    for number in 0..60 {
        place.send(&vec![number; LARGE], BasicProperties::default()).await;
    }
    let mut consumer = place.consumer().await;
    take_and_acknowledge(&mut consumer, 160).await;
    place.send_numbers(300).await;
    let most = take_and_acknowledge(&mut consumer, 300).await;
    assert!(most >= 50, "at most {most} small ones at once");
    place.wait_for_count(&place.names.orders(), 0).await;
    consumer.control.close().await;
    place.clean_up().await;
}

/// Takes exactly so many, and acknowledges them as they come; returns the most that came at once.
async fn take_and_acknowledge(consumer: &mut Consumer, count: usize) -> usize {
    let (mut heard, mut most) = (0, 0);
    while heard < count {
        let taken = all_that_come(consumer).await;
        (heard, most) = (heard + taken.len(), most.max(taken.len()));
        consumer.control.ack(taken.iter().map(|delivery| delivery.tag).collect());
    }
    assert_eq!(heard, count, "each once");
    most
}

/// They come first, when a session takes one message alone, and again when it takes many.
#[tokio::test]
async fn messages_larger_than_the_budget_come_one_by_one_on_the_same_session() {
    let place = Place::with("larger", |settings| settings.broker.prefetch_bytes = LARGE / 2).await;
    for number in 0..5 {
        place.send(&vec![number; LARGE], BasicProperties::default()).await;
    }
    place.send_numbers(20).await;
    let mut consumer = place.consumer().await;
    for number in 0..25 {
        let delivery = delivery(&mut consumer).await;
        assert_eq!(delivery.tag.session, 1, "message {number}: the first session goes on");
        consumer.control.ack(vec![delivery.tag]);
    }
    place.wait_for_count(&place.names.orders(), 0).await;
    consumer.control.close().await;
    place.clean_up().await;
}
