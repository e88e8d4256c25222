//! The end of a run: everything that came in is counted, in the tables, the events and the dead letters.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::load::Sent;
use super::orders::message;
use crate::support::verdicts::{expect_recorded, verdicts_of};
use crate::support::wait::equal;
use crate::support::{Message, SOON, Sandbox, eventually};

/// What is still on its way through the delay queues takes its time.
const THE_REST: Duration = Duration::from_secs(180);

/// What came out.
pub struct Outcome {
    /// Distinct orders.
    pub orders: usize,
    pub reserved: usize,
    pub sold_out: usize,
    /// Events, repetitions included.
    pub events: usize,
    pub letters: usize,
}

/// What went in: each order's body, and how often it was sent at least.
pub fn sent_orders(seed: u64, sent: Sent) -> BTreeMap<String, (String, u64)> {
    let mut orders = BTreeMap::new();
    for number in 0..sent.messages {
        let message = message(seed, number);
        orders.entry(message.order_id).or_insert((message.body, 0)).1 += 1;
    }
    orders
}

/// Waits until every order that went in is decided and nothing is left in the queues.
pub async fn wait_for_decisions(sandbox: &Sandbox, orders: &BTreeMap<String, (String, u64)>) {
    let sql = sandbox.sql().await;
    let rabbit = crate::support::Rabbit::connect(sandbox.get("broker.url"), sandbox.get("broker.name_prefix")).await;
    eventually("every order is decided", THE_REST, async || {
        let failed = rabbit.count("dead.failed").await;
        assert_eq!(failed, 0, "dead letters that are not sold-out");
        equal(sql.number("count(*)", "reservation").await, orders.len() as i64)
    })
    .await;
}

/// Counts, once the workers have ended: promises 1, 4 and 5.
pub async fn count(sandbox: &Sandbox, orders: &BTreeMap<String, (String, u64)>) -> Outcome {
    // The connection of the beginning went with the broker.
    let rabbit = crate::support::Rabbit::connect(sandbox.get("broker.url"), sandbox.get("broker.name_prefix")).await;
    for queue in ["orders", "retry.200", "retry.1000", "dead.invalid", "dead.failed"] {
        eventually(&format!("nothing is left in {queue}"), SOON, async || equal(rabbit.count(queue).await, 0)).await;
    }
    let events = rabbit.drain("events").await;
    let verdicts = verdicts_of(&events);
    assert!(verdicts.reserved.is_disjoint(&verdicts.rejected), "an order has one decision");
    expect_recorded(&sandbox.sql().await, &verdicts).await;
    let decided: BTreeSet<&String> = verdicts.reserved.union(&verdicts.rejected).collect();
    assert!(decided.iter().copied().eq(orders.keys()), "every order that went in has its event, and no other");
    let letters = rabbit.drain("dead.lost-race").await;
    expect_letters(&letters, orders, &verdicts.rejected);
    sandbox.audit().await;
    Outcome {
        orders: orders.len(),
        reserved: verdicts.reserved.len(),
        sold_out: verdicts.rejected.len(),
        events: events.len(),
        letters: letters.len(),
    }
}

/// One for each time that a lost order was sent, at least; for no reason but sold-out; equal to the byte to what was sent.
fn expect_letters(letters: &[Message], orders: &BTreeMap<String, (String, u64)>, lost: &BTreeSet<String>) {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for letter in letters {
        assert_eq!(letter.header("lastunit-reason").as_deref(), Some("lost-race.sold-out"), "{letter:?}");
        let id = letter.json()["order_id"].as_str().expect("an order id").to_owned();
        assert_eq!(letter.body, orders[&id].0.as_bytes(), "the body of {id}");
        *found.entry(id).or_default() += 1;
    }
    assert!(found.keys().eq(lost), "every lost order has its dead letter, and no other");
    for (id, count) in &found {
        assert!(*count >= orders[id].1, "{id} was sent {} times, and has {count} dead letters", orders[id].1);
    }
}
