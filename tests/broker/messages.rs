//! Foreign messages, published again.

use std::sync::Arc;

use lapin::BasicProperties;
use lapin::message::Delivery as Raw;
use lapin::options::BasicGetOptions;
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use lastunit::broker::{DeadQueue, Delivery, Outgoing};
use serde_json::json;

use crate::support::{Place, delivery};

const BODY: &[u8] = b"\xff\x00 not an order \r\n";

fn table(pairs: Vec<(&str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert(name.into(), value);
    }
    table
}

/// Headers of every type that a client can send.
fn every_type() -> Vec<(&'static str, AMQPValue)> {
    vec![
        ("bool", AMQPValue::Boolean(true)),
        ("i8", AMQPValue::ShortShortInt(-8)),
        ("u8", AMQPValue::ShortShortUInt(8)),
        ("i16", AMQPValue::ShortInt(-16)),
        ("u16", AMQPValue::ShortUInt(16)),
        ("i32", AMQPValue::LongInt(-32)),
        ("u32", AMQPValue::LongUInt(32)),
        ("i64", AMQPValue::LongLongInt(i64::MIN)),
        ("f32", AMQPValue::Float(0.5)),
        ("f64", AMQPValue::Double(-0.25)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 1999 })),
        ("text", AMQPValue::LongString("häder".into())),
        ("no text", AMQPValue::LongString(vec![0xff, 0xfe, 0x00].into())),
        ("array", AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::Void, AMQPValue::Boolean(false)]))),
        ("time", AMQPValue::Timestamp(1_764_000_000)),
        ("table", AMQPValue::FieldTable(table(vec![("CC", AMQPValue::LongString("inner".into()))]))),
        ("bytes", AMQPValue::ByteArray(vec![0, 1, 255].into())),
        ("void", AMQPValue::Void),
    ]
}

fn hostile(place: &Place) -> BasicProperties {
    let elsewhere = FieldArray::from(vec![AMQPValue::LongString(place.names.dead_queue(DeadQueue::Failed).into())]);
    let mut headers = every_type();
    headers.extend([
        ("CC", AMQPValue::FieldArray(elsewhere)),
        ("x-delivery-count", AMQPValue::LongLongInt(19)),
        ("x-death", AMQPValue::LongString("not even an array".into())),
        ("lastunit-attempts", AMQPValue::LongString("many".into())),
        ("lastunit-reason", AMQPValue::LongString("forged".into())),
        ("lastunit-exchange", AMQPValue::LongString("forged".into())),
        ("huge", AMQPValue::LongString("x".repeat(120_000).into())),
    ]);
    BasicProperties::default()
        .with_headers(table(headers))
        .with_user_id("guest".into())
        .with_expiration("600000".into())
        .with_message_id("é".repeat(127).into())
        .with_type("unheard-of".into())
        .with_content_encoding("x-unknown".into())
        .with_correlation_id("c-1".into())
        .with_priority(3)
        .with_timestamp(u64::MAX)
}

async fn get(place: &Place, queue: &str) -> Raw {
    place.wait_for_count(queue, 1).await;
    let options = BasicGetOptions { no_ack: true };
    place.channel.basic_get(queue.into(), options).await.unwrap().unwrap().delivery
}

async fn receive(place: &Place, properties: BasicProperties) -> Arc<Delivery> {
    let mut consumer = place.consumer().await;
    place.send(BODY, properties).await;
    let delivery = delivery(&mut consumer).await;
    consumer.control.ack(vec![delivery.tag]);
    consumer.control.close().await;
    Arc::new(delivery)
}

