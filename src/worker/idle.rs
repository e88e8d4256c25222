//! PURE. A worker without work asks its services now and then: it should know that one is away before an order comes.

use std::time::{Duration, Instant};

/// How often. Each time costs a few statements that change nothing.
const EVERY: Duration = Duration::from_secs(2);

/// How long nothing has been asked of the services.
#[derive(Debug)]
pub struct Idle {
    since: Instant,
    asking: bool,
}

impl Idle {
    /// From now on.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { since: now, asking: false }
    }

    /// Whether to ask now; then not again before [`Idle::answered`]. A worker that is not `quiet` learns it from its work.
    pub fn due(&mut self, quiet: bool, now: Instant) -> bool {
        if !quiet {
            self.since = now;
        }
        let due = !self.asking && now >= self.since + EVERY;
        self.asking |= due;
        due
    }

    /// There was an answer, or none in time.
    pub fn answered(&mut self, now: Instant) {
        (self.asking, self.since) = (false, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_worker_asks_once_per_interval_and_waits_for_the_answer() {
        let start = Instant::now();
        let mut idle = Idle::new(start);
        assert!(!idle.due(true, start));
        assert!(idle.due(true, start + EVERY));
        assert!(!idle.due(true, start + EVERY * 9), "one question at a time");
        idle.answered(start + EVERY * 9);
        assert!(!idle.due(true, start + EVERY * 9));
        assert!(idle.due(true, start + EVERY * 10));
    }

    #[test]
    fn a_busy_worker_does_not_ask() {
        let start = Instant::now();
        let mut idle = Idle::new(start);
        assert!(!idle.due(false, start + EVERY * 5));
        assert!(!idle.due(true, start + EVERY * 6 - Duration::from_millis(1)), "quiet for less than the interval");
        assert!(idle.due(true, start + EVERY * 6));
    }
}
