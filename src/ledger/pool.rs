//! The pool of connections, and how work is done on it: in a task of its own, never cancelled half way, again after a
//! conflict, within a time limit. Connections that do not answer within it are given up, because some never will.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, QueryResult,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Error;
use super::connect::configure;
use super::dialect::Dialect;
use super::fault::Fault;
use super::opening::explain;
use super::sql::Texts;
use super::statement::{Bound, Text};
use crate::config;
use crate::retry::Backoff;

/// Attempts of work that meets others, all within the caller's time limit.
const ATTEMPTS: u32 = 12;
const FIRST_DELAY: Duration = Duration::from_millis(5);
const LONGEST_DELAY: Duration = Duration::from_millis(250);

/// Whether statements have a time limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Patience {
    /// As the settings say: the worker's.
    Limited,
    /// None: migrations and audits take the time that the tables need.
    Endless,
}

/// Connections to one database. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    /// The connections that this work began with.
    db: Connections,
}

/// SeaORM's pool, and which one it is.
#[derive(Clone, Debug)]
struct Connections {
    pool: DatabaseConnection,
    number: u64,
}

#[derive(Debug)]
struct Shared {
    options: ConnectOptions,
    /// For work that begins now.
    current: Mutex<Connections>,
    dialect: Dialect,
    texts: Texts,
    /// SQLite has one writer at a time: inside of this process writers queue here, which is fair and costs no polling.
    writers: Semaphore,
    /// The server's address, without its password.
    place: String,
    /// For work as a whole; `None` waits as long as it takes.
    limit: Option<Duration>,
}

impl Pool {
    /// Opens it; the database must answer.
    pub(super) async fn open(settings: &config::Database, patience: Patience) -> Result<Self, Error> {
        let place = settings.url.to_string();
        let options = configure(settings, patience);
        let open = async {
            let db = open_calmly(options.clone()).await?;
            let dialect = dialect_of(&db).await?;
            Ok::<_, Fault>((db, dialect))
        };
        let (db, dialect) = match open.await {
            Ok(opened) => opened,
            Err(fault) => return Err(explain(fault, settings).await),
        };
        let writers = Semaphore::new(if dialect == Dialect::Sqlite { 1 } else { Semaphore::MAX_PERMITS });
        let statement = settings.statement_timeout_ms.duration();
        let limit = settings.acquire_timeout_ms.duration() + statement * 4;
        let limit = (patience == Patience::Limited).then_some(limit);
        let (db, texts) = (Connections { pool: db, number: 1 }, Texts::new(dialect));
        let shared = Shared { options, current: Mutex::new(db.clone()), dialect, texts, writers, place, limit };
        Ok(Self { shared: Arc::new(shared), db })
    }

    /// The statements.
    pub(super) fn texts(&self) -> &Texts {
        &self.shared.texts
    }

    /// The database's way of speaking.
    pub(super) fn dialect(&self) -> Dialect {
        self.shared.dialect
    }

    /// The server's address, without its password.
    pub(super) fn place(&self) -> &str {
        &self.shared.place
    }

    /// SeaORM's pool, for reads through entities and for migrations.
    pub(super) fn db(&self) -> &DatabaseConnection {
        &self.db.pool
    }

    /// Does work in a task of its own, and again after conflicts.
    ///
    /// A caller that gives up, or is out of time, does not interrupt it: a cancelled `begin` can leave a pooled
    /// connection inside of a transaction.
    pub(super) async fn run<T, W, F>(&self, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: Fn(Self) -> F + Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let pool = self.current();
        let begun_with = pool.db.number;
        let task = tokio::spawn(async move { pool.attempt(work).await });
        let joined = match self.shared.limit {
            Some(limit) => match tokio::time::timeout(limit, task).await {
                Ok(joined) => joined,
                Err(_elapsed) => {
                    self.give_up(begun_with).await;
                    let text = format!("{}: no answer within {} ms", self.place(), limit.as_millis());
                    return Err(Error::Unavailable(text));
                }
            },
            None => task.await,
        };
        match joined {
            Ok(result) => result.map_err(|fault| fault.into_error(self.place())),
            Err(fault) if fault.is_panic() => Err(Error::Failed("a database task panicked".into())),
            Err(_stopping) => Err(Error::Unavailable("the program is stopping".into())),
        }
    }

    /// The same with the connections of now.
    fn current(&self) -> Self {
        let current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
        Self { shared: Arc::clone(&self.shared), db: current.clone() }
    }

