//! PURE. The orders that can start, and how much work they are.

use std::collections::BTreeMap;

use crate::order::Order;

/// The orders that can start, by arrival.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// With the number of their lines.
    orders: BTreeMap<u64, usize>,
    /// Lines of all of them.
    lines: usize,
}

impl Ready {
    /// The oldest, with the number of its lines.
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        self.orders.first_key_value().map(|(arrival, lines)| (*arrival, *lines))
    }

    pub(super) fn insert(&mut self, arrival: u64, order: &Order) {
        if self.orders.insert(arrival, order.lines.len()).is_none() {
            self.lines += order.lines.len();
        }
    }

    pub(super) fn remove(&mut self, arrival: u64) {
        self.lines -= self.orders.remove(&arrival).unwrap_or_default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.orders.len()
    }

    /// Lines of all of them.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }
}
