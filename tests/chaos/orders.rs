//! PURE. The messages of a run: which orders are sent, and how much there is to sell.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::random::Random;

const SKUS: u64 = 200;
/// The first few are what nearly everybody wants.
const HOT: u64 = 5;
/// Not a round's number.
const STREAM: u64 = u64::MAX;
/// Of a hundred messages so many repeat an earlier one.
const REPEATED_PERCENT: u64 = 3;
/// How far back the repeated one lies at most.
const FAR_BACK: u64 = 2_000;

/// A message as it is sent.
#[derive(Clone, Debug)]
pub struct Message {
    pub order_id: String,
    pub body: String,
}

/// The message with this number. Some repeat an earlier one to the byte.
pub fn message(seed: u64, number: u64) -> Message {
    let mut random = Random::new(seed ^ number.rotate_left(32), STREAM);
    if number > 0 && random.percent(REPEATED_PERCENT) {
        return message(seed, number - random.between(1, FAR_BACK.min(number) + 1));
    }
    let order_id = format!("A-{number}");
    // The odd spaces are part of the body, which must come back byte for byte.
    let mut body = format!("{{\"order_id\":  \"{order_id}\", \"lines\": [");
    let lines = if random.percent(30) { random.between(2, 6) } else { 1 };
    for line in 0..lines {
        let hot = random.percent(50);
        let sku = if hot { random.between(0, HOT) } else { random.between(0, SKUS) };
        let quantity = random.between(1, 4);
        let comma = if line > 0 { ",\t" } else { "" };
        write!(body, "{comma}{{\"sku\": \"{}\", \"quantity\": {quantity}}}", name(sku)).expect("a string");
    }
    body.push_str("]}\n");
    Message { order_id, body }
}

fn name(sku: u64) -> String {
    format!("SKU {sku} é")
}

/// What is on the shelf when so many messages are to come: of what is hot a third, of the rest two thirds of what is
/// wanted, so that a good part of the orders is sold out.
pub fn stock(seed: u64, messages: u64) -> BTreeMap<String, u64> {
    let mut wanted: BTreeMap<String, u64> = (0..SKUS).map(|sku| (name(sku), 0)).collect();
    let hot: Vec<String> = (0..HOT).map(name).collect();
    for number in 0..messages {
        for (sku, quantity) in lines(&message(seed, number)) {
            *wanted.get_mut(&sku).expect("a sku") += quantity;
        }
    }
    let share = |sku: &String, units: u64| if hot.contains(sku) { units / 3 } else { units * 2 / 3 };
    wanted.into_iter().map(|(sku, units)| (sku.clone(), share(&sku, units))).collect()
}

fn lines(message: &Message) -> Vec<(String, u64)> {
    let order: serde_json::Value = serde_json::from_str(&message.body).expect("JSON");
    let lines = order["lines"].as_array().expect("lines").iter();
    lines.map(|line| (line["sku"].as_str().expect("a sku").into(), line["quantity"].as_u64().expect("units"))).collect()
}

#[test]
fn messages_are_the_same_for_the_same_seed_and_some_come_again() {
    let ids = |seed| -> Vec<String> { (0..3_000).map(|number| message(seed, number).order_id).collect() };
    assert_eq!(ids(1), ids(1));
    assert_ne!(message(1, 5).body, message(2, 5).body);
    let mut distinct = ids(1);
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() < 2_960 && distinct.len() > 2_850, "{}", distinct.len());
}