    /// Work had no answer in time. Where a link is half-open it never comes, and each such connection is missing in the
    /// pool for as long as the operating system believes in it. So all of them are given up: new work opens new ones, and
    /// what is still under way ends with the old ones.
    async fn give_up(&self, stuck: u64) {
        if self.shared.dialect == Dialect::Sqlite {
            return;
        }
        let mut options = self.shared.options.clone();
        let pool = match Database::connect(options.connect_lazy(true).clone()).await {
            Ok(pool) => pool,
            Err(error) => return tracing::warn!(%error, "the database's connections could not be given up"),
        };
        let old = {
            let mut current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
            if current.number != stuck {
                return;
            }
            std::mem::replace(&mut *current, Connections { pool, number: stuck + 1 })
        };
        tracing::debug!("gave up all connections to the database: one of them does not answer");
        // Waits for those in use, maybe for ever.
        tokio::spawn(async move {
            if let Err(error) = old.pool.close().await {
                tracing::debug!(%error, "connections that were given up could not be closed");
            }
        });
    }

    async fn attempt<T, W, F>(&self, work: W) -> Result<T, Fault>
    where
        W: Fn(Self) -> F,
        F: Future<Output = Result<T, Fault>>,
    {
        let mut backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY);
        for _ in 1..ATTEMPTS {
            match work(self.clone()).await {
                Err(Fault::Busy(cause)) => {
                    tracing::debug!(ledger.cause = cause, "the database was busy: once more");
                    backoff.wait().await;
                }
                result => return result,
            }
        }
        work(self.clone()).await
    }

    /// Reads outside of a transaction.
    pub(super) async fn query(&self, text: &Text, bound: Bound) -> Result<Vec<QueryResult>, Fault> {
        let rows = self.db.pool.query_all_raw(text.bind(bound)?).await;
        rows.map_err(|error| Fault::from(error).before_any_write())
    }

    /// Begins a transaction that writes.
    pub(super) async fn begin(&self) -> Result<Transaction<'_>, Fault> {
        let turn = self.shared.writers.acquire().await.map_err(|closed| Fault::Unavailable(closed.to_string()))?;
        // Servers run at READ COMMITTED by the session's default, which saves a round trip here.
        let options = TransactionOptions {
            sqlite_transaction_mode: (self.shared.dialect == Dialect::Sqlite)
                .then_some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        };
        let inner = self.db.pool.begin_with_options(options).await;
        let inner = inner.map_err(|error| Fault::from(error).before_any_write())?;
        Ok(Transaction { inner, _turn: turn })
    }
}

/// A transaction that writes. Dropped without [`Transaction::commit`], it is rolled back.
#[derive(Debug)]
pub(super) struct Transaction<'a> {
    inner: DatabaseTransaction,
    _turn: SemaphorePermit<'a>,
}

impl Transaction<'_> {
    /// Runs a statement; returns the number of rows that it touched.
    pub(super) async fn execute(&self, text: &Text, bound: Bound) -> Result<u64, Fault> {
        Ok(self.inner.execute_raw(text.bind(bound)?).await?.rows_affected())
    }

    /// Runs a statement that returns rows.
    pub(super) async fn query(&self, text: &Text, bound: Bound) -> Result<Vec<QueryResult>, Fault> {
        Ok(self.inner.query_all_raw(text.bind(bound)?).await?)
    }

    /// SeaORM's transaction, for migrations.
    pub(super) fn inner(&self) -> &DatabaseTransaction {
        &self.inner
    }

    /// Makes it durable. After an error its fate is unknown.
    pub(super) async fn commit(self) -> Result<(), Fault> {
        Ok(self.inner.commit().await?)
    }

    /// Undoes it, at once.
    pub(super) async fn rollback(self) -> Result<(), Fault> {
        Ok(self.inner.rollback().await?)
    }
}

/// Several processes that open a new SQLite file together stand in each other's way while it is switched to WAL.
async fn open_calmly(options: ConnectOptions) -> Result<DatabaseConnection, Fault> {
    let mut backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY);
    for _ in 1..ATTEMPTS {
        match Database::connect(options.clone()).await.map_err(Fault::from) {
            Err(Fault::Busy(_)) => backoff.wait().await,
            result => return result,
        }
    }
    Ok(Database::connect(options).await?)
}

async fn dialect_of(db: &DatabaseConnection) -> Result<Dialect, Fault> {
    match db.get_database_backend() {
        sea_orm::DbBackend::Postgres => Ok(Dialect::Postgres),
        sea_orm::DbBackend::Sqlite => Ok(Dialect::Sqlite),
        sea_orm::DbBackend::MySql => {
            let asked = sea_orm::Statement::from_string(sea_orm::DbBackend::MySql, "SELECT VERSION()");
            let row = db.query_one_raw(asked).await?;
            let version: String = match row {
                Some(row) => row.try_get_by_index(0)?,
                None => return Err(Fault::Failed("the server does not tell its version".into())),
            };
            Ok(if version.contains("MariaDB") { Dialect::MariaDb } else { Dialect::MySql })
        }
        other => Err(Fault::Failed(format!("{other:?} is not supported"))),
    }
}
