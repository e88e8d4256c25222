//! Where the databases differ: their names for things, how a set of rows is bound to one statement, and a connection's
//! session.

use chrono::{DateTime, Utc};
use sea_orm::{DbBackend, Value};

/// How a column of a set of rows is bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// An id, compared byte for byte.
    Id,
    /// Other text of at most 64 characters: words, times.
    Word,
    /// A 64-bit integer.
    Int,
    /// Bytes of any length.
    Bytes,
}

/// The columns of a set of rows, in the sequence in which they are bound.
pub(super) type Columns = [(&'static str, Kind)];

/// A database's way of speaking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Dialect {
    Postgres,
    MySql,
    MariaDb,
    Sqlite,
}

impl Dialect {
    /// SeaORM's name for it.
    pub(super) const fn backend(self) -> DbBackend {
        match self {
            Self::Postgres => DbBackend::Postgres,
            Self::MySql | Self::MariaDb => DbBackend::MySql,
            Self::Sqlite => DbBackend::Sqlite,
        }
    }

    /// Whether it has MySQL's grammar: an update joins, and returns nothing.
    pub(super) const fn is_mysql(self) -> bool {
        matches!(self, Self::MySql | Self::MariaDb)
    }

    /// Words of the templates in [`super::sql`].
    pub(super) const fn word(self, name: &str) -> Option<&'static str> {
        let index = match self {
            Self::Postgres => 0,
            Self::MySql | Self::MariaDb => 1,
            Self::Sqlite => 2,
        };
        let words = match name.as_bytes() {
            // Reads the bound rows first, then each row's key: never the whole table.
            b"join" => ["JOIN", "STRAIGHT_JOIN", "CROSS JOIN"],
            b"time" => ["timestamptz", "DATETIME(6)", "TEXT"],
            b"bigint" => ["bigint", "SIGNED", "INTEGER"],
            // MySQL locks no JSON table, and has to be told so; MariaDB knows no OF.
            b"for_update" if matches!(self, Self::MySql) => return Some("FOR UPDATE OF s"),
            b"for_update" => ["FOR UPDATE OF s", "FOR UPDATE", ""],
            b"skip_existing" => [
                "ON CONFLICT (sku) DO NOTHING",
                "ON DUPLICATE KEY UPDATE sku = stock.sku",
                "ON CONFLICT (sku) DO NOTHING",
            ],
            _ => return None,
        };
        Some(words[index])
    }

    /// Writes the dialect's words into a statement that binds nothing.
    pub(super) fn write(self, template: &str) -> String {
        let part = |(index, part): (usize, &str)| match self.word(part) {
            Some(word) if index % 2 == 1 => word.to_owned(),
            Some(_) | None => part.to_owned(),
        };
        template.split(['{', '}']).enumerate().map(part).collect()
    }

    /// The collation that compares byte for byte, where an expression has to name one.
    const fn collation(self) -> &'static str {
        match self {
            Self::MySql => "utf8mb4_0900_bin",
            Self::MariaDb => "utf8mb4_nopad_bin",
            Self::Postgres | Self::Sqlite => "",
        }
    }

    /// A time as a bound value: UTC, microseconds. SQLite's text sorts as time because its form is always the same.
    pub(super) fn time(self, at: DateTime<Utc>) -> Value {
        match self {
            Self::Postgres | Self::MySql | Self::MariaDb => at.into(),
            Self::Sqlite => self.time_text(at).into(),
        }
    }

    /// A time inside of a set of rows.
    pub(super) fn time_text(self, at: DateTime<Utc>) -> String {
        let form = if self.is_mysql() { "%Y-%m-%d %H:%M:%S%.6f" } else { "%Y-%m-%dT%H:%M:%S%.6f+00:00" };
        at.format(form).to_string()
    }

    /// Statements for every new connection. `None`: no time limit, for migrations and audits.
    pub(super) fn session(self, statement_timeout_ms: Option<u64>) -> Vec<String> {
        let limit = statement_timeout_ms.unwrap_or_default();
        // Whole seconds, rounded up; 0 would not wait for a lock at all.
        let lock_wait_s = if limit == 0 { 3_600 } else { limit.div_ceil(1_000) };
        match self {
            Self::Postgres => {
                let mut session = vec![format!(
                    "SET statement_timeout = {limit}; SET idle_in_transaction_session_timeout = {}; \
                     SET default_transaction_isolation = 'read committed'",
                    limit.saturating_mul(4)
                )];
                if limit > 0 {
                    // The worker's statements find rows by key, whatever a batch's size and however fresh the statistics:
                    // a table that was empty when its plan was cached may have a million rows before it is analysed.
                    session.push(
                        "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
                         SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off"
                            .to_owned(),
                    );
                }
                session
            }
            Self::MySql | Self::MariaDb => {
                let mut session = vec![
                    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
                    format!(
                        "SET SESSION innodb_lock_wait_timeout = {lock_wait_s}, \
                         sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
                    ),
                ];
                session.push(match self {
                    Self::MariaDb => format!("SET SESSION max_statement_time = {}.{:03}", limit / 1_000, limit % 1_000),
                    // Limits reads only; writes are limited by the wait for their locks.
                    Self::MySql | Self::Postgres | Self::Sqlite => {
                        format!("SET SESSION max_execution_time = {limit}")
                    }
                });
                session
            }
            Self::Sqlite => Vec::new(),
        }
    }

    /// The set of rows as a table expression named `t`. `parameter` writes the placeholder of a bound value.
    pub(super) fn rows(self, columns: &Columns, mut parameter: impl FnMut(&'static str) -> String) -> String {
        let names = || columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        match self {
            Self::Postgres => {
                let array = |(name, kind): &(&'static str, Kind)| {
                    let array = match kind {
                        Kind::Id | Kind::Word => "text[]",
                        Kind::Int => "bigint[]",
                        Kind::Bytes => "bytea[]",
                    };
                    format!("{}::{array}", parameter(name))
                };
                format!("unnest({}) AS t({})", columns.iter().map(array).collect::<Vec<_>>().join(", "), names())
            }
            Self::MySql | Self::MariaDb => self.json_table(columns, parameter),
            Self::Sqlite => {
                let rows = parameter("rows");
                let column = |((name, kind), path): (&(&'static str, Kind), usize)| match kind {
                    Kind::Bytes => {
                        let blob = parameter("blob");
                        format!("substr({blob}, value ->> {path}, value ->> {}) AS {name}", path + 1)
                    }
                    Kind::Id | Kind::Word | Kind::Int => format!("value ->> {path} AS {name}"),
                };
                let columns: Vec<_> = columns.iter().zip(paths(columns)).map(column).collect();
                format!("(SELECT {} FROM json_each({rows})) AS t", columns.join(", "))
            }
        }
    }

    fn json_table(self, columns: &Columns, mut parameter: impl FnMut(&'static str) -> String) -> String {
        let collation = self.collation();
        let declare = |((name, kind), path): (&(&'static str, Kind), usize)| match kind {
            Kind::Id => format!("{name} VARCHAR(255) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[{path}]'"),
            Kind::Word => format!("{name} VARCHAR(64) PATH '$[{path}]'"),
            Kind::Int => format!("{name} BIGINT PATH '$[{path}]'"),
            Kind::Bytes => {
                format!("{name}_at BIGINT PATH '$[{path}]', {name}_len BIGINT PATH '$[{}]'", path + 1)
            }
        };
        let declared: Vec<_> = columns.iter().zip(paths(columns)).map(declare).collect();
        let table = |rows| format!("JSON_TABLE({rows}, '$[*]' COLUMNS ({}))", declared.join(", "));
        if columns.iter().all(|(_, kind)| *kind != Kind::Bytes) {
            return format!("{} AS t", table(parameter("rows")));
        }
        let column = |(name, kind): &(&'static str, Kind)| match kind {
            Kind::Bytes => format!("SUBSTRING({}, {name}_at, {name}_len) AS {name}", parameter("blob")),
            Kind::Id | Kind::Word | Kind::Int => (*name).to_owned(),
        };
        let selected: Vec<_> = columns.iter().map(column).collect();
        format!("(SELECT {} FROM {} AS j) AS t", selected.join(", "), table(parameter("rows")))
    }
}

/// Where each column stands in a row of the JSON text; bytes take two places: where they begin in the blob, and their number.
fn paths(columns: &Columns) -> impl Iterator<Item = usize> {
    columns.iter().scan(0, |next, (_, kind)| {
        let path = *next;
        *next += if *kind == Kind::Bytes { 2 } else { 1 };
        Some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MySQL 9: "Table t appears in multiple locking clauses".
    #[test]
    fn only_rows_of_stock_are_locked() {
        let lock = |dialect: Dialect| dialect.write("SELECT 1 FROM x AS t JOIN stock s {for_update}");
        for dialect in [Dialect::Postgres, Dialect::MySql] {
            assert!(lock(dialect).ends_with("FOR UPDATE OF s"), "{dialect:?}");
        }
        assert!(lock(Dialect::MariaDb).ends_with("FOR UPDATE"));
    }
}
