//! What every run must leave behind, counted from the tables, the events and the queues themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::{Message, SOON, Sandbox, Sql, eventually};

/// How a run ended.
pub struct Verdicts {
    /// Orders that got their units.
    pub reserved: BTreeSet<String>,
    /// Orders that did not.
    pub rejected: BTreeSet<String>,
}

/// Events are at-least-once: those of one order are alike to the byte, and ids tell repetitions.
pub fn verdicts_of(events: &[Message]) -> Verdicts {
    let mut bodies: BTreeMap<String, &[u8]> = BTreeMap::new();
    let mut verdicts = Verdicts { reserved: BTreeSet::new(), rejected: BTreeSet::new() };
    for event in events {
        let order = event.order_id();
        assert_eq!(event.json()["type"], event.routing_key.as_str(), "the routing key is the type");
        let first = bodies.entry(order.clone()).or_insert(&event.body);
        assert_eq!(*first, event.body, "two different events for {order}");
        let side = match event.routing_key.as_str() {
            "reservation.reserved" => &mut verdicts.reserved,
            "reservation.rejected" => &mut verdicts.rejected,
            other => panic!("an event of type {other}"),
        };
        side.insert(order);
    }
    verdicts
}

/// The tables say the same as the events: one decision per order.
pub async fn expect_recorded(sql: &Sql, verdicts: &Verdicts) {
    for (outcome, orders) in [("reserved", &verdicts.reserved), ("rejected", &verdicts.rejected)] {
        let recorded = sql.texts("order_id", &format!("reservation where outcome = '{outcome}'")).await;
        assert_eq!(recorded, orders.iter().cloned().collect::<Vec<_>>(), "{outcome}");
    }
}

/// Every lost order's message lies in the dead letters, for no reason but sold-out, its body untouched; nothing else does.
pub async fn expect_sold_out_letters(sandbox: &Sandbox, orders: &BTreeMap<String, String>, lost: &BTreeSet<String>) {
    eventually("a dead letter for every lost order", SOON, async || {
        let count = sandbox.rabbit.count("dead.lost-race").await as usize;
        if count >= lost.len() { Ok(()) } else { Err(format!("{count} of {}", lost.len())) }
    })
    .await;
    let letters = sandbox.rabbit.drain("dead.lost-race").await;
    let mut found = BTreeSet::new();
    for letter in &letters {
        assert_eq!(letter.routing_key, "lost-race.sold-out", "{letter:?}");
        assert_eq!(letter.header("lastunit-reason").as_deref(), Some("lost-race.sold-out"));
        let order: serde_json::Value = letter.json();
        let id = order["order_id"].as_str().expect("an order id").to_owned();
        assert_eq!(letter.body, orders[&id].as_bytes(), "the body of {id}");
        found.insert(id);
    }
    assert_eq!(&found, lost);
    assert_eq!(sandbox.rabbit.count("dead.invalid").await, 0, "nothing is invalid");
    assert_eq!(sandbox.rabbit.count("dead.failed").await, 0, "nothing failed");
}

/// Orders for one unit each, by id; the SKUs take turns.
pub fn orders_for(skus: &[&str], count: usize) -> BTreeMap<String, String> {
    let order = |number: usize| {
        let (id, sku) = (format!("A-{number:05}"), skus[number % skus.len()]);
        // The odd spaces are part of the body, which must come back byte for byte.
        let body = format!("{{\"order_id\":  \"{id}\", \"sku\": \"{sku}\",\t\"quantity\": 1}}\n");
        (id, body)
    };
    (0..count).map(order).collect()
}
