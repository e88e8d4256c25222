//! The schema: verified by the worker, changed by `lastunit migrate` under a lock of the database.

use migration::{MigrationStatus, Migrator, MigratorTrait};
use sea_orm::{ConnectionTrait, DbErr, Statement};

use super::Error;
use super::dialect::Dialect;
use super::fault::Fault;
use super::pool::{Pool, Transaction};

/// A step of the schema.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Whether the database has it.
    pub applied: bool,
}

/// Which way to go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// All steps that are missing.
    Up,
    /// The last step is undone, with all that its tables hold.
    Down,
}

/// Seconds to wait for another process that migrates.
const LOCK_WAIT_S: u32 = 600;
/// Any number that nobody else uses, the same in every process.
const POSTGRES_LOCK: i64 = 0x6c61_7374_756e_6974;

/// The steps, oldest first; reads only.
pub(super) async fn status(pool: &Pool) -> Result<Vec<Step>, Fault> {
    let steps = Migrator::get_migration_with_status_read_only(pool.db()).await.map_err(newer)?;
    let step = |step: &migration::Step| Step {
        name: step.name().to_owned(),
        applied: step.status() == MigrationStatus::Applied,
    };
    Ok(steps.iter().map(step).collect())
}

/// Steps that this program does not know are the migrator's only complaint of its own; it quotes the first one's name.
fn newer(error: DbErr) -> Fault {
    match error {
        DbErr::Custom(text) => Fault::Newer(text.split('\'').nth(1).unwrap_or(&text).to_owned()),
        other => other.into(),
    }
}

/// Refuses a schema that is not this program's.
pub(super) fn verify(place: &str, status: Result<Vec<Step>, Error>) -> Result<(), Error> {
    match status?.iter().find(|step| !step.applied) {
        None => Ok(()),
        Some(step) => Err(Error::Schema(format!(
            "the database {place} does not have this program's schema ({} is missing): run `lastunit migrate`",
            step.name
        ))),
    }
}

/// Migrates. Of several processes that do so at once, one works and the others find it done.
pub(super) async fn migrate(pool: &Pool, direction: Direction) -> Result<(), Fault> {
    let transaction = pool.begin().await?;
    lock(pool.dialect(), &transaction).await?;
    let migrated = match direction {
        Direction::Up => Migrator::up(transaction.inner(), None).await,
        Direction::Down => Migrator::down(transaction.inner(), Some(1)).await,
    };
    // MySQL's lock belongs to the connection, which goes back to the pool.
    unlock(pool.dialect(), &transaction).await?;
    match migrated {
        Ok(()) => transaction.commit().await,
        Err(error) => {
            transaction.rollback().await?;
            Err(newer(error))
        }
    }
}

/// SQLite's write transaction is its own lock.
async fn lock(dialect: Dialect, transaction: &Transaction<'_>) -> Result<(), Fault> {
    let sql = match dialect {
        Dialect::Sqlite => return Ok(()),
        Dialect::Postgres => format!("SELECT 1 FROM pg_advisory_xact_lock({POSTGRES_LOCK})"),
        // Named after the database: locks are the server's.
        Dialect::MySql | Dialect::MariaDb => {
            format!("SELECT GET_LOCK(CONCAT('lastunit ', LEFT(DATABASE(), 50)), {LOCK_WAIT_S})")
        }
    };
    let row = transaction.inner().query_one_raw(Statement::from_string(dialect.backend(), sql)).await?;
    let got: Option<i32> = row.map(|row| row.try_get_by_index(0)).transpose()?.flatten();
    if got == Some(1) { Ok(()) } else { Err(Fault::Unavailable("another process is migrating this database".into())) }
}

async fn unlock(dialect: Dialect, transaction: &Transaction<'_>) -> Result<(), Fault> {
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => Ok(()),
        Dialect::MySql | Dialect::MariaDb => {
            let sql = "SELECT RELEASE_LOCK(CONCAT('lastunit ', LEFT(DATABASE(), 50)))";
            let row = transaction.inner().query_one_raw(Statement::from_string(dialect.backend(), sql)).await?;
            match row {
                Some(_released) => Ok(()),
                None => Err(Fault::Failed("the migration lock could not be released".into())),
            }
        }
    }
}
