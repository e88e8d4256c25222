//! Declaring, verifying, and saying what differs.

use lastunit::broker::topology::{State, Topology};
use lastunit::broker::{Consumer, DeadQueue, Error};
use lastunit::config::Settings;

use crate::support::Place;

async fn states(settings: &Settings) -> Vec<State> {
    let items = Topology::new(&settings.broker, &settings.retry).inspect(&settings.broker).await.unwrap();
    items.into_iter().map(|item| item.state).collect()
}

#[tokio::test]
async fn what_is_missing_is_created_once_and_present_after_that() {
    let place = Place::new("created").await;
    place.delete_queue(&place.names.dead_queue(DeadQueue::Invalid)).await;
    let first = states(&place.settings).await;
    assert_eq!(first.iter().filter(|state| **state == State::Created).count(), 1);
    assert!(states(&place.settings).await.iter().all(|state| *state == State::Present));
    place.clean_up().await;
}

#[tokio::test]
async fn without_the_right_to_declare_everything_is_only_verified() {
    let mut place = Place::new("verified").await;
    place.settings.broker.declare = false;
    assert!(states(&place.settings).await.iter().all(|state| *state == State::Present));
    let queue = place.names.dead_queue(DeadQueue::Failed);
    place.delete_queue(&queue).await;
    let fault = Consumer::start(&place.settings.broker, &place.settings.retry).await.unwrap_err();
    assert!(matches!(&fault, Error::Topology(text) if text.contains(&queue) && text.contains("To mend")), "{fault}");
    place.clean_up().await;
}

#[tokio::test]
async fn a_queue_that_differs_is_named_and_nobody_works_on_it() {
    let mut place = Place::new("differs").await;
    place.settings.broker.delivery_limit += 1;
    let states = states(&place.settings).await;
    let differing: Vec<_> = states.iter().filter(|state| matches!(state, State::Differs(_))).collect();
    assert!(matches!(differing[..], [State::Differs(told)] if told.contains("x-delivery-limit")), "{differing:?}");
    let fault = Consumer::start(&place.settings.broker, &place.settings.retry).await.unwrap_err();
    assert!(matches!(&fault, Error::Topology(text) if text.contains(&place.names.orders())), "{fault}");
    place.clean_up().await;
}
