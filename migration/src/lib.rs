//! The schema of lastunit, step by step.
//!
//! Each step writes its own SQL and uses no entity: what was applied once must stay what it was. Every statement can be
//! repeated, because MySQL and MariaDB commit each one at once and a step may have stopped half way.

pub use sea_orm_migration::Migration as Step;
use sea_orm_migration::MigrationTrait;
pub use sea_orm_migration::{MigrationStatus, MigratorTrait};

mod m20261129_000001_ledger;

/// The tables of lastunit, each with the columns that it was made with: what has its name and not these is somebody else's.
pub fn tables() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    m20261129_000001_ledger::tables()
}

/// All steps, oldest first. Run them under a lock of the database: `lastunit migrate` does.
#[derive(Debug)]
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(m20261129_000001_ledger::Migration)]
    }
}
