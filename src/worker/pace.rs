//! PURE. When to start the next batch: few large transactions under load, no order held up by a slow one.
//!
//! A transaction costs round trips and an fsync, whatever its size; so while one batch is in work, the orders that come
//! in are better kept together for the next, which takes its leases when this one commits. The same while many orders
//! are decided and not published yet: deciding more would only make them wait there, behind the others. But a batch that
//! takes unusually long (it waits for a lock, or recovers counters) must not hold up the others, and one that is full
//! gains nothing by waiting. How long is usual is measured: a moving average, so that nothing here has to be tuned.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::waiting::BatchId;

/// How many times the usual a batch may take before the next one no longer waits for it.
const PATIENCE: u32 = 2;
/// The weight of the newest batch in the moving average is one in this many.
const WEIGHT: u32 = 8;

/// The batches in work, from their start to their commit.
#[derive(Debug)]
pub struct Pace {
    most: usize,
    in_work: BTreeMap<BatchId, InWork>,
    usual: Duration,
}

#[derive(Debug)]
struct InWork {
    since: Instant,
    commits: bool,
}

/// What another batch would find.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// The orders that could start now fill it.
    pub ready: bool,
    /// All orders, whatever they wait for, would be enough for it.
    pub waiting: bool,
    /// Many orders are decided and not published yet.
    pub congested: bool,
}

impl Pace {
    /// At most `most` batches at once.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, in_work: BTreeMap::new(), usual: Duration::from_millis(5) }
    }

    /// Whether a batch may start now.
    #[must_use]
    pub fn may_start(&self, crowd: Crowd, now: Instant) -> bool {
        let idle = self.in_work.is_empty();
        let all_commit = || self.in_work.values().all(|batch| batch.commits);
        let is_late = || self.next_alarm(crowd).is_some_and(|at| at <= now);
        let is_time = || idle || (crowd.waiting && all_commit()) || is_late();
        let is_full = crowd.ready || (crowd.waiting && idle);
        self.in_work.len() < self.most && (is_full || (!crowd.congested && is_time()))
    }

    /// When a batch that is not full may start although others are in work; `None` when that is not a matter of time.
    #[must_use]
    pub fn next_alarm(&self, crowd: Crowd) -> Option<Instant> {
        let may_start = self.in_work.len() < self.most && !crowd.congested;
        let (_, newest) = self.in_work.last_key_value().filter(|_| may_start)?;
        Some(newest.since + self.patience())
    }

    /// How long to wait for another batch.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.usual * PATIENCE
    }

    /// A batch starts.
    pub fn start(&mut self, batch: BatchId, now: Instant) {
        self.in_work.insert(batch, InWork { since: now, commits: false });
    }

    /// It has planned and commits: the next one can prepare itself.
    pub fn commits(&mut self, batch: BatchId) {
        if let Some(batch) = self.in_work.get_mut(&batch) {
            batch.commits = true;
        }
    }

    /// It is through with its SKUs, after having waited behind others.
    pub fn end(&mut self, batch: BatchId, waited: Duration, now: Instant) {
        let Some(batch) = self.in_work.remove(&batch) else { return };
        let took = now.saturating_duration_since(batch.since).saturating_sub(waited);
        self.usual = (self.usual * (WEIGHT - 1) + took) / WEIGHT;
    }

    /// How many are in work.
    #[must_use]
    pub fn in_work(&self) -> usize {
        self.in_work.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    const FEW: Crowd = Crowd { ready: false, waiting: false, congested: false };
    const ENOUGH: Crowd = Crowd { waiting: true, ..FEW };
    const MANY: Crowd = Crowd { ready: true, ..ENOUGH };

    #[test]
    fn an_idle_worker_starts_at_once_and_a_busy_one_collects() {
        let now = Instant::now();
        let mut pace = Pace::new(2);
        assert!(pace.may_start(FEW, now));
        pace.start(BatchId(0), now);
        assert!(!pace.may_start(ENOUGH, now), "the next batch collects");
        assert!(pace.may_start(MANY, now), "a full one gains nothing by waiting");
        pace.start(BatchId(1), now);
        assert!(!pace.may_start(MANY, now), "no more than the most");
    }

    #[test]
    fn when_all_commit_the_next_one_prepares_itself_if_enough_wait() {
        let now = Instant::now();
        let mut pace = Pace::new(3);
        pace.start(BatchId(0), now);
        pace.commits(BatchId(0));
        assert!(pace.may_start(ENOUGH, now));
        assert!(!pace.may_start(FEW, now));
        pace.start(BatchId(1), now);
        assert!(!pace.may_start(ENOUGH, now), "one does already");
    }

    #[test]
    fn a_batch_that_takes_unusually_long_is_not_waited_for() {
        let start = Instant::now();
        let mut pace = Pace::new(2);
        for n in 0..100 {
            pace.start(BatchId(n), start);
            pace.end(BatchId(n), 5 * MS, start + 15 * MS);
        }
        pace.start(BatchId(100), start);
        let alarm = pace.next_alarm(FEW).expect("an alarm");
        assert!(alarm > start + 15 * MS && alarm < start + 25 * MS);
        assert!(!pace.may_start(FEW, start + 15 * MS));
        assert!(pace.may_start(FEW, alarm));
    }

    #[test]
    fn what_would_wait_to_be_published_is_collected_until_it_fills_a_batch() {
        let now = Instant::now();
        let mut pace = Pace::new(2);
        let congested = |crowd| Crowd { congested: true, ..crowd };
        assert!(!pace.may_start(congested(FEW), now), "they would not be published sooner");
        assert!(pace.may_start(congested(ENOUGH), now) && pace.may_start(congested(MANY), now));
        pace.start(BatchId(0), now);
        pace.commits(BatchId(0));
        assert!(!pace.may_start(congested(ENOUGH), now), "this one comes before them");
        assert_eq!(pace.next_alarm(congested(FEW)), None, "the end of a publication is not a matter of time");
        assert!(!pace.may_start(congested(FEW), now + Duration::from_secs(60)));
    }
}
