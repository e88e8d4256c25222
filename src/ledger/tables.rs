//! The tables that a database has under our names: whether they are ours, and all there.

use std::collections::HashSet;

use sea_orm::{ConnectionTrait, Statement};

use super::dialect::Dialect;
use super::fault::Fault;

/// The worker has nothing to do with it, and MySQL hides a table from a user without any right to it.
const ADJUSTMENTS: &str = "stock_adjustment";

/// Whose tables must be there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum For {
    /// The worker's.
    Worker,
    /// All.
    Migration,
}

/// The columns that the database has under our tables' names, each as `(table, column)`.
#[derive(Debug)]
pub(super) struct Found(HashSet<(String, String)>);

impl Found {
    /// Looks, with one statement, where `CREATE TABLE` would put them. Views count, as they have the same names.
    pub(super) async fn read(db: &impl ConnectionTrait, dialect: Dialect) -> Result<Self, Fault> {
        let rows = db.query_all_raw(Statement::from_string(dialect.backend(), question(dialect))).await?;
        let column = |row: &sea_orm::QueryResult| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?));
        rows.iter().map(column).collect::<Result<_, Fault>>().map(Self)
    }

    /// Refuses a table of our name that is somebody else's. One of ours has all the columns that it was made with, also where
    /// the step that made it stopped half way: a database makes a table as a whole.
    pub(super) fn refuse_others(&self) -> Result<(), Fault> {
        let mut there = migration::tables().filter(|(table, _)| self.has_table(table));
        let other = there.find_map(|(table, columns)| {
            let lacks =
                columns.into_iter().find(|column| !self.0.contains(&(table.to_owned(), (*column).to_owned())))?;
            Some((table, lacks))
        });
        match other {
            None => Ok(()),
            Some((table, column)) => Err(Fault::Unfit(format!(
                "already has a table {table} that is not lastunit's (it has no column {column}): give lastunit a database \
                 or schema of its own in database.url"
            ))),
        }
    }

    /// Refuses a database without a table of a step that is recorded as applied, as a `migrate down` that stopped half way
    /// leaves it on MySQL.
    pub(super) fn refuse_lost(&self, whose: For) -> Result<(), Fault> {
        let mut needed = migration::tables().filter(|(table, _)| whose == For::Migration || *table != ADJUSTMENTS);
        match needed.find(|(table, _)| !self.has_table(table)) {
            None => Ok(()),
            Some((table, _)) => Err(Fault::Unfit(format!(
                "has lost its table {table}: restore it, or begin anew with `lastunit migrate down --force` and `lastunit \
                 migrate up`"
            ))),
        }
    }

    fn has_table(&self, name: &str) -> bool {
        self.0.iter().any(|(table, _)| table == name)
    }
}

fn question(dialect: Dialect) -> String {
    let names: Vec<_> = migration::tables().map(|(table, _)| table).collect();
    match dialect {
        Dialect::Postgres => format!(
            "SELECT c.relname::text, a.attname::text FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema() \
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
             WHERE c.relname IN ('{}')",
            names.join("', '")
        ),
        Dialect::MySql | Dialect::MariaDb => format!(
            "SELECT CAST(table_name AS CHAR), LOWER(CAST(column_name AS CHAR)) FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND table_name IN ('{}')",
            names.join("', '")
        ),
        Dialect::Sqlite => {
            let columns =
                names.iter().map(|name| format!("SELECT '{name}', LOWER(name) FROM pragma_table_info('{name}')"));
            columns.collect::<Vec<_>>().join(" UNION ALL ")
        }
    }
}
