//! A message that kills every worker that touches it.

use std::collections::HashSet;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use lastunit::broker::{Consumer, DeadQueue, Event};
use lastunit::config::Address;

use crate::proxy::{Links, Proxy};
use crate::raw;
use crate::support::{Place, delivery, next, take, url};

const LIMIT: u32 = 6;

const BYSTANDERS: usize = 59;

/// Works until it dies of the killer (true), or the broker has taken the killer away and all others are settled.
async fn work_until_death(place: &Place, consumer: &mut Consumer, settled: &mut HashSet<Vec<u8>>) -> bool {
    let failed = place.names.dead_queue(DeadQueue::Failed);
    let gone = place.wait_for_count(&failed, 1);
    tokio::pin!(gone);
    let mut is_gone = false;
    while !is_gone || settled.len() < BYSTANDERS {
        let event = tokio::select! {
            event = next(consumer) => event,
            () = &mut gone, if !is_gone => {
                is_gone = true;
                continue;
            }
        };
        let Event::Delivery(delivery) = event else { continue };
        if delivery.body == b"killer" {
            return true;
        }
        consumer.control.ack(vec![delivery.tag]);
        settled.insert(delivery.body);
    }
    false
}

#[tokio::test]
async fn a_killer_is_dead_lettered_by_the_broker_and_takes_nobody_with_it() {
    let mut place = Place::with("killer", |settings| settings.broker.delivery_limit = LIMIT).await;
    for number in 0..=BYSTANDERS {
        let body = if number == 25 { "killer".to_owned() } else { number.to_string() };
        place.send(body.as_bytes(), BasicProperties::default()).await;
    }
    let mut url: url::Url = url().parse().unwrap();
    let link = Proxy::before(url.port().unwrap_or(5672));
    url.set_port(Some(link.port())).unwrap();
    let direct = std::mem::replace(&mut place.settings.broker.url, Address::new(url));
    let (mut settled, mut deaths) = (HashSet::new(), 0);
    loop {
        // A fresh process remembers nothing.
        let mut consumer = place.consumer().await;
        let died = work_until_death(&place, &mut consumer, &mut settled).await;
        if died {
            deaths += 1;
            // A process that is killed gives nothing back in good order, which RabbitMQ 4.3 would not count.
            link.close();
        }
        consumer.control.close().await;
        link.set(Links::OPEN);
        if !died {
            break;
        }
        assert!(deaths <= LIMIT + 1, "the broker's limit ends it");
    }
    place.settings.broker.url = direct;
    let observer = place.observer().await;
    let letters = observer.dead_letters(DeadQueue::Failed, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].body, b"killer");
    assert_eq!(letters[0].reason, "failed.delivery-limit");
    assert!(deaths >= 4, "it did kill: {deaths}");
    place.wait_for_count(&place.names.orders(), 0).await;
    place.clean_up().await;
}

#[tokio::test]
async fn a_forged_delivery_count_makes_nobody_suspect() {
    let place = Place::new("forged").await;
    let mut table = FieldTable::default();
    table.insert("x-delivery-count".into(), AMQPValue::LongLongInt(99));
    for _ in 0..3 {
        place.send(b"good", BasicProperties::default().with_headers(table.clone())).await;
    }
    let mut consumer = place.consumer().await;
    for _ in 0..3 {
        let delivery = delivery(&mut consumer).await;
        // RabbitMQ 4.3 leaves the forged count of a message that was given back in good order, which it does not count.
        assert!(delivery.redelivered || delivery.tag.session == 1, "no session ended over it");
        consumer.control.ack(vec![delivery.tag]);
    }
    consumer.control.close().await;
    place.clean_up().await;
}

#[tokio::test]
async fn a_message_that_cannot_be_read_takes_nobody_with_it() {
    let place = Place::with("unreadable", |settings| settings.broker.delivery_limit = LIMIT).await;
    for number in 0..40 {
        if number == 20 {
            raw::publish(&place.names.orders(), b"\xff\xfe", b"unreadable").await;
        }
        place.send(&[number], BasicProperties::default()).await;
    }
    let mut consumer = place.consumer().await;
    let mut settled = HashSet::new();
    let failed = place.names.dead_queue(DeadQueue::Failed);
    let gone = place.wait_for_count(&failed, 1);
    let working = async {
        loop {
            let delivery = delivery(&mut consumer).await;
            consumer.control.ack(vec![delivery.tag]);
            settled.insert(delivery.body);
        }
    };
    tokio::select! {
        () = gone => {}
        () = working => {}
    }
    while settled.len() < 40 {
        let delivery = delivery(&mut consumer).await;
        consumer.control.ack(vec![delivery.tag]);
        settled.insert(delivery.body);
    }
    consumer.control.close().await;
    place.wait_for_count(&place.names.orders(), 0).await;
    place.wait_for_count(&failed, 1).await;
    place.clean_up().await;
}

/// Three crashes of their worker make a whole prefetch suspect. Whoever gets it then works on one at a time, and gives none
/// of them back for it: that would cost each a delivery, until the broker takes them all for killers.
#[tokio::test]
async fn innocents_of_several_crashes_are_settled_one_by_one_and_not_given_back_again() {
    let place = Place::new("innocents").await;
    place.send_numbers(100).await;
    for _ in 0..2 {
        let mut crashing = place.consumer().await;
        take(&mut crashing, 20).await;
        crashing.control.close().await;
    }
    let mut crashing = place.consumer().await;
    take(&mut crashing, 20).await;
    let mut consumer = place.consumer().await;
    let sending = async {
        loop {
            place.send(b"fresh", BasicProperties::default()).await;
        }
    };
    // More than one, so that it takes many.
    let fresh = tokio::select! {
        fresh = take(&mut consumer, 3) => fresh,
        () = sending => Vec::new(),
    };
    consumer.control.ack(fresh[1..].iter().map(|delivery| delivery.tag).collect());
    crashing.control.close().await;

    let mut settled = HashSet::new();
    // Each of the crashing ones had settled its first.
    while settled.len() < 97 {
        let delivery = delivery(&mut consumer).await;
        assert_eq!(delivery.tag.session, 1, "no session ended over it");
        let is_fresh = delivery.body == b"fresh";
        assert!(is_fresh || consumer.events.is_empty(), "one suspect at a time");
        consumer.control.ack(vec![delivery.tag]);
        if !is_fresh {
            settled.insert(delivery.body);
        }
    }
    consumer.control.close().await;
    let failed = place.observer().await.count(&place.names.dead_queue(DeadQueue::Failed)).await.unwrap();
    assert_eq!(failed, 0, "the broker took nobody for a killer");
    place.clean_up().await;
}
