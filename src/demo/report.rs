//! What happened, so that a person sees it at a glance.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// Winners that are named; more would not be seen at a glance.
const NAMED: usize = 3;

/// The end of a demo.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What was sold.
    pub sku: String,
    /// Units that were on the shelf.
    pub units: u64,
    /// Orders that raced for them.
    pub orders: usize,
    /// Worker processes.
    pub workers: usize,
    /// The orders that got a unit, sorted.
    pub winners: Vec<String>,
    /// Orders that got none, by reason.
    pub lost: BTreeMap<String, usize>,
    /// Outcome events as a subscriber received them, repetitions included.
    pub events: usize,
    /// Messages in the dead-letter queues, by queue.
    pub dead_letters: BTreeMap<String, u64>,
    /// Whether `lastunit audit` found nothing.
    pub audit_clean: bool,
    /// From the first order sent to the last order decided, milliseconds.
    pub elapsed_ms: u128,
    /// What must not be; empty when all is well.
    pub faults: Vec<String>,
}

impl Report {
    /// Compares the figures with what must have happened, and notes what is off.
    #[must_use]
    pub fn judged(mut self) -> Self {
        let due = self.orders.min(usize::try_from(self.units).unwrap_or(usize::MAX));
        let lost = self.orders - due;
        let dead: u64 = self.dead_letters.values().sum();
        let checks = [
            (self.winners.len() == due, format!("{} orders got a unit instead of {due}", self.winners.len())),
            (self.lost_in_all() == lost, format!("{} orders lost instead of {lost}", self.lost_in_all())),
            (
                self.lost.keys().all(|reason| reason == "sold-out"),
                "orders lost for another reason than sold-out".into(),
            ),
            (self.events >= self.orders, format!("{} events for {} orders", self.events, self.orders)),
            (dead >= lost as u64, format!("{dead} dead letters for {lost} lost orders")),
            (self.audit_clean, "the audit found something: see `lastunit audit`".into()),
        ];
        self.faults.extend(checks.into_iter().filter(|(holds, _)| !holds).map(|(_, fault)| fault));
        self
    }

    /// Whether everything happened as it must.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    fn lost_in_all(&self) -> usize {
        self.lost.values().sum()
    }

    fn rate(&self) -> u128 {
        self.orders as u128 * 1_000 / self.elapsed_ms.max(1)
    }

    fn named_winners(&self) -> String {
        let mut named: Vec<_> = self.winners.iter().take(NAMED).cloned().collect();
        if self.winners.len() > NAMED {
            named.push(format!("and {} more", self.winners.len() - NAMED));
        }
        named.join(", ")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost: Vec<_> = self.lost.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let dead: Vec<_> = self.dead_letters.iter().map(|(queue, count)| format!("{count} in {queue}")).collect();
        let elapsed = Duration::from_millis(u64::try_from(self.elapsed_ms).unwrap_or(u64::MAX));
        let (got, gone) = (self.winners.len(), self.lost_in_all());
        writeln!(f, "  got it        {got:>6}   {}", self.named_winners())?;
        writeln!(f, "  lost          {gone:>6}   {}", lost.join(", "))?;
        writeln!(f, "  events        {:>6}   one per order: {got} reserved, {gone} rejected", self.events)?;
        writeln!(f, "  dead letters  {:>6}   {}", self.dead_letters.values().sum::<u64>(), dead.join(", "))?;
        writeln!(f, "  audit         {:>6}", if self.audit_clean { "clean" } else { "FAILED" })?;
        write!(f, "  time          {:>6.2}   seconds, {} orders a second", elapsed.as_secs_f64(), self.rate())?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  WRONG: {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(units: u64, winners: usize, lost: usize) -> Report {
        Report {
            sku: "S".into(),
            units,
            orders: 5,
            workers: 3,
            winners: (0..winners).map(|number| format!("demo-{number}")).collect(),
            lost: BTreeMap::from([("sold-out".to_owned(), lost)]),
            events: 5,
            dead_letters: BTreeMap::from([("lost-race".to_owned(), lost as u64)]),
            audit_clean: true,
            elapsed_ms: 500,
            faults: Vec::new(),
        }
    }

    #[test]
    fn a_demo_in_which_all_is_well_has_no_fault() {
        assert!(report(1, 1, 4).judged().is_clean());
        assert!(report(4, 4, 1).judged().is_clean());
    }

    #[test]
    fn an_oversold_unit_is_a_fault() {
        assert!(!report(1, 2, 3).judged().is_clean());
    }

    #[test]
    fn whatever_is_off_is_named() {
        let mut off = report(1, 1, 4);
        off.audit_clean = false;
        off.events = 4;
        off.dead_letters.clear();
        let off = off.judged();
        assert_eq!(off.faults.len(), 3, "{:?}", off.faults);
        assert_eq!(off.to_string().matches("WRONG").count(), 3);
    }

    #[test]
    fn only_a_few_winners_are_named() {
        let text = report(5, 5, 0).to_string();
        assert!(text.contains("demo-0, demo-1, demo-2, and 2 more"), "{text}");
        assert!(text.contains("10 orders a second"), "{text}");
    }
}
