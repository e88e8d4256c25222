//! Messages of strangers: odd but harmless ones are decided like all others, forged headers are not believed, and whatever
//! is refused comes back byte for byte.

use std::time::{SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use lastunit::config::Settings;
use lastunit::fence::{Epoch, FenceToken};
use lastunit::lease::{Attempt, Leases, Reply, Request, Seed};
use lastunit::order::Sku;

use crate::support::wait::equal;
use crate::support::{Backend, SOON, Sandbox, eventually, setting};

const RANDOM_BODIES: usize = 300;
const MAX_BYTES: usize = 4_096;

fn table(pairs: Vec<(&str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert(name.into(), value);
    }
    table
}

fn text(text: impl Into<Vec<u8>>) -> AMQPValue {
    AMQPValue::LongString(text.into().into())
}

/// A header of each type that AMQP has, and each of our own names with a value that we would not write.
fn headers() -> FieldTable {
    table(vec![
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
        ("no text", text([0xff, 0xfe, 0x00])),
        ("array", AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::Void, AMQPValue::Boolean(false)]))),
        ("time", AMQPValue::Timestamp(u64::MAX)),
        ("table", AMQPValue::FieldTable(table(vec![("inner", text("x"))]))),
        ("bytes", AMQPValue::ByteArray(vec![0, 1, 255].into())),
        ("void", AMQPValue::Void),
        ("traceparent", AMQPValue::LongLongInt(1)),
        ("x-delivery-count", AMQPValue::LongLongInt(19)),
        ("lastunit-attempts", AMQPValue::Double(3.5)),
        ("lastunit-reason", AMQPValue::Void),
        ("lastunit-exchange", AMQPValue::Boolean(true)),
        ("lastunit-publish-id", AMQPValue::ByteArray(vec![1].into())),
        ("lastunit-revision", text("many")),
    ])
}

