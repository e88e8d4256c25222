//! Leases and fencing tokens per SKU, from Redis, which is never trusted to remember anything.
//!
//! For each SKU, two keys in one hash slot, under `redis.key_prefix`:
//!
//! ```text
//! lastunit:{SNKR-42}:lease    attempt, holder, incarnation, epoch, sequence; ends after lease.ttl_ms
//! lastunit:{SNKR-42}:fence    the last token handed out and the incarnation that did; ends after lease.fence_idle_ms
//! ```
//!
//! A counter is trusted only within one [`Incarnation`] of the server that made it, and only at or above the fence that
//! the caller saw in the database. Otherwise the answer is [`Reply::Unknown`], and the caller recovers: it moves the epoch
//! in the database, sends a [`Seed`] if it was the one who moved it, and asks again. What each step must do is written
//! down in [`rules`]; the Lua scripts beside it do the same in one atomic step on the server.
//!
//! A lease is granted under the name of an [`Attempt`]. When a reply is lost, the same attempt asks again and gets the
//! same token. After a commit was refused by the fence, ask under a new attempt and name the old one as the previous.
//!
//! Nothing here repeats a command by itself, with one exception that the server vouches for: a script that was not in its
//! cache was not run, so it is sent again, in full. A seed does not even meet that case: it always carries its script along.

mod address;
mod clearing;
mod client;
mod faults;
mod keys;
mod link;
mod list;
pub mod rules;
mod scripts;

use std::time::Duration;

use uuid::Uuid;

use crate::fence::{Epoch, FenceToken};
use crate::order::Sku;

pub use clearing::{SHORTEST_FENCE_IDLE_MS, delete_keys};
pub use client::Leases;
pub use list::Holding;
pub use rules::Trust;

/// Why Redis gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, is too slow, or refuses writes: try again later. A lease may have been granted all the same.
    #[error("redis is unavailable: {0}")]
    Unavailable(String),
    /// It answered with something that this program cannot work with; the text says how to mend it.
    #[error("redis: {0}")]
    Failed(String),
}

/// Names one attempt to take leases: a lost reply is asked for again under the same name.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Attempt(pub Uuid);

impl Attempt {
    /// A new name.
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }
}

impl Default for Attempt {
    fn default() -> Self {
        Self::new()
    }
}

/// One server's memory: its `run_id` and `master_replid`. What another incarnation counted is worth nothing.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Incarnation(pub String);

/// A lease asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Of what.
    pub sku: Sku,
    /// The attempt whose lease this one continues: a worker that keeps a SKU for its next batch.
    pub previous: Option<Attempt>,
    /// The fence as last seen in the database: a counter below it went backwards.
    pub floor: FenceToken,
}

/// The answer for one SKU.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// The lease is ours, with this token.
    Granted(FenceToken),
    /// Somebody else's, for at most this time.
    Held {
        /// Until the lease ends by itself.
        remaining: Duration,
    },
    /// The counter is not to be trusted: recover.
    Unknown {
        /// The server that said so; a seed is for it alone.
        incarnation: Incarnation,
        /// Why, for the log.
        cause: Cause,
    },
}

/// Why a counter is not to be trusted.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Cause {
    /// There is none: first use, flushed, evicted or expired.
    Missing,
    /// Another incarnation made it: restart or fail-over.
    Incarnation,
    /// It is below the database's fence: it went backwards.
    Behind,
}

/// A counter to be installed, once.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Of what.
    pub sku: Sku,
    /// The only server that may install it.
    pub incarnation: Incarnation,
    /// The epoch won in the database.
    pub epoch: Epoch,
}
