//! PURE. Outcome events are counted: each order once, however often its event comes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

/// What an event says, as far as the demo counts it.
#[derive(Deserialize)]
struct Event {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    order_id: String,
    reason: Option<String>,
}

/// What has become of the orders so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Per decided order, `None` for reserved or the reason of its rejection.
    decided: HashMap<String, Option<String>>,
    /// Events seen, repetitions included.
    events: usize,
    /// Orders about which two events disagree, and bodies that are no event: there must be none.
    faults: BTreeSet<String>,
}

impl Tally {
    /// Counts an event.
    pub fn add(&mut self, body: &[u8]) {
        self.events += 1;
        let Data { order_id, reason } = match serde_json::from_slice::<Event>(body) {
            Ok(event) => event.data,
            Err(fault) => {
                self.faults.insert(format!("an event that cannot be read: {fault}"));
                return;
            }
        };
        let first = self.decided.entry(order_id).or_insert_with_key(|_| reason.clone());
        if *first != reason {
            self.faults.insert(format!("an order was decided twice: {first:?} and {reason:?}"));
        }
    }

    /// Orders decided so far.
    #[must_use]
    pub fn decided(&self) -> usize {
        self.decided.len()
    }

    /// Events seen, repetitions included.
    #[must_use]
    pub fn events(&self) -> usize {
        self.events
    }

    /// The orders that got their units, sorted.
    #[must_use]
    pub fn winners(&self) -> Vec<&str> {
        let mut winners: Vec<_> =
            self.decided.iter().filter(|(_, reason)| reason.is_none()).map(|(order, _)| order.as_str()).collect();
        winners.sort_unstable();
        winners
    }

    /// How many orders got nothing, by reason.
    #[must_use]
    pub fn lost(&self) -> BTreeMap<&str, usize> {
        let mut lost = BTreeMap::new();
        for reason in self.decided.values().flatten() {
            *lost.entry(reason.as_str()).or_default() += 1;
        }
        lost
    }

    /// What must not be.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        self.faults.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(order: &str, reason: Option<&str>) -> Vec<u8> {
        serde_json::json!({"data": {"order_id": order, "reason": reason}}).to_string().into_bytes()
    }

    #[test]
    fn a_repeated_event_counts_once() {
        let mut tally = Tally::default();
        for body in [event("B", None), event("A", None), event("B", None), event("C", Some("sold-out"))] {
            tally.add(&body);
        }
        assert_eq!((tally.decided(), tally.events()), (3, 4));
        assert_eq!(tally.winners(), ["A", "B"]);
        assert_eq!(tally.lost().into_iter().collect::<Vec<_>>(), [("sold-out", 1)]);
        assert_eq!(tally.faults().count(), 0);
    }

    #[test]
    fn two_different_decisions_on_one_order_are_a_fault() {
        let mut tally = Tally::default();
        tally.add(&event("A", None));
        tally.add(&event("A", Some("sold-out")));
        tally.add(b"{}");
        assert_eq!(tally.faults().count(), 2);
    }
}
