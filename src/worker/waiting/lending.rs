//! PURE. How SKUs go from one batch to the next: lent while the first commits, freed when it has ended.

use std::collections::HashSet;
use std::time::Instant;

use super::lane::{LaneState, Lender, YIELD_FOR};
use super::{BatchId, Waiting};
use crate::lease::Attempt;
use crate::order::Sku;

impl Waiting {
    /// A batch is about to commit under the leases of this attempt: the next one may take leases for these SKUs in
    /// succession to it. Not for those whose turn is over.
    pub fn lend(&mut self, batch: BatchId, attempt: Attempt, skus: impl IntoIterator<Item = Sku>, now: Instant) {
        for sku in skus {
            let Some(lane) = self.lanes.get_mut(&sku) else { continue };
            if lane.state == LaneState::Busy(batch) && !lane.turn_is_over(now) {
                (lane.state, lane.lender, lane.kept) =
                    (LaneState::Free, Some(Lender { batch, attempt }), Some(attempt));
                self.wake(&sku);
            }
        }
    }

    /// A batch is through with these SKUs: others may have them, but for those that its successor has, and those whose
    /// lender has not ended. With each the lease that still stands, if it does; returned are those to be given back.
    pub fn free(
        &mut self,
        batch: BatchId,
        skus: impl IntoIterator<Item = (Sku, Option<Attempt>)>,
        now: Instant,
    ) -> Vec<(Sku, Attempt)> {
        let (mut unused, mut slow) = (Vec::new(), HashSet::new());
        for (sku, kept) in skus {
            let Some(lane) = self.lanes.get_mut(&sku) else { continue };
            if lane.state == LaneState::Busy(batch)
                && let Some(lender) = lane.lender.take()
            {
                // It gave up waiting: everything is as before the loan.
                lane.state = LaneState::Busy(lender.batch);
                slow.insert(lender.batch);
                // It may not have come to a lease of its own.
                unused.extend(kept.filter(|attempt| *attempt != lender.attempt).map(|attempt| (sku, attempt)));
                continue;
            }
            self.waits.extend(lane.was_had(now));
            let is_ours = lane.belongs_to(batch);
            lane.lender = lane.lender.filter(|lender| lender.batch != batch);
            if !is_ours {
                continue;
            }
            (lane.state, lane.kept) = (LaneState::Free, kept);
            if lane.turn_is_over(now) && kept.is_some() && !lane.queue.is_empty() {
                self.pause(&sku, now + YIELD_FOR);
            } else {
                self.wake(&sku);
            }
        }
        slow.into_iter().for_each(|lender| self.withdraw(lender));
        unused
    }

    /// What a batch has lent is its own again: it takes so long that nobody should wait for it. Rare, so that a look at all
    /// lanes does no harm.
    fn withdraw(&mut self, lender: BatchId) {
        for lane in self.lanes.values_mut().filter(|lane| lane.is_lent_by(lender)) {
            (lane.state, lane.lender, lane.kept) = (LaneState::Busy(lender), None, None);
            if let Some(&first) = lane.queue.first() {
                self.ready.remove(first);
            }
        }
    }

    /// The leases among these SKUs that no batch has gone on with: they must be given back now.
    pub fn unkeep<'a>(&mut self, skus: impl IntoIterator<Item = &'a Sku>) -> Vec<(Sku, Attempt)> {
        let mut unused = Vec::new();
        for sku in skus {
            let Some(lane) = self.lanes.get_mut(sku) else { continue };
            if !matches!(lane.state, LaneState::Busy(_)) {
                lane.kept_since = None;
            }
            unused.extend(lane.kept.take().map(|attempt| (sku.clone(), attempt)));
            if lane.is_idle() {
                self.lanes.remove(sku);
            }
        }
        unused
    }
}
