//! The ledger: stock, reservations and the fence, through SeaORM on PostgreSQL, MySQL/MariaDB or SQLite.
//!
//! The only home of `sea_orm`. Top down: this file holds the contract; `commit`, `epoch`, `read` and `stock` do the work,
//! each with a fixed number of statements whatever the size of a batch; `sql` holds the statements, once for all databases;
//! `statement` and `dialect` write them out; `pool` runs them, and `fault` and `opening` say what an error means.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::config;
use crate::fence::{Epoch, FenceToken};
use crate::order::{ContentHash, OrderId, Sku};
use crate::plan::{Reason, StockRow};

mod audit;
mod commit;
mod connect;
mod dialect;
mod epoch;
mod fault;
mod opening;
mod pool;
mod read;
mod schema;
mod sql;
mod statement;
mod stock;
mod tables;
mod totals;
mod url;

pub use audit::{Audit, Check, Finding};
pub use schema::{Direction, Step};
pub use stock::{Change, Changed, Impossible};
pub use totals::Totals;

/// Why the ledger could not answer. A lost race is not an error: it is an `Ok` with its outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be reached, is too slow, or refuses writes: try again later, nothing was decided for sure.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The database does not let us in, at start, and no waiting will mend it: user, password, host, database, or a
    /// certificate that is not trusted; exit code 78. Later on the same is [`Error::Unavailable`].
    #[error("{0}")]
    Denied(String),
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
    pub event: Bytes,
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
    pub event: Bytes,
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
pub struct Ledger {
    pool: pool::Pool,
    settings: Arc<config::Database>,
}

impl Ledger {
    /// Opens the pool; the database must answer. Does not wait for one that does not: the caller tries again.
    ///
    /// # Errors
    /// [`Error::Unavailable`]; [`Error::Denied`] and [`Error::Failed`] when the settings cannot work.
    pub async fn connect(settings: &config::Database) -> Result<Self, Error> {
        let pool = pool::Pool::open(settings, pool::Patience::Limited).await?;
        Ok(Self { pool, settings: Arc::new(settings.clone()) })
    }

    /// Verifies that the schema is the one this program knows, and that the tables are its own.
    ///
    /// # Errors
    /// [`Error::Schema`] with what to do; [`Error::Unavailable`].
    pub async fn verify_schema(&self) -> Result<(), Error> {
        self.pool.run(|pool| async move { schema::verify(&pool).await }).await
    }

    /// The steps of the schema, oldest first, and which of them the database has. Reads only.
    ///
    /// # Errors
    /// [`Error::Schema`] when the database has steps that this program does not know; [`Error::Unavailable`].
    pub async fn schema_status(&self) -> Result<Vec<Step>, Error> {
        self.pool.run(|pool| async move { schema::status(pool.db()).await }).await
    }

    /// Changes the schema, however long that takes, and returns its steps as they are now. Several processes may do so at once.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Schema`] when a table of our name is somebody else's: then nothing was changed.
    pub async fn migrate(&self, direction: Direction) -> Result<Vec<Step>, Error> {
        let patient = pool::Pool::open(&self.settings, pool::Patience::Endless).await?;
        patient.run(move |pool| async move { schema::migrate(&pool, direction).await }).await
    }

