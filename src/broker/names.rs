//! The names of exchanges and queues under one prefix.

use std::sync::Arc;

/// What the name of the orders queue ends with.
pub(super) const ORDERS: &str = ".orders";
/// What stands between the prefix and the delay in the name of a delay queue.
pub(super) const RETRY: &str = ".retry.";

/// The names of exchanges and queues under one prefix. Cheap to clone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Names {
    prefix: Arc<str>,
}

impl Names {
    /// Names under `broker.name_prefix`.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    /// The prefix itself: also the source of events.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The exchange that orders are sent to, and the queue that workers consume: they share one name.
    #[must_use]
    pub fn orders(&self) -> String {
        format!("{}{ORDERS}", self.prefix)
    }

    /// The exchange of events.
    #[must_use]
    pub fn outcomes(&self) -> String {
        format!("{}.outcomes", self.prefix)
    }

    /// The exchange of dead letters.
    #[must_use]
    pub fn dead(&self) -> String {
        format!("{}.dead", self.prefix)
    }

    /// The queue in which dead letters of one kind wait.
    #[must_use]
    pub fn dead_queue(&self, queue: DeadQueue) -> String {
        format!("{}.dead.{}", self.prefix, queue.as_str())
    }

    /// The queue in which an order waits for `delay_ms` milliseconds.
    #[must_use]
    pub fn retry(&self, delay_ms: u64) -> String {
        format!("{}{RETRY}{delay_ms}", self.prefix)
    }
}

/// The kinds of dead letters, by who has to do something about them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, clap::ValueEnum)]
pub enum DeadQueue {
    /// The order lost: a waitlist or an apology.
    LostRace,
    /// It can never be processed: its sender.
    Invalid,
    /// Our fault: the operator.
    Failed,
}

impl DeadQueue {
    /// All of them, in the sequence in which they are listed.
    pub const ALL: [Self; 3] = [Self::LostRace, Self::Invalid, Self::Failed];

    /// The first word of the reasons that end here.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LostRace => "lost-race",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
        }
    }
}
