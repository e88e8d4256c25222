//! PURE. How many messages to ask for, so that their bodies fit the memory meant for them.
//!
//! The broker counts messages, not bytes: a window of 1,500 holds 300 KB of small orders, or gigabytes of large ones. So
//! the window follows the size of what comes. When large messages follow small ones, the wide window has let too many in:
//! then nothing new is taken until half of the budget is free again.

/// The weight of the newest message in the moving average of sizes is one in this many.
const WEIGHT: usize = 16;
/// A window is opened further only when it could be so many times as wide: each change costs two round trips.
const WORTH_OPENING: u16 = 2;

/// The budget of one session.
#[derive(Debug)]
pub(super) struct Budget {
    /// For all bodies together, bytes.
    bytes: usize,
    /// The widest window, messages.
    most: u16,
    /// Size of a body, bytes; a moving average.
    usual: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize, most: u16) -> Self {
        Self { bytes, most, usual: 0 }
    }

    /// A message has come.
    pub(super) fn delivered(&mut self, bytes: usize) {
        self.usual = if self.usual == 0 { bytes } else { (self.usual * (WEIGHT - 1) + bytes) / WEIGHT };
    }

    /// The window for messages like the last ones: one at least.
    pub(super) fn window(&self) -> u16 {
        let fitting = self.bytes / self.usual.max(1);
        u16::try_from(fitting).unwrap_or(u16::MAX).clamp(1, self.most)
    }

    /// Whether a window has become much too narrow.
    pub(super) fn may_open(&self, window: u16) -> bool {
        self.window() / WORTH_OPENING >= window
    }

    /// Whether so many bytes in hand are too many.
    pub(super) fn is_exceeded(&self, in_hand: usize) -> bool {
        in_hand > self.bytes
    }

    /// Whether there is room again after they were.
    pub(super) fn has_room(&self, in_hand: usize) -> bool {
        in_hand <= self.bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(sizes: impl IntoIterator<Item = usize>) -> Budget {
        let mut budget = Budget::new(1_000_000, 2_000);
        sizes.into_iter().for_each(|bytes| budget.delivered(bytes));
        budget
    }

    #[test]
    fn small_messages_get_the_whole_window_and_large_ones_a_share() {
        assert_eq!(after([]).window(), 2_000);
        assert_eq!(after([200; 100]).window(), 2_000);
        assert_eq!(after([100_000; 100]).window(), 10);
        assert_eq!(after([9_000_000]).window(), 1, "one always gets through");
    }

    #[test]
    fn the_window_opens_again_when_messages_are_small_again() {
        let large = after([100_000; 100]);
        assert!(!large.may_open(10) && !large.may_open(6) && large.may_open(5));
        let small_again = after([100_000; 100].into_iter().chain([200; 200]));
        assert!(small_again.may_open(10));
        assert!(!after([200; 100]).may_open(2_000));
    }

    #[test]
    fn too_many_bytes_in_hand_wait_for_half_of_the_room() {
        let budget = after([]);
        assert!(!budget.is_exceeded(1_000_000) && budget.is_exceeded(1_000_001));
        assert!(budget.has_room(500_000) && !budget.has_room(500_001));
    }
}
