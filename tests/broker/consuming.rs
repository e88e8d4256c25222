//! A consumer that goes on whatever happens to its session.

use std::collections::HashSet;
use std::time::Duration;

use lastunit::broker::{Event, Tag};

use crate::support::{DEADLINE, Link, Place, delivery, lost, next, take};
use crate::wait::eventually;

#[tokio::test]
async fn acknowledgements_in_any_sequence_leave_nothing_behind() {
    let place = Place::new("acks").await;
    place.send_numbers(300).await;
    let mut consumer = place.consumer().await;
    let taken = take(&mut consumer, 300).await;
    let mut tags: Vec<Tag> = taken.iter().skip(1).map(|delivery| delivery.tag).collect();
    // Far from the sequence of delivery, but the same every time.
    tags.sort_by_key(|tag| (tag.delivery * 7919) % 307);
    for piece in tags.chunks(13) {
        consumer.control.ack(piece.to_vec());
        consumer.control.ack(piece.to_vec());
    }
    consumer.control.close().await;
    place.wait_for_count(&place.names.orders(), 0).await;
    let mut again = place.consumer().await;
    place.send_numbers(1).await;
    assert!(!delivery(&mut again).await.redelivered, "only the new message is left");
    again.control.close().await;
    place.clean_up().await;
}

#[tokio::test]
async fn pause_gives_everything_back_and_resume_takes_it_again() {
    let place = Place::new("pause").await;
    place.send_numbers(50).await;
    let mut consumer = place.consumer().await;
    let taken = take(&mut consumer, 50).await;
    consumer.control.pause();
    assert_eq!(lost(&mut consumer).await, taken[0].tag.session);
    place.wait_for_count(&place.names.orders(), 49).await;
    consumer.control.ack(taken.iter().map(|delivery| delivery.tag).collect());
    consumer.control.resume();
    let again = take(&mut consumer, 49).await;
    let first: HashSet<_> = taken.iter().skip(1).map(|delivery| &delivery.body).collect();
    let second: HashSet<_> = again.iter().map(|delivery| &delivery.body).collect();
    assert_eq!(first, second, "acknowledgements of the old session changed nothing");
    assert!(again.iter().all(|delivery| delivery.redelivered));
    consumer.control.close().await;
    place.clean_up().await;
}

#[tokio::test]
async fn after_stop_nothing_new_comes_and_what_came_can_be_acknowledged() {
    let place = Place::new("stop").await;
    place.send_numbers(10).await;
    let mut consumer = place.consumer().await;
    let taken = take(&mut consumer, 10).await;
    consumer.control.stop().await;
    place.send_numbers(5).await;
    consumer.control.ack(taken.iter().map(|delivery| delivery.tag).collect());
    consumer.control.close().await;
    while let Some(event) = consumer.events.recv().await {
        assert!(matches!(event, Event::Lost { .. }), "{event:?}");
    }
    place.wait_for_count(&place.names.orders(), 5).await;
    place.clean_up().await;
}

#[tokio::test]
async fn a_deleted_queue_is_declared_again_and_consumed() {
    let place = Place::new("deleted").await;
    let mut consumer = place.consumer().await;
    place.delete_queue(&place.names.orders()).await;
    assert_eq!(lost(&mut consumer).await, 1);
    // Until the queue is there again, the exchange drops what it gets.
    let observer = place.observer().await;
    let there = async { while observer.count(&place.names.orders()).await.is_err() {} };
    tokio::time::timeout(DEADLINE, there).await.unwrap();
    place.wait_for_count(&place.names.orders(), 0).await;
    let delivery = eventually("a message arrives again", DEADLINE, async || {
        place.send(b"after", lapin::BasicProperties::default()).await;
        tokio::time::timeout(Duration::from_millis(50), delivery(&mut consumer)).await
    });
    assert_eq!(delivery.await.body, b"after");
    consumer.control.close().await;
    place.clean_up().await;
}

#[tokio::test]
async fn a_cut_connection_is_replaced_and_its_messages_come_again() {
    let link = Link::new().await;
    let place = Place::with("cut", |settings| settings.broker.url = link.url.clone()).await;
    place.send_numbers(20).await;
    let mut consumer = place.consumer().await;
    let taken = take(&mut consumer, 20).await;
    // What is acknowledged after the cut is not.
    link.cut();
    assert_eq!(lost(&mut consumer).await, 1);
    consumer.control.ack(taken.iter().map(|delivery| delivery.tag).collect());
    let again = take(&mut consumer, 19).await;
    assert!(again.iter().all(|delivery| delivery.tag.session == 2));
    consumer.control.ack(again.iter().skip(1).map(|delivery| delivery.tag).collect());
    consumer.control.close().await;
    place.wait_for_count(&place.names.orders(), 0).await;
    place.clean_up().await;
}

#[tokio::test]
async fn close_works_while_there_is_no_connection() {
    let place = Place::new("close").await;
    let mut consumer = place.consumer().await;
    consumer.control.pause();
    assert_eq!(lost(&mut consumer).await, 1);
    consumer.control.stop().await;
    consumer.control.close().await;
    assert!(consumer.events.recv().await.is_none());
    place.clean_up().await;
}

#[tokio::test]
async fn the_first_message_comes_alone_and_the_rest_follows_its_acknowledgement() {
    let place = Place::new("alone").await;
    place.send_numbers(10).await;
    let mut consumer = place.consumer().await;
    let first = delivery(&mut consumer).await;
    place.wait_for_count(&place.names.orders(), 9).await;
    consumer.control.ack(vec![first.tag]);
    let Event::Delivery(second) = next(&mut consumer).await else { panic!("the session goes on") };
    assert_eq!(second.tag.session, first.tag.session);
    place.wait_for_count(&place.names.orders(), 0).await;
    consumer.control.close().await;
    place.clean_up().await;
}