#[tokio::test]
async fn a_hostile_message_becomes_a_dead_letter_with_its_body_untouched() {
    let place = Place::new("hostile").await;
    let original = receive(&place, hostile(&place)).await;
    assert_eq!((original.kind.as_deref(), original.attempts), (Some("unheard-of"), 0));
    assert_eq!(original.content_encoding.as_deref(), Some("x-unknown"));
    let detail = json!({"code": "encoding"});
    let letter = Outgoing::dead_letter(&place.names, "invalid.encoding", &detail, &original);
    let results = place.publisher().await.publish(&[letter]).await;
    assert!(matches!(results[..], [Ok(())]), "{results:?}");

    let found = get(&place, &place.names.dead_queue(DeadQueue::Invalid)).await;
    assert_eq!(found.data, BODY);
    let headers = found.properties.headers().as_ref().unwrap().inner();
    for (name, value) in every_type() {
        assert_eq!(headers.get(name), Some(&value), "{name}");
    }
    for gone in ["CC", "x-death", "huge"] {
        assert!(!headers.contains_key(gone), "{gone}");
    }
    assert_ne!(
        headers.get("x-delivery-count"),
        Some(&AMQPValue::LongLongInt(19)),
        "the broker's count, not the sender's"
    );
    let text = |name| match headers.get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        other => panic!("{name} is {other:?}"),
    };
    assert_eq!(text("lastunit-reason"), "invalid.encoding");
    assert_eq!(text("lastunit-detail"), detail.to_string());
    assert_eq!(text("lastunit-exchange"), place.names.orders());
    assert_eq!(text("lastunit-routing-key"), "shop.web");
    assert_eq!(headers.get("lastunit-attempts"), Some(&AMQPValue::LongLongInt(0)));
    assert!(chrono::DateTime::parse_from_rfc3339(&text("lastunit-died-at")).is_ok());
    let kept = &found.properties;
    assert_eq!((kept.user_id(), kept.expiration()), (&None, &None));
    assert_eq!(kept.message_id().as_ref().unwrap().as_str(), "é".repeat(127));
    assert_eq!((kept.kind().as_ref().unwrap().as_str(), *kept.delivery_mode()), ("unheard-of", Some(2)));
    assert_eq!((*kept.priority(), *kept.timestamp()), (Some(3), Some(u64::MAX)));
    place.clean_up().await;
}

#[tokio::test]
async fn a_retry_comes_back_with_one_attempt_more_and_knows_where_it_came_from() {
    let place = Place::new("retry").await;
    let publisher = place.publisher().await;
    let mut consumer = place.consumer().await;
    place.send(BODY, BasicProperties::default().with_headers(table(every_type()))).await;
    for attempts in 0..3 {
        let original = Arc::new(delivery(&mut consumer).await);
        assert_eq!((original.attempts, original.body.as_slice()), (attempts, BODY));
        assert_eq!((original.exchange.as_str(), original.routing_key.as_str()), (&*place.names.orders(), "shop.web"));
        let results = publisher.publish(&[Outgoing::retry(&place.names, 50, &original)]).await;
        assert!(matches!(results[..], [Ok(())]), "{results:?}");
        consumer.control.ack(vec![original.tag]);
    }
    consumer.control.close().await;
    place.clean_up().await;
}

#[tokio::test]
async fn an_event_carries_its_id_and_the_trace_context_of_its_cause() {
    let place = Place::new("event").await;
    let observer = place.observer().await;
    let mut outcomes = observer.listen(&place.names.outcomes(), "reservation.*").await.unwrap();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let properties = BasicProperties::default().with_headers(table(vec![
        ("traceparent", AMQPValue::LongString(trace.into())),
        ("tracestate", AMQPValue::LongString("x".repeat(5000).into())),
        ("baggage", AMQPValue::LongString("not ours to carry".into())),
    ]));
    let cause = receive(&place, properties).await;
    let event = Outgoing::event(&place.names, "reservation.reserved", "id-1", Vec::from(b"{}").into(), &cause);
    let results = place.publisher().await.publish(&[event]).await;
    assert!(matches!(results[..], [Ok(())]), "{results:?}");
    let heard = outcomes.next().await.unwrap();
    assert_eq!((heard.routing_key.as_str(), heard.message_id.as_deref()), ("reservation.reserved", Some("id-1")));
    assert_eq!((heard.headers, heard.body), (json!({"traceparent": trace}), Vec::from(b"{}")));
    place.clean_up().await;
}
