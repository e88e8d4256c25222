//! The schema: verified by the worker, changed by `lastunit migrate` under a lock of the database.

use migration::{MigrationStatus, Migrator, MigratorTrait};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, Statement};

use super::dialect::Dialect;
use super::fault::Fault;
use super::pool::{Pool, Transaction};
use super::tables::{For, Found};

/// A step of the schema.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Whether the database has it.
    pub applied: bool,
    /// Whether it was applied, or undone, just now.
    pub changed: bool,
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
pub(super) async fn status(db: &impl ConnectionTrait) -> Result<Vec<Step>, Fault> {
    let steps = Migrator::get_migration_with_status_read_only(db).await.map_err(newer)?;
    let step = |step: &migration::Step| Step {
        name: step.name().to_owned(),
        applied: step.status() == MigrationStatus::Applied,
        changed: false,
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

/// Refuses a schema that is not this program's; reads only.
pub(super) async fn verify(pool: &Pool) -> Result<(), Fault> {
    let steps = status(pool.db()).await?;
    let found = Found::read(pool.db(), pool.dialect()).await.map_err(Fault::before_any_write)?;
    found.refuse_others()?;
    match steps.iter().find(|step| !step.applied) {
        None => found.refuse_lost(For::Worker),
        Some(step) => Err(Fault::Schema(format!("{} is missing", step.name))),
    }
}

/// Migrates, and says what it did. Of several processes that do so at once, one works and the others find it done.
pub(super) async fn migrate(pool: &Pool, direction: Direction) -> Result<Vec<Step>, Fault> {
    let transaction = pool.begin().await?;
    lock(pool.dialect(), &transaction).await?;
    let migrated = move_along(pool.dialect(), transaction.inner(), direction).await;
    // MySQL's lock belongs to the connection, which goes back to the pool.
    unlock(pool.dialect(), &transaction).await?;
    match migrated {
        Ok(steps) => transaction.commit().await.map(|()| steps),
        Err(fault) => {
            transaction.rollback().await?;
            Err(fault)
        }
    }
}

/// Nothing is touched before all tables of our names have proved to be ours: MySQL could not take it back.
async fn move_along(dialect: Dialect, db: &DatabaseTransaction, direction: Direction) -> Result<Vec<Step>, Fault> {
    let before = status(db).await?;
    let found = Found::read(db, dialect).await?;
    found.refuse_others()?;
    match direction {
        Direction::Up => {
            if before.iter().all(|step| step.applied) {
                found.refuse_lost(For::Migration)?;
            }
            Migrator::up(db, None).await
        }
        Direction::Down => Migrator::down(db, Some(1)).await,
    }
    .map_err(newer)?;
    let after = status(db).await?.into_iter().zip(before);
    Ok(after.map(|(after, before)| Step { changed: after.applied != before.applied, ..after }).collect())
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
