//! Batches whose every message is confirmed or accounted for.

use std::sync::Arc;

use lapin::options::ExchangeDeleteOptions;
use lastunit::broker::client::publish_orders;
use lastunit::broker::{DeadQueue, Delivery, Error, Outgoing, Tag};
use serde_json::json;

use crate::support::{Link, Place};

fn original(number: u64) -> Arc<Delivery> {
    Arc::new(Delivery::bare(Tag { session: 1, delivery: number }, number.to_string().into_bytes()))
}

#[tokio::test]
async fn only_messages_that_no_queue_takes_are_returned() {
    let place = Place::new("returned").await;
    place.delete_queue(&place.names.dead_queue(DeadQueue::Invalid)).await;
    let messages: Vec<_> = (0..90)
        .map(|number| {
            let (original, detail) = (original(number), json!({}));
            match number % 3 {
                0 => Outgoing::event(&place.names, "reservation.rejected", "id", Vec::from(b"{}").into(), &original),
                1 => Outgoing::dead_letter(&place.names, "lost-race.sold-out", &detail, &original),
                _ => Outgoing::dead_letter(&place.names, "invalid.json", &detail, &original),
            }
        })
        .collect();
    let results = place.publisher().await.publish(&messages).await;
    for (number, result) in results.iter().enumerate() {
        assert_eq!(matches!(result, Err(Error::Returned(_))), number % 3 == 2, "{number}: {result:?}");
        assert_eq!(result.is_ok(), number % 3 != 2, "{number}: {result:?}");
    }
    place.wait_for_count(&place.names.dead_queue(DeadQueue::LostRace), 30).await;
    place.clean_up().await;
}

#[tokio::test]
async fn one_refused_message_does_not_fail_its_neighbours() {
    let place = Place::new("refused").await;
    place.channel.exchange_delete(place.names.outcomes().into(), ExchangeDeleteOptions::default()).await.unwrap();
    let event = Outgoing::event(&place.names, "reservation.rejected", "id", Vec::from(b"{}").into(), &original(1));
    let letter = Outgoing::dead_letter(&place.names, "lost-race.sold-out", &json!({}), &original(2));
    let publisher = place.publisher().await;
    let results = publisher.publish(&[letter.clone(), event, letter]).await;
    assert!(matches!(results[..], [Ok(()), Err(Error::Topology(_)), Ok(())]), "{results:?}");
    place.clean_up().await;
}

#[tokio::test]
async fn a_cut_connection_is_replaced_by_the_next_batch() {
    let link = Link::new().await;
    let place = Place::with("republish", |settings| settings.broker.url = link.url.clone()).await;
    let publisher = place.publisher().await;
    let letter = [Outgoing::dead_letter(&place.names, "lost-race.sold-out", &json!({}), &original(1))];
    assert!(publisher.publish(&letter).await[0].is_ok());
    link.cut();
    // The batch that meets the dead connection may fail, but says so; it is published again as the worker would.
    let mut results = publisher.publish(&letter).await;
    if matches!(results[0], Err(Error::Unavailable(_))) {
        results = publisher.publish(&letter).await;
    }
    assert!(results[0].is_ok(), "{results:?}");
    place.clean_up().await;
}

#[tokio::test]
async fn orders_are_published_with_confirms_and_counted() {
    let place = Place::new("orders").await;
    let publisher = place.publisher().await;
    let orders = (0..1234).map(|n| (Some(format!("A-{n}")), format!("{{\"order_id\":\"A-{n}\"}}").into_bytes()));
    let mut told = 0;
    let orders = futures_util::stream::iter(orders);
    let total = publish_orders(&publisher, &place.names, orders, |count| told += count).await.unwrap();
    assert_eq!((total, told), (1234, 1234));
    place.wait_for_count(&place.names.orders(), 1234).await;
    place.delete_queue(&place.names.orders()).await;
    let one = futures_util::stream::iter([(None, Vec::from(b"{}"))]);
    let fault = publish_orders(&publisher, &place.names, one, |_| {}).await.unwrap_err();
    assert!(matches!(fault, Error::Returned(_)), "{fault}");
    place.clean_up().await;
}

#[tokio::test]
async fn looking_at_dead_letters_leaves_them_in_their_places() {
    let place = Place::new("look").await;
    let letters: Vec<_> = (0..5)
        .map(|n| Outgoing::dead_letter(&place.names, "lost-race.sold-out", &json!({"n": n}), &original(n)))
        .collect();
    assert!(place.publisher().await.publish(&letters).await.iter().all(Result::is_ok));
    let observer = place.observer().await;
    for _ in 0..6 {
        let seen = observer.dead_letters(DeadQueue::LostRace, 3).await.unwrap();
        let bodies: Vec<_> = seen.iter().map(|letter| letter.body.clone()).collect();
        assert_eq!(bodies, [b"0", b"1", b"2"]);
        assert_eq!((seen[2].position.as_str(), seen[2].reason.as_str()), ("lost-race/3", "lost-race.sold-out"));
    }
    let queue = place.names.dead_queue(DeadQueue::LostRace);
    place.wait_for_count(&queue, 5).await;
    assert_eq!(observer.purge(&queue).await.unwrap(), 5);
    place.clean_up().await;
}
