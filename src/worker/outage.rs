//! PURE. A service is away: no new work until it answers, one log line, and what is held is given back in good time.

use std::time::{Duration, Instant};

use crate::retry::Backoff;

/// A short outage is waited for with the messages in hand: giving them back counts as a delivery of each. A longer one
/// gives them back, so that nothing is held for as long as it lasts.
const GIVE_BACK_AFTER: Duration = Duration::from_secs(5);
const FIRST_PROBE: Duration = Duration::from_millis(100);
const SLOWEST_PROBE: Duration = Duration::from_secs(2);

/// An outage, from its first error to the first answer.
#[derive(Debug)]
pub struct Outage {
    since: Instant,
    backoff: Backoff,
    next_probe: Instant,
    /// A probe is under way.
    probing: bool,
    gave_back: bool,
}

/// What to do now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Ask the services whether they are back.
    Probe,
    /// Give back all messages.
    GiveBack,
}

impl Outage {
    /// It begins.
    #[must_use]
    pub fn begin(now: Instant) -> Self {
        let mut backoff = Backoff::new(FIRST_PROBE, SLOWEST_PROBE);
        let next_probe = now + backoff.next_delay();
        Self { since: now, backoff, next_probe, probing: false, gave_back: false }
    }

    /// What is due.
    pub fn due(&mut self, now: Instant) -> Option<Action> {
        if !self.gave_back && now >= self.since + GIVE_BACK_AFTER {
            self.gave_back = true;
            return Some(Action::GiveBack);
        }
        if !self.probing && now >= self.next_probe {
            self.probing = true;
            return Some(Action::Probe);
        }
        None
    }

    /// When [`Outage::due`] has something next.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Instant> {
        let give_back = (!self.gave_back).then(|| self.since + GIVE_BACK_AFTER);
        let probe = (!self.probing).then_some(self.next_probe);
        give_back.into_iter().chain(probe).min()
    }

    /// A probe had no answer.
    pub fn still_away(&mut self, now: Instant) {
        self.probing = false;
        self.next_probe = now + self.backoff.next_delay();
    }

    /// Whether the messages were given back.
    #[must_use]
    pub const fn gave_back(&self) -> bool {
        self.gave_back
    }

    /// How long it lasted.
    #[must_use]
    pub fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_asked_again_until_they_answer_and_messages_are_given_back_once() {
        let start = Instant::now();
        let mut outage = Outage::begin(start);
        assert_eq!(outage.due(start), None);
        let soon = start + FIRST_PROBE * 2;
        assert_eq!(outage.due(soon), Some(Action::Probe));
        assert_eq!(outage.due(soon), None, "one probe at a time");
        outage.still_away(soon);
        let late = start + GIVE_BACK_AFTER;
        assert_eq!(outage.due(late), Some(Action::GiveBack));
        assert_eq!(outage.due(late), Some(Action::Probe));
        assert_eq!(outage.next_alarm(), None, "the probe's answer comes by itself");
        outage.still_away(late);
        assert!(outage.next_alarm().is_some_and(|at| at > late));
        assert!(outage.gave_back());
    }
}