/// Bodies and properties that a strict reader could trip over, with `ID` for the order's id.
fn harmless() -> Vec<(&'static str, BasicProperties)> {
    let plain = BasicProperties::default;
    let order = r#"{"order_id":"ID","sku":"X","quantity":1}"#;
    vec![
        (order, plain()),
        ("\u{feff}{\"order_id\":\"ID\",\"sku\":\"X\",\"quantity\":1}\r\n", plain()),
        (" \n\t{ \"quantity\" : 1 , \"sku\" : \"X\" , \"order_id\" : \"ID\" } \n", plain()),
        (r#"{"order_id":"ID","sku":"\u0058","quantity":1,"lines":null,"hold_seconds":null}"#, plain()),
        (r#"{"order_id":"ID","sku":"X","quantity":1,"x":1,"x":{"order_id":17},"":[[[]]]}"#, plain()),
        (order, plain().with_content_type("text/plain; charset=latin1".into())),
        (order, plain().with_content_encoding("UTF-8".into())),
        (order, plain().with_content_encoding("identity".into())),
        (order, plain().with_content_encoding("".into()).with_type("".into())),
        (order, plain().with_type("reserve-last-unit".into()).with_message_id("m".repeat(255).into())),
        (order, plain().with_message_id("the same".into())),
        (order, plain().with_message_id("the same".into()).with_correlation_id("é".into())),
        (order, plain().with_timestamp(u64::MAX).with_priority(255).with_app_id("\u{1}".into())),
        (order, plain().with_headers(headers())),
    ]
}

#[tokio::test]
async fn odd_but_harmless_messages_are_decided_like_all_others() {
    let sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.stock("X", 1_000).await;
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(1).await;
    let id = |number: usize| format!("A-{number:03}");
    let numbered = || (0..).zip(harmless());
    let messages = numbered().map(|(number, (body, properties))| (body.replace("ID", &id(number)), properties));
    sandbox.rabbit.publish(messages).await;
    let events = listener.wait_for(harmless().len(), SOON).await;
    sandbox.finish(workers).await;
    assert!(events.iter().all(|event| event.routing_key == "reservation.reserved"));
    let ids: Vec<_> = numbered().map(|(number, _)| id(number)).collect();
    assert_eq!(sandbox.sql().await.texts("order_id", "reservation").await, ids);
    assert_eq!(sandbox.rabbit.count("dead.invalid").await + sandbox.rabbit.count("dead.failed").await, 0);
    sandbox.audit().await;
}

/// SplitMix64: a failure is repeated with the seed that it printed.
struct Random(u64);

impl Random {
    fn from_seed() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        let seed =
            setting("LASTUNIT_TEST_SEED", &(now as u64).to_string()).parse().expect("LASTUNIT_TEST_SEED is a number");
        eprintln!("LASTUNIT_TEST_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Up to half as much again as the worker reads, and many that are short.
    fn body(&mut self) -> Vec<u8> {
        let most = if self.next().is_multiple_of(2) { 16 } else { MAX_BYTES as u64 * 3 / 2 };
        let length = self.next() % most;
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

#[tokio::test]
async fn random_bytes_come_back_as_dead_letters_byte_for_byte() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.set("broker.max_message_bytes", MAX_BYTES);
    let workers = sandbox.workers(1).await;
    let mut random = Random::from_seed();
    let mut sent: Vec<_> = (0..RANDOM_BODIES).map(|_| random.body()).collect();
    sandbox.rabbit.send(&sent).await;
    eventually("all are dead letters", SOON, async || {
        equal(sandbox.rabbit.count("dead.invalid").await as usize, RANDOM_BODIES)
    })
    .await;
    sandbox.finish(workers).await;
    let letters = sandbox.rabbit.drain("dead.invalid").await;
    let too_large = letters.iter().filter(|letter| letter.routing_key == "invalid.too-large");
    assert!(too_large.clone().count() > 0 && too_large.clone().all(|letter| letter.body.len() > MAX_BYTES));
    let mut back: Vec<_> = letters.into_iter().map(|letter| letter.body).collect();
    sent.sort_unstable();
    back.sort_unstable();
    assert!(sent == back, "bodies differ");
}

#[tokio::test]
async fn a_forged_count_of_attempts_is_not_believed() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.set("lease.ttl_ms", 60_000);
    sandbox.set("lease.wait_ms", 100);
    sandbox.set("retry.max_attempts", 2);
    sandbox.stock("X", 5).await;
    hold(&sandbox, "X").await;
    let workers = sandbox.workers(1).await;
    let death = table(vec![("queue", text(sandbox.rabbit.name("retry.200"))), ("reason", text("expired"))]);
    let forged = table(vec![
        ("lastunit-attempts", AMQPValue::LongLongInt(1_000_000)),
        ("lastunit-exchange", text("elsewhere")),
        ("lastunit-routing-key", text("elsewhere")),
        ("x-death", AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::FieldTable(death)]))),
    ]);
    let body = r#"{"order_id":"A-1","sku":"X","quantity":1}"#;
    sandbox.rabbit.publish([(body, BasicProperties::default().with_headers(forged))]).await;
    let lost = "dead.lost-race";
    eventually("it has lost", SOON, async || equal(sandbox.rabbit.count(lost).await, 1)).await;
    sandbox.finish(workers).await;
    let letters = sandbox.rabbit.drain(lost).await;
    let (letter, header) = (&letters[0], |name| letters[0].header(name).unwrap_or_default());
    assert_eq!((letter.routing_key.as_str(), letter.body.as_slice()), ("lost-race.lease-timeout", body.as_bytes()));
    assert_eq!(header("lastunit-attempts"), "LongLongInt(2)", "both passes through the delay queues, and no others");
    assert_eq!(header("lastunit-exchange"), sandbox.rabbit.name("orders"));
    assert_eq!(header("lastunit-routing-key"), "shop.order");
}

/// Takes the lease of a SKU for longer than the test lasts.
async fn hold(sandbox: &Sandbox, sku: &str) {
    let settings = Settings::load(None, sandbox.env()).expect("settings");
    let leases = Leases::connect(&settings.redis, &settings.lease, "somebody").await.expect("redis");
    let (attempt, sku) = (Attempt::new(), Sku::new(sku).expect("a sku"));
    let request = [Request { sku: sku.clone(), previous: None, floor: FenceToken::ZERO }];
    let replies = leases.acquire(attempt, &request).await.expect("an answer");
    let Reply::Unknown { incarnation, .. } = &replies[0] else { panic!("{replies:?}") };
    let seed = Seed { sku, incarnation: incarnation.clone(), epoch: Epoch::new(1).expect("an epoch") };
    leases.seed(&[seed]).await.expect("seeded");
    let replies = leases.acquire(attempt, &request).await.expect("an answer");
    assert!(matches!(replies[0], Reply::Granted(_)), "{replies:?}");
}
