//! The ledger: stock, reservations and the fence, through SeaORM on PostgreSQL, MySQL/MariaDB or SQLite.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::config;
use crate::fence::{Epoch, FenceToken};
use crate::order::{ContentHash, OrderId, Sku};
use crate::plan::{Reason, StockRow};

/// Why the ledger could not answer. A lost race is not an error: it is an `Ok` with its outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be reached, is too slow, or refuses writes: try again later, nothing was decided for sure.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The schema is absent or not the one this program knows; exit code 78.
    #[error("{0}")]
    Schema(String),
    /// The statement failed, and would fail again.
    #[error("the database refused: {0}")]
    Failed(String),
}

/// The decision on an order as it stands in the table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recorded {
    /// Reserved (`None`), or rejected with this reason.
    pub rejected: Option<Reason>,
    /// 0, then 1, … by reconsideration.
    pub revision: i32,
    /// Tells a duplicate from a conflict.
    pub content_hash: ContentHash,
    /// The event's body as it was published, to be published again verbatim.
    pub event: Vec<u8>,
}

/// What a batch needs to know before it is planned.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The rows of the SKUs asked for; one that is absent does not exist.
    pub stock: HashMap<Sku, StockRow>,
    /// Decisions already taken for the order ids asked for.
    pub recorded: HashMap<OrderId, Recorded>,
}

/// A decision to be made durable.
#[derive(Clone, Debug)]
pub struct NewDecision {
    /// The order.
    pub order_id: OrderId,
    /// Reserved (`None`), or rejected with this reason.
    pub rejected: Option<Reason>,
    /// Tells a duplicate from a conflict.
    pub content_hash: ContentHash,
    /// The event's body.
    pub event: Vec<u8>,
    /// When a hold ends by itself.
    pub expires_at: Option<DateTime<Utc>>,
    /// What it takes; empty for a rejection.
    pub lines: Vec<NewLine>,
}

/// Units of a SKU that an order takes, and the token that allows it.
#[derive(Clone, Debug)]
pub struct NewLine {
    /// What.
    pub sku: Sku,
    /// How many.
    pub quantity: i64,
    /// The token of this batch for this SKU.
    pub token: FenceToken,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Names the transaction.
    pub commit_id: Uuid,
    /// The time of all its decisions.
    pub decided_at: DateTime<Utc>,
    /// The decisions, each order once.
    pub decisions: Vec<NewDecision>,
    /// Per SKU: units to take (0 still advances the fence) and the token that allows it.
    pub stock: BTreeMap<Sku, (i64, FenceToken)>,
}

/// What became of a transaction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Commit {
    /// All of it is durable.
    Committed,
    /// Somebody decided one of these orders meanwhile; nothing was written. Read and plan again.
    AlreadyDecided,
    /// These SKUs did not pass a predicate; nothing was written. Empty when the rows have changed again since.
    Refused(HashMap<Sku, Refusal>),
}

/// Why a SKU's stock row was not updated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The row's fence is not below the token: a newer holder wrote, or a recovery moved the epoch.
    Stale {
        /// The row's fence: the floor of the next acquire.
        row: FenceToken,
    },
    /// Fewer units are left than the plan takes.
    Short {
        /// Units left.
        available: i64,
    },
    /// There is no such row.
    Gone,
}

/// What a recovery's compare-and-set did to one SKU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Advance {
    /// The row now holds this epoch's floor, by our hand: only the winner seeds.
    Won(Epoch),
    /// Somebody else moved it meanwhile.
    Lost,
    /// There is no such row: the SKU does not exist.
    NoRow,
    /// The last epoch is used up; an operator must act.
    Exhausted,
}

/// A pool of connections to the ledger's database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ledger {}

impl Ledger {
    /// Opens the pool; the database must answer.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn connect(settings: &config::Database) -> Result<Self, Error> {
        todo!("{settings:?}")
    }

    /// Verifies that the schema is the one this program knows.
    ///
    /// # Errors
    /// [`Error::Schema`] with what to do.
    pub async fn verify_schema(&self) -> Result<(), Error> {
        todo!()
    }

    /// Reads stock rows and decisions already taken.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn read(&self, skus: &[Sku], orders: &[OrderId]) -> Result<Snapshot, Error> {
        todo!("{skus:?} {orders:?}")
    }

    /// Commits a batch: all of it or nothing.
    ///
    /// Serialisation failures, deadlocks and a busy SQLite are retried inside. Runs in a task of its own: dropping this
    /// future does not interrupt the transaction.
    ///
    /// # Errors
    /// See [`Error`]. After `Unavailable` the outcome is unknown: commit the same decisions again, and the primary key
    /// on the order id tells.
    pub async fn commit(&self, batch: Batch) -> Result<Commit, Error> {
        todo!("{batch:?}")
    }

    /// Moves each SKU's fence to the next epoch, by compare-and-set, in a fixed number of statements.
    ///
    /// # Errors
    /// See [`Error`]. After an error no seed may be sent: recover again.
    pub async fn advance_epochs(&self, skus: &[Sku]) -> Result<HashMap<Sku, Advance>, Error> {
        todo!("{skus:?}")
    }
}
