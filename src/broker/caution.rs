//! PURE. A message that kills the worker must die alone.
//!
//! A lost channel costs every message on it one of its deliveries, and the broker takes a message that has used them up
//! for the killer. So nobody may stand beside one. Each session begins with one message at a time, and takes many only
//! after a message was settled that is not suspect. A suspect that turns up among many is set aside (`suspects`). Where
//! that is not enough the session ends, before anybody works on it; after that, as many messages are taken one at a time
//! as were given back with it. Without this count the messages before it would be good enough to go back to many, meet it
//! again, and lose one delivery each time.

/// A message that comes back for the third time (the broker counts 3 returns) is suspect: a first time can be anybody's
/// crash, a second time bad luck.
pub(super) const SUSPECT_RETURNS: u32 = 3;

/// How careful to be. Outlives sessions.
#[derive(Debug, Default)]
pub(super) struct Caution {
    /// Messages still to be taken one at a time.
    alone: usize,
}

impl Caution {
    /// A suspect turned up, or a message that cannot even be read, behind `ahead` unsettled ones (itself included).
    pub(super) fn alarm(&mut self, ahead: usize) {
        self.alone = self.alone.max(ahead);
    }

    /// Whether nothing need be taken one at a time because of an alarm.
    pub(super) fn is_over(&self) -> bool {
        self.alone == 0
    }

    /// A message that was taken alone has been settled. Tells whether many may be taken now.
    pub(super) fn settled(&mut self, suspect: bool) -> bool {
        self.alone = self.alone.saturating_sub(1);
        self.alone == 0 && !suspect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_good_message_is_enough_without_an_alarm() {
        assert!(Caution::default().settled(false));
    }

    #[test]
    fn a_settled_suspect_does_not_open_the_window() {
        assert!(!Caution::default().settled(true));
    }

    #[test]
    fn after_an_alarm_everything_up_to_the_suspect_is_taken_alone() {
        let mut caution = Caution::default();
        caution.alarm(3);
        assert!(!caution.settled(false) && !caution.settled(false));
        assert!(!caution.settled(true), "the suspect itself");
        assert!(caution.settled(false));
    }
}
