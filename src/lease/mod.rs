//! Leases and fencing tokens per SKU, from Redis, which is never trusted to remember anything.

use std::time::Duration;

use uuid::Uuid;

use crate::config;
use crate::fence::{Epoch, FenceToken};
use crate::order::Sku;

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

/// The connection to the lease server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leases {}

impl Leases {
    /// Connects; the server must answer.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn connect(redis: &config::Redis, lease: &config::Lease, holder: &str) -> Result<Self, Error> {
        todo!("{redis:?} {lease:?} {holder}")
    }

    /// Asks for the leases of all SKUs in one network round trip; replies stand in the requests' sequence.
    ///
    /// # Errors
    /// See [`Error`]. Ask again with the same attempt: what was granted is granted again.
    pub async fn acquire(&self, attempt: Attempt, requests: &[Request]) -> Result<Vec<Reply>, Error> {
        todo!("{attempt:?} {requests:?}")
    }

    /// Installs counters after a recovery. Sent once per epoch and never again, whatever the outcome: after any doubt
    /// recover with the next epoch. So there is nothing to return: the next acquire tells.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn seed(&self, seeds: &[Seed]) -> Result<(), Error> {
        todo!("{seeds:?}")
    }

    /// Asks whether the server answers.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn ping(&self) -> Result<(), Error> {
        todo!()
    }

    /// Gives back the leases that are still this attempt's; others are left alone.
    ///
    /// # Errors
    /// See [`Error`]. What was not released ends by itself.
    pub async fn release(&self, attempt: Attempt, skus: &[Sku]) -> Result<(), Error> {
        todo!("{attempt:?} {skus:?}")
    }
}
