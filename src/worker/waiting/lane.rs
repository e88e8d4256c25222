//! PURE. One SKU: who waits for it, and who has it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{BatchId, Contest};
use crate::fence::FenceToken;
use crate::lease::Attempt;
use crate::retry::Backoff;

/// A worker goes on with a SKU, batch after batch on one lease, for at most this time; then others get their turn.
pub(super) const KEEP_FOR: Duration = Duration::from_millis(500);
/// How long it then stays away: long enough for a waiting worker to try ([`LONGEST_PAUSE`] apart) and win.
pub(super) const YIELD_FOR: Duration = Duration::from_millis(10);
/// First and longest pause before a contested SKU is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(25);
/// A SKU without tokens is tried again this often.
const EXHAUSTED_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: BTreeSet<u64>,
    pub(super) state: LaneState,
    /// Who lent the lane, as long as that batch has not ended.
    pub(super) lender: Option<Lender>,
    /// The lease that this worker has kept for its next batch.
    pub(super) kept: Option<Attempt>,
    /// Since when it has gone on with this SKU without giving the lease back.
    pub(super) kept_since: Option<Instant>,
    /// The fence as last seen.
    pub(super) floor: FenceToken,
    pub(super) contested: Option<Contested>,
}

/// A batch that lets the next one go on with a SKU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Lender {
    pub(super) batch: BatchId,
    /// Its lease.
    pub(super) attempt: Attempt,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum LaneState {
    #[default]
    Free,
    /// In this batch.
    Busy(BatchId),
    /// Not before this time.
    Paused(Instant),
}

#[derive(Debug)]
pub(super) struct Contested {
    pub(super) since: Instant,
    pub(super) cause: Contest,
    backoff: Backoff,
}

impl Lane {
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.state == LaneState::Free && self.kept.is_none() && self.contested.is_none()
    }

    /// Whether this batch has the lane, or has lent it and not been succeeded.
    pub(super) fn belongs_to(&self, batch: BatchId) -> bool {
        self.state == LaneState::Busy(batch) || self.is_lent_by(batch)
    }

    /// Whether this batch has lent it.
    pub(super) fn has_lender(&self, batch: BatchId) -> bool {
        self.lender.is_some_and(|lender| lender.batch == batch)
    }

    /// Whether this batch has lent it and not been succeeded.
    pub(super) fn is_lent_by(&self, batch: BatchId) -> bool {
        self.state == LaneState::Free && self.has_lender(batch)
    }

    /// Whether others should get their turn now.
    pub(super) fn turn_is_over(&self, now: Instant) -> bool {
        self.kept_since.is_some_and(|since| now.saturating_duration_since(since) >= KEEP_FOR)
    }

    /// It could be had, in the end: how long it was contested before, if it was.
    pub(super) fn was_had(&mut self, now: Instant) -> Option<Duration> {
        // Committed with a token above it, or never asked for: either way the floor has served.
        self.floor = FenceToken::ZERO;
        self.contested.take().map(|contested| now.saturating_duration_since(contested.since))
    }

    /// A free lane in which nobody waits: what it was contested for concerns nobody.
    pub(super) fn forget_contest(&mut self) {
        if self.queue.is_empty() && self.state == LaneState::Free {
            self.contested = None;
        }
    }

    /// It could not be had: how long to leave it alone.
    pub(super) fn contest(&mut self, cause: Contest, now: Instant) -> Duration {
        (self.lender, self.kept, self.kept_since) = (None, None, None);
        let contested = self.contested.get_or_insert_with(|| Contested {
            since: now,
            cause,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        });
        contested.cause = cause;
        match cause {
            Contest::Held(remaining) => contested.backoff.next_delay().min(remaining),
            Contest::Stale(row) => {
                self.floor = row;
                Duration::ZERO
            }
            Contest::Exhausted => EXHAUSTED_PAUSE,
        }
    }
}
