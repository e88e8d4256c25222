//! PURE. Suspects that turn up among many are set aside, and worked on one at a time when nobody else is in hand.
//!
//! Giving a message back costs it one of its deliveries, and a crash of some worker makes hundreds of innocent messages
//! suspect at once. Were all given back whenever a suspect shows, to be taken one at a time, the remedy would use up their
//! deliveries by itself. So they stay in hand. Should one of them really kill, those that wait lose a delivery with it;
//! the killer has been there each time, the others have not, so that who came back less often goes first, and chance
//! decides among equals: each death finds half as many innocents beside it. Who has used up half of its deliveries is not
//! left to chance: it is worked on alone, for which the others are given back.

use std::hash::{BuildHasher as _, RandomState};

use super::caution::SUSPECT_RETURNS;
use super::incoming::Delivery;

/// The suspects of one session that wait.
#[derive(Debug)]
pub(super) struct Suspects {
    /// Who goes first stands last.
    waiting: Vec<Waiting>,
    /// Returns from which on one is worked on alone.
    alone_from: u32,
    lots: RandomState,
}

#[derive(Debug)]
struct Waiting {
    turn: (u32, u64),
    delivery: Delivery,
}

/// What to do with those that wait.
#[derive(Debug)]
pub(super) enum Turn {
    /// Others are in hand, or nobody waits.
    Nobody,
    /// Work on this one.
    This(Box<Delivery>),
    /// Give all back and take them one at a time: it is too late for chance.
    Alone,
}

impl Suspects {
    /// None yet.
    pub(super) fn new(delivery_limit: u32) -> Self {
        let alone_from = (delivery_limit / 2).max(SUSPECT_RETURNS);
        Self { waiting: Vec::new(), alone_from, lots: RandomState::new() }
    }

    /// One more waits.
    pub(super) fn set_aside(&mut self, delivery: Delivery) {
        let turn = (delivery.returns(), self.lots.hash_one(delivery.tag));
        let at = self.waiting.partition_point(|waiting| waiting.turn > turn);
        self.waiting.insert(at, Waiting { turn, delivery });
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whose turn it is, when so many messages are in hand, those that wait included.
    pub(super) fn next(&mut self, in_hand: usize) -> Turn {
        if in_hand > self.waiting.len() {
            return Turn::Nobody;
        }
        match self.waiting.pop_if(|waiting| waiting.turn.0 < self.alone_from || in_hand == 1) {
            Some(waiting) => Turn::This(Box::new(waiting.delivery)),
            None if self.waiting.is_empty() => Turn::Nobody,
            None => Turn::Alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use lapin::types::{AMQPValue, FieldTable};

    use super::super::headers;
    use super::super::incoming::Tag;
    use super::*;

    fn delivery(number: u64, returns: u32) -> Delivery {
        let mut table = FieldTable::default();
        table.insert(headers::DELIVERY_COUNT.into(), AMQPValue::LongLongInt(returns.into()));
        let mut delivery = Delivery::bare(Tag { session: 1, delivery: number }, Vec::new());
        delivery.redelivered = true;
        delivery.properties = Box::new(lapin::BasicProperties::default().with_headers(table));
        delivery
    }

    fn suspects(returns: &[u32]) -> Suspects {
        let mut suspects = Suspects::new(20);
        returns.iter().zip(1..).for_each(|(returns, number)| suspects.set_aside(delivery(number, *returns)));
        suspects
    }

    fn returns_of(turn: Turn) -> Option<u32> {
        match turn {
            Turn::This(delivery) => Some(delivery.returns()),
            Turn::Nobody | Turn::Alone => None,
        }
    }

    #[test]
    fn nobody_is_worked_on_beside_others() {
        let mut suspects = suspects(&[3, 4]);
        assert!(matches!(suspects.next(3), Turn::Nobody), "one that is no suspect is in hand");
        assert_eq!(returns_of(suspects.next(2)), Some(3));
        assert!(matches!(suspects.next(2), Turn::Nobody), "the first is not settled yet");
        assert_eq!(returns_of(suspects.next(1)), Some(4));
        assert!(suspects.is_empty() && matches!(suspects.next(0), Turn::Nobody));
    }

    #[test]
    fn who_came_back_less_often_goes_first() {
        let mut suspects = suspects(&[9, 3, 7, 3, 8]);
        let turns: Vec<_> = (1..=5).rev().map(|in_hand| returns_of(suspects.next(in_hand))).collect();
        assert_eq!(turns, [3, 3, 7, 8, 9].map(Some));
    }

    #[test]
    fn who_has_used_up_half_of_its_deliveries_is_worked_on_alone() {
        let mut suspects = suspects(&[10, 11, 4]);
        assert_eq!(returns_of(suspects.next(3)), Some(4));
        assert!(matches!(suspects.next(2), Turn::Alone));
        let mut one = self::suspects(&[12]);
        assert_eq!(returns_of(one.next(1)), Some(12), "nobody is beside it");
    }

    #[test]
    fn a_killer_among_equals_finds_half_as_many_beside_it_each_time() {
        let (mut beside, mut deaths) = (1_000_u64, 0);
        while beside > 0 && deaths < 60 {
            let mut suspects = suspects(&vec![3; beside as usize + 1]);
            let mut left = beside + 1;
            // The first one is the killer.
            while let Turn::This(delivery) = suspects.next(left as usize)
                && delivery.tag.delivery != 1
            {
                left -= 1;
            }
            (beside, deaths) = (left - 1, deaths + 1);
        }
        assert!(deaths < 30, "{deaths}");
    }
}
