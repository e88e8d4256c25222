//! Who is measured, and how each is started.

use super::workload::Workload;

/// Who decides the orders.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Contender {
    /// Consumes, publishes, acknowledges: no lease and no database. What the broker allows.
    PassThrough,
    /// A worker as one writes it by hand: a lease, a transaction and a message at a time, 32 of them side by side.
    OneAtATime,
    /// One worker process of this program.
    Lastunit,
    /// Three of them.
    Lastunit3,
}

impl Contender {
    /// All of them, in the sequence in which they are run.
    pub const ALL: [Self; 4] = [Self::PassThrough, Self::OneAtATime, Self::Lastunit, Self::Lastunit3];

    /// As it stands in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PassThrough => "pass-through",
            Self::OneAtATime => "one at a time",
            Self::Lastunit => "lastunit × 1",
            Self::Lastunit3 => "lastunit × 3",
        }
    }

    /// Whether it keeps books that can be counted.
    #[must_use]
    pub const fn has_books(self) -> bool {
        match self {
            Self::PassThrough => false,
            Self::OneAtATime | Self::Lastunit | Self::Lastunit3 => true,
        }
    }

    /// How many of `base` orders it takes to see its rate: a tenth, for who is slower by that much.
    #[must_use]
    pub const fn scaled(self, base: u32) -> u32 {
        match self {
            Self::OneAtATime => base.div_ceil(10),
            Self::PassThrough | Self::Lastunit | Self::Lastunit3 => base,
        }
    }

    /// First part of its SKUs' names. The baseline's fence counts from 1, ours does not: they never share a SKU.
    #[must_use]
    pub const fn shelf(self) -> &'static str {
        match self {
            Self::PassThrough | Self::OneAtATime => "base",
            Self::Lastunit | Self::Lastunit3 => "unit",
        }
    }

    /// The commands that start it under full load, one per process.
    #[must_use]
    pub fn processes(self, workload: Workload) -> Vec<&'static [&'static str]> {
        match (self, workload) {
            // The same two messages as those who reject an order.
            (Self::PassThrough, Workload::SoldOut) => vec![&["bench-contender", "pass-through", "--dead-letters"]],
            (Self::PassThrough, _) => vec![&["bench-contender", "pass-through"]],
            (Self::OneAtATime, _) => vec![&["bench-contender", "one-at-a-time"]],
            (Self::Lastunit, _) => vec![&["worker"]],
            (Self::Lastunit3, _) => vec![&["worker"]; 3],
        }
    }

    /// The command that takes its place under light load; `None` when it stays. One task has no other to wait for.
    #[must_use]
    pub const fn under_light_load(self) -> Option<&'static [&'static str]> {
        match self {
            Self::OneAtATime => Some(&["bench-contender", "one-at-a-time", "--tasks", "1"]),
            Self::PassThrough | Self::Lastunit | Self::Lastunit3 => None,
        }
    }
}
