//! PURE. A service is away: no new work until it answers, one log line, and what is held is given back in good time.
//!
//! A service that answers a probe may still refuse the real work (no memory left, a table locked away). So an outage ends
//! with the first batch that went through, not with the probe: until then batches are tried one at a time, and a failure
//! goes on with the back-off where it was.

use std::time::{Duration, Instant};

use crate::retry::Backoff;

/// A short outage is waited for with the messages in hand: giving them back counts as a delivery of each. A longer one
/// gives them back, so that nothing is held for as long as it lasts.
const GIVE_BACK_AFTER: Duration = Duration::from_secs(5);
/// What is taken for a trial that fails is held twice as long each time: a service may answer probes and refuse work for
/// hours, and after too many deliveries the broker takes a message for a killer. Less than the 30 minutes after which the
/// broker closes the channel.
const LONGEST_HOLD: Duration = Duration::from_secs(15 * 60);
const FIRST_PROBE: Duration = Duration::from_millis(100);
const SLOWEST_PROBE: Duration = Duration::from_secs(2);

/// An outage, from its first error to the first batch that went through.
#[derive(Debug)]
pub struct Outage {
    since: Instant,
    /// Since when messages are held.
    held_since: Instant,
    /// For how long they may be.
    hold: Duration,
    backoff: Backoff,
    next_probe: Instant,
    phase: Phase,
    gave_back: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Until the next probe.
    Waiting,
    /// A probe is under way.
    Probing,
    /// The probe was answered; the next batch tells.
    Trial,
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
        let hold = GIVE_BACK_AFTER;
        Self { since: now, held_since: now, hold, backoff, next_probe, phase: Phase::Waiting, gave_back: false }
    }

    /// What is due.
    pub fn due(&mut self, now: Instant) -> Option<Action> {
        if self.phase == Phase::Trial {
            return None;
        }
        if !self.gave_back && now >= self.held_since + self.hold {
            self.gave_back = true;
            return Some(Action::GiveBack);
        }
        if self.phase == Phase::Waiting && now >= self.next_probe {
            self.phase = Phase::Probing;
            return Some(Action::Probe);
        }
        None
    }

    /// When [`Outage::due`] has something next.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Instant> {
        let give_back = (!self.gave_back && self.phase != Phase::Trial).then(|| self.held_since + self.hold);
        let probe = (self.phase == Phase::Waiting).then_some(self.next_probe);
        give_back.into_iter().chain(probe).min()
    }

    /// A probe had no answer, or the trial failed.
    pub fn still_away(&mut self, now: Instant) {
        self.phase = Phase::Waiting;
        self.next_probe = now + self.backoff.next_delay();
    }

    /// A probe was answered: a batch may be tried. True when messages must be taken in again for that.
    #[must_use]
    pub fn answered(&mut self, now: Instant) -> bool {
        self.phase = Phase::Trial;
        if self.gave_back {
            self.held_since = now;
            self.hold = (self.hold * 2).min(LONGEST_HOLD);
        }
        std::mem::take(&mut self.gave_back)
    }

    /// Whether a batch may be tried.
    #[must_use]
    pub fn on_trial(&self) -> bool {
        self.phase == Phase::Trial
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
    }

    #[test]
    fn a_service_that_answers_and_refuses_for_hours_costs_a_message_few_deliveries() {
        let start = Instant::now();
        let (mut outage, mut now, mut deliveries) = (Outage::begin(start), start, 0);
        while now < start + Duration::from_secs(4 * 3600) {
            now = outage.next_alarm().expect("an alarm").max(now);
            while let Some(action) = outage.due(now) {
                deliveries += u32::from(action == Action::GiveBack);
            }
            let _take_in = outage.answered(now);
            outage.still_away(now);
        }
        // The broker's limit is 20 by default.
        assert!((2..=24).contains(&deliveries), "{deliveries}");
    }

    #[test]
    fn a_service_that_answers_and_then_refuses_is_asked_less_and_less_often() {
        let mut now = Instant::now();
        let mut outage = Outage::begin(now);
        for _ in 0..10 {
            now = outage.next_alarm().expect("an alarm").max(now);
            while let Some(action) = outage.due(now) {
                assert!(matches!(action, Action::Probe | Action::GiveBack));
            }
            let take_in = outage.answered(now);
            assert!(outage.on_trial() && outage.due(now).is_none());
            assert!(!take_in || outage.next_alarm().is_none());
            outage.still_away(now);
        }
        assert!(outage.next_probe >= now + SLOWEST_PROBE / 2);
    }
}
