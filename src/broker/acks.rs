//! PURE. Which acknowledgements to send: as few as possible, never one for a message that is not settled.

use std::collections::VecDeque;

/// The deliveries of one channel that are not acknowledged yet. Their tags count up from 1.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    /// All tags up to this one are acknowledged.
    done: u64,
    /// The tags after that: the size of each, until it is acknowledged.
    later: VecDeque<Option<usize>>,
    outstanding: usize,
    bytes: usize,
}

/// What to send.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Plan {
    /// Acknowledge everything up to this tag. It is itself unacknowledged so far, as the broker wants it.
    pub up_to: Option<u64>,
    /// Acknowledge these alone: an earlier delivery is still in work.
    pub singly: Vec<u64>,
}

impl Unacked {
    /// Notes a delivery of so many bytes. Tags that were skipped (dropped before anybody saw them) stay unacknowledged.
    pub(super) fn delivered(&mut self, tag: u64, bytes: usize) {
        while self.done + (self.later.len() as u64) < tag {
            self.later.push_back(Some(0));
            self.outstanding += 1;
        }
        if let Some(last) = self.later.back_mut() {
            *last = Some(bytes);
            self.bytes += bytes;
        }
    }

    /// Deliveries that are not acknowledged.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Bytes of the bodies that are not acknowledged.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Settles deliveries; tags that are unknown or settled already are ignored, because the broker closes the channel
    /// over them.
    pub(super) fn settle(&mut self, mut tags: Vec<u64>) -> Plan {
        tags.retain(|tag| self.mark(*tag));
        tags.sort_unstable();
        while self.later.front() == Some(&None) {
            self.later.pop_front();
            self.done += 1;
        }
        let covered = tags.partition_point(|tag| *tag <= self.done);
        let singly = tags.split_off(covered);
        Plan { up_to: tags.last().copied(), singly }
    }

    fn mark(&mut self, tag: u64) -> bool {
        let index = tag.checked_sub(self.done + 1).and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.later.get_mut(index)?.take()) {
            Some(bytes) => {
                self.outstanding -= 1;
                self.bytes -= bytes;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn delivered(count: u64) -> Unacked {
        let mut unacked = Unacked::default();
        (1..=count).for_each(|tag| unacked.delivered(tag, 10));
        unacked
    }

    #[test]
    fn a_contiguous_beginning_takes_one_acknowledgement() {
        let mut unacked = delivered(5);
        assert_eq!(unacked.settle(vec![3, 1, 2]), Plan { up_to: Some(3), singly: vec![] });
        assert_eq!(unacked.outstanding(), 2);
    }

    #[test]
    fn what_stands_behind_a_gap_is_acknowledged_alone() {
        let mut unacked = delivered(5);
        assert_eq!(unacked.settle(vec![3, 5]), Plan { up_to: None, singly: vec![3, 5] });
        assert_eq!(unacked.settle(vec![1, 2]), Plan { up_to: Some(2), singly: vec![] });
        assert_eq!(unacked.settle(vec![4]), Plan { up_to: Some(4), singly: vec![] });
        assert_eq!(unacked.outstanding(), 0);
    }

    #[test]
    fn unknown_and_repeated_tags_are_not_sent() {
        let mut unacked = delivered(2);
        assert_eq!(unacked.settle(vec![0, 1, 1, 7]), Plan { up_to: Some(1), singly: vec![] });
        assert_eq!(unacked.settle(vec![1]), Plan::default());
    }

    /// What the broker does: it refuses a tag that is not outstanding.
    fn apply(broker: &mut BTreeSet<u64>, plan: &Plan) {
        if let Some(up_to) = plan.up_to {
            assert!(broker.contains(&up_to), "{up_to} is not outstanding");
            broker.retain(|tag| *tag > up_to);
        }
        for tag in &plan.singly {
            assert!(broker.remove(tag), "{tag} is not outstanding");
        }
    }

    proptest! {
        #[test]
        fn the_broker_ends_up_with_exactly_what_is_not_settled(batches in prop::collection::vec(prop::collection::vec(0u64..60, 0..20), 0..20)) {
            let mut unacked = delivered(50);
            let mut broker: BTreeSet<u64> = (1..=50).collect();
            let mut expected = broker.clone();
            for batch in batches {
                batch.iter().for_each(|tag| { expected.remove(tag); });
                apply(&mut broker, &unacked.settle(batch));
                prop_assert_eq!(&broker, &expected);
                prop_assert_eq!((unacked.outstanding(), unacked.bytes()), (expected.len(), expected.len() * 10));
            }
        }
    }
}
