//! Named points where a test can hold, fail or kill a worker.
//!
//! Without the cargo feature `checkpoints`, as in every production build, [`reach`] is nothing.

/// Where a worker can be held.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Point {
    /// Orders were picked for a batch; no lease yet.
    BeforeLease,
    /// Redis said that a counter is unknown; the database has not been asked.
    BeforeAdvance,
    /// The database moved the epoch; the seed has not been sent.
    BeforeSeed,
    /// The leases are ours; nothing was read.
    AfterLease,
    /// Planned, about to begin the transaction.
    BeforeCommit,
    /// The transaction is durable; leases are still held.
    AfterCommit,
    /// About to release the leases.
    BeforeRelease,
    /// About to publish events and dead letters.
    BeforeSettle,
    /// Events and dead letters are confirmed; nothing was acknowledged.
    BeforeAck,
    /// Acknowledged.
    AfterAck,
}

/// Passes the point, or stays there as long as a test wants it.
///
/// `holder` names the worker: several of them live in one process in tests.
#[cfg(not(feature = "checkpoints"))]
#[inline(always)]
pub async fn reach(_holder: &str, _point: Point) {}

#[cfg(feature = "checkpoints")]
pub use latched::*;

#[cfg(feature = "checkpoints")]
mod latched {
    use super::Point;

    /// Passes the point, or stays there as long as a test wants it.
    pub async fn reach(_holder: &str, _point: Point) {}
}