    /// Reads stock rows and decisions already taken: one statement each, none for an empty list.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn read(&self, skus: &[Sku], orders: &[OrderId]) -> Result<Snapshot, Error> {
        if skus.is_empty() && orders.is_empty() {
            return Ok(Snapshot::default());
        }
        let ids: Arc<(Vec<Sku>, Vec<OrderId>)> = Arc::new((skus.to_vec(), orders.to_vec()));
        let read = move |pool| {
            let ids = Arc::clone(&ids);
            async move { read::snapshot(&pool, &ids.0, &ids.1).await }
        };
        self.pool.run(read).await
    }

    /// Commits a batch: all of it or nothing. Rejections alone, with an empty `stock`, need neither lease nor fence.
    ///
    /// Serialisation failures, deadlocks and a busy SQLite are retried inside. Runs in a task of its own: dropping this
    /// future does not interrupt the transaction.
    ///
    /// # Errors
    /// See [`Error`]. After `Unavailable` the outcome is unknown: commit the same decisions again, and the primary key
    /// on the order id tells.
    pub async fn commit(&self, batch: Batch) -> Result<Commit, Error> {
        if batch.decisions.is_empty() && batch.stock.is_empty() {
            return Ok(Commit::Committed);
        }
        let batch = Arc::new(batch);
        let commit = move |pool| {
            let batch = Arc::clone(&batch);
            async move { commit::commit(&pool, &batch).await }
        };
        self.pool.run(commit).await
    }

    /// Runs the commit's guarded update on a SKU that does not exist, and rolls it back: whether the database takes writes.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn probe(&self) -> Result<(), Error> {
        let nobody = Sku::new(&Uuid::new_v4().to_string()).map_err(Error::Failed)?;
        let stock = BTreeMap::from([(nobody, (0, FenceToken::ZERO))]);
        let batch = Batch { commit_id: Uuid::new_v4(), decided_at: Utc::now(), decisions: Vec::new(), stock };
        // No such row passes; there is none.
        self.commit(batch).await.map(drop)
    }

    /// Moves each SKU's fence to the next epoch, by compare-and-set, in a fixed number of statements.
    ///
    /// # Errors
    /// See [`Error`]. After an error no seed may be sent: recover again.
    pub async fn advance_epochs(&self, skus: &[Sku]) -> Result<HashMap<Sku, Advance>, Error> {
        let skus: Arc<[Sku]> = skus.into();
        let advance = move |pool| {
            let skus = Arc::clone(&skus);
            async move { epoch::advance(&pool, &skus).await }
        };
        self.pool.run(advance).await
    }

    /// The stock rows of these SKUs, or of all, by SKU.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn stock(&self, skus: Option<&[Sku]>) -> Result<BTreeMap<Sku, StockRow>, Error> {
        let skus: Option<Arc<[Sku]>> = skus.map(Into::into);
        let read = move |pool| {
            let skus = skus.clone();
            async move {
                match skus {
                    Some(skus) => Ok(read::stock(&pool, &skus).await?.into_iter().collect()),
                    None => read::all_stock(&pool).await,
                }
            }
        };
        self.pool.run(read).await
    }

    /// Makes all changes of stock or none: each a delta, with an adjustment row that carries `reason`. A SKU that is new gets
    /// its row. The inner error lists what cannot be done. A large import takes the time that it needs.
    ///
    /// # Errors
    /// See [`Error`]. After `Unavailable` the outcome is unknown: look before adding again.
    pub async fn change_stock(
        &self,
        changes: BTreeMap<Sku, Change>,
        reason: &str,
    ) -> Result<Result<Vec<Changed>, Vec<Impossible>>, Error> {
        let is_large = changes.len() > stock::PART;
        let (changes, reason): (stock::Changes, Arc<str>) = (Arc::new(changes), reason.into());
        let change = move |pool| {
            let (changes, reason) = (Arc::clone(&changes), Arc::clone(&reason));
            async move { stock::change(&pool, &changes, &reason).await }
        };
        if is_large {
            let patient = pool::Pool::open(&self.settings, pool::Patience::Endless).await?;
            return patient.run(change).await;
        }
        self.pool.run(change).await
    }

    /// Counts decisions, and SKUs in stock, over the whole database.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn totals(&self) -> Result<Totals, Error> {
        let patient = pool::Pool::open(&self.settings, pool::Patience::Endless).await?;
        patient.run(|pool| async move { totals::totals(&pool).await }).await
    }

    /// Checks promise 1 and the fence history over the whole database, from one snapshot, however long that takes.
    ///
    /// # Errors
    /// See [`Error`]. What it finds is no error.
    pub async fn audit(&self) -> Result<Audit, Error> {
        let patient = pool::Pool::open(&self.settings, pool::Patience::Endless).await?;
        patient.run(|pool| async move { audit::audit(&pool).await }).await
    }
}
