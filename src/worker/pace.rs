//! PURE. When to start the next batch: few large transactions under load, no order held up by a slow one.
//!
//! A transaction costs round trips and an fsync, whatever its size; so while one batch is in work, the orders that come
//! in are better kept together for the next. But a batch that takes unusually long (it waits for a lock, or recovers
//! counters) must not hold up the others, and one that is large enough gains nothing by waiting. How long is usual is measured: a
//! moving average, so that nothing here has to be tuned.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How many times the usual a batch may take before the next one no longer waits for it.
const PATIENCE: u32 = 2;
/// The weight of the newest batch in the moving average is one in this many.
const WEIGHT: u32 = 8;

/// The batches in work, from their start to their commit.
#[derive(Debug)]
pub struct Pace {
    most: usize,
    started: BTreeSet<(Instant, u64)>,
    number: u64,
    usual: Duration,
}

/// A batch in work.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(Instant, u64);

impl Pace {
    /// At most `most` batches at once.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, started: BTreeSet::new(), number: 0, usual: Duration::from_millis(5) }
    }

    /// Whether a batch may start now. `large`: what waits is worth a batch of its own.
    #[must_use]
    pub fn may_start(&self, large: bool, now: Instant) -> bool {
        self.started.is_empty()
            || (self.started.len() < self.most && (large || self.next_alarm().is_some_and(|at| at <= now)))
    }

    /// When a batch that is not large may start although others are in work; `None` when that is not a matter of time.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Instant> {
        let newest = self.started.last().filter(|_| self.started.len() < self.most)?;
        Some(newest.0 + self.usual * PATIENCE)
    }

    /// A batch starts.
    pub fn start(&mut self, now: Instant) -> Ticket {
        self.number += 1;
        self.started.insert((now, self.number));
        Ticket(now, self.number)
    }

    /// It is through with its SKUs.
    pub fn end(&mut self, ticket: Ticket, now: Instant) {
        self.started.remove(&(ticket.0, ticket.1));
        let took = now.saturating_duration_since(ticket.0);
        self.usual = (self.usual * (WEIGHT - 1) + took) / WEIGHT;
    }

    /// How many are in work.
    #[must_use]
    pub fn in_work(&self) -> usize {
        self.started.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn an_idle_worker_starts_at_once_and_a_busy_one_collects() {
        let now = Instant::now();
        let mut pace = Pace::new(2);
        assert!(pace.may_start(false, now));
        pace.start(now);
        assert!(!pace.may_start(false, now), "the next batch collects");
        assert!(pace.may_start(true, now), "a large one gains nothing by waiting");
        pace.start(now);
        assert!(!pace.may_start(true, now), "no more than the most");
    }

    #[test]
    fn a_batch_that_takes_unusually_long_is_not_waited_for() {
        let start = Instant::now();
        let mut pace = Pace::new(2);
        for _ in 0..100 {
            let ticket = pace.start(start);
            pace.end(ticket, start + 10 * MS);
        }
        pace.start(start);
        let alarm = pace.next_alarm().expect("an alarm");
        assert!(alarm > start + 15 * MS && alarm < start + 25 * MS);
        assert!(!pace.may_start(false, start + 15 * MS));
        assert!(pace.may_start(false, alarm));
    }
}
