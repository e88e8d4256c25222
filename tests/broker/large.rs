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

/// The window is wide when the first large one comes: what is on its way by then comes, but no more, and all of it is
/// taken in the end; and when small ones follow, many are taken at once again.
#[tokio::test]
async fn large_messages_behind_small_ones_are_taken_when_there_is_room() {
    let place = Place::with("mixed", |settings| settings.broker.prefetch_bytes = BUDGET).await;
    place.send_numbers(100).await;
    for number in 0..60 {
        place.send(&vec![number; LARGE], BasicProperties::default()).await;
    }
    place.send_numbers(300).await;
    let mut consumer = place.consumer().await;
    let (mut heard, mut most_small) = (0, 0);
    while heard < 460 {
        let taken = all_that_come(&mut consumer).await;
        heard += taken.len();
        if taken.iter().all(|delivery| delivery.body.len() < LARGE) {
            most_small = most_small.max(taken.len());
        }
        consumer.control.ack(taken.iter().map(|delivery| delivery.tag).collect());
    }
    assert_eq!(heard, 460, "each once");
    assert!(most_small >= 50, "at most {most_small} small ones at once");
    place.wait_for_count(&place.names.orders(), 0).await;
    consumer.control.close().await;
    place.clean_up().await;
}
