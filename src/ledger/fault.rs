//! What a database error means for the caller: the only place that knows the servers' error codes.
//!
//! Codes: PostgreSQL appendix A; MySQL and MariaDB error references; SQLite result codes.

use sea_orm::sqlx;
use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr};

use super::Error;

const NO_CONNECTION: &str = "no connection could be opened, or became free, within database.acquire_timeout_ms";

/// A database error, by what to do next.
#[derive(Debug)]
pub(super) enum Fault {
    /// Somebody else was in the way (deadlock, serialisation, lock wait, busy file), or the work had not begun when its
    /// connection turned out to be dead: the same work can simply be done again.
    Busy(String),
    /// A unique key is taken.
    Duplicate(String),
    /// The connection broke under the work: whether it was committed is unknown.
    Lost(String),
    /// The server cannot be reached, is too slow, full, read-only or going down.
    Unavailable(String),
    /// No connection in time; the pool does not tell why.
    NoConnection,
    /// The server answers, but does not let us in: user, password, host or database. At start the settings are wrong; later
    /// somebody may be at work on the server, and it is waited for.
    Denied(String),
    /// A table or column is missing.
    Schema(String),
    /// The schema has a step that this program does not know.
    Newer(String),
    /// The tables are not ours, or not all there: what is wrong with the database, and what to do.
    Unfit(String),
    /// It would fail again.
    Failed(String),
}

impl Fault {
    /// Nothing had been written yet when this happened: a dead connection is only a reason to take another one.
    pub(super) fn before_any_write(self) -> Self {
        match self {
            Self::Lost(text) => Self::Busy(text),
            Self::Busy(_)
            | Self::Duplicate(_)
            | Self::Unavailable(_)
            | Self::NoConnection
            | Self::Denied(_)
            | Self::Schema(_)
            | Self::Newer(_)
            | Self::Unfit(_)
            | Self::Failed(_) => self,
        }
    }

    /// For the caller, after all retries. `place` is the server's address without its password.
    pub(super) fn into_error(self, place: &str) -> Error {
        match self {
            Self::Busy(text) | Self::Lost(text) | Self::Unavailable(text) | Self::Denied(text) => {
                Error::Unavailable(format!("{place}: {text}"))
            }
            Self::NoConnection => Error::Unavailable(format!("{place}: {NO_CONNECTION}")),
            Self::Newer(step) => Error::Schema(format!(
                "the database {place} has a schema of a newer version of this program (it holds the step {step}): run that \
                 version, or a later one"
            )),
            Self::Schema(text) => Error::Schema(format!(
                "the database {place} does not have this program's schema ({text}): run `lastunit migrate`"
            )),
            Self::Unfit(text) => Error::Schema(format!("the database {place} {text}")),
            Self::Duplicate(text) | Self::Failed(text) => Error::Failed(text),
        }
    }
}

impl From<DbErr> for Fault {
    fn from(error: DbErr) -> Self {
        match &error {
            DbErr::ConnectionAcquire(ConnAcquireErr::Timeout) => Self::NoConnection,
            DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed) => {
                Self::Unavailable("the pool is closed".into())
            }
            DbErr::Conn(RuntimeErr::SqlxError(cause)) => match Self::of_driver(cause) {
                Self::Lost(text) => Self::Unavailable(text),
                fault => fault,
            },
            DbErr::Exec(RuntimeErr::SqlxError(cause)) | DbErr::Query(RuntimeErr::SqlxError(cause)) => {
                Self::of_driver(cause)
            }
            // Faults of this program's own making: a column that cannot be read, a statement that cannot be built.
            other => Self::Failed(other.to_string()),
        }
    }
}

impl Fault {
    fn of_driver(error: &sqlx::Error) -> Self {
        let text = error.to_string();
        match error {
            sqlx::Error::Database(cause) => Self::of_server(cause.as_ref()),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => Self::Lost(text),
            sqlx::Error::PoolTimedOut => Self::NoConnection,
            sqlx::Error::PoolClosed => Self::Unavailable(text),
            // An open enum; what is left are faults of this program (decoding, configuration), which repeat.
            _repeats => Self::Failed(text),
        }
    }

    fn of_server(error: &dyn sqlx::error::DatabaseError) -> Self {
        let text = error.message().to_owned();
        let code = error.code().unwrap_or_default();
        let kind = if let Some(mysql) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            Kind::of_mysql(mysql.number())
        } else if error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
            Kind::of_postgres(&code)
        } else {
            Kind::of_sqlite(code.parse().unwrap_or_default(), &text)
        };
        match kind {
            Kind::Lost => Self::Lost(text),
            Kind::Busy => Self::Busy(text),
            Kind::Duplicate => Self::Duplicate(text),
            Kind::Unavailable => Self::Unavailable(text),
            Kind::Denied => Self::Denied(text),
            Kind::Schema => Self::Schema(text),
            Kind::Failed => Self::Failed(text),
        }
    }
}

/// What a server's code means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// The server ends this connection, as its last word on it.
    Lost,
    Busy,
    Duplicate,
    Unavailable,
    Denied,
    Schema,
    Failed,
}

impl Kind {
    fn of_postgres(state: &str) -> Self {
        match state {
            // serialization_failure, deadlock_detected, lock_not_available
            "40001" | "40P01" | "55P03" => Self::Busy,
            "23505" => Self::Duplicate,
            // undefined_table, undefined_column
            "42P01" | "42703" => Self::Schema,
            // admin_shutdown, crash_shutdown, database_dropped, idle limits
            "57P01" | "57P02" | "57P04" | "25P03" | "57P05" => Self::Lost,
            // query_canceled (statement_timeout), read_only_sql_transaction
            "57014" | "25006" => Self::Unavailable,
            // invalid_catalog_name, authorization
            "3D000" | "28000" | "28P01" => Self::Denied,
            // insufficient_privilege: a grant is missing, which is no order's fault
            "42501" => Self::Unavailable,
            // connection, resources (disk, memory, connections), operator, system
            state if ["08", "53", "57", "58"].iter().any(|class| state.starts_with(class)) => Self::Unavailable,
            _deterministic => Self::Failed,
        }
    }

    fn of_mysql(number: u16) -> Self {
        match number {
            // lock wait, deadlock, "record has changed since last read"
            1205 | 1213 | 1020 => Self::Busy,
            1062 => Self::Duplicate,
            // no such table, unknown column
            1146 | 1054 => Self::Schema,
            // user, password, host, database
            1044 | 1045 | 1049 | 1130 | 1698 => Self::Denied,
            // connections, shutdown, network
            1040 | 1042 | 1043 | 1053 | 1077 | 1079 | 1129 | 1158..=1161 | 1184 | 1203 | 1226 => Self::Unavailable,
            // a grant is missing, which is no order's fault: on the database, a table, a column, a routine
            1142 | 1143 | 1370 => Self::Unavailable,
            // disk full, memory, table full, storage engine
            1021 | 1026 | 1028 | 1030 | 1037 | 1038 | 1041 | 1114 | 1135 => Self::Unavailable,
            // connection killed
            1927 => Self::Lost,
            // read-only: server, transaction, storage engine, one table of it, after a forced recovery
            1290 | 1792 | 1836 | 1874 | 1036 | 1881 => Self::Unavailable,
            // interrupted, time limits, session killed
            1317 | 1969 | 3024 | 3169 => Self::Unavailable,
            _deterministic => Self::Failed,
        }
    }

    /// `code` is SQLite's extended result code: the low byte is the kind, the rest a detail.
    fn of_sqlite(code: i32, text: &str) -> Self {
        const NOT_THERE: [&str; 3] = ["no such table", "no such column", "no column named"];
        const PRIMARY_KEY: i32 = 1555;
        const UNIQUE: i32 = 2067;
        match (code, code & 0xff) {
            (PRIMARY_KEY | UNIQUE, _) => Self::Duplicate,
            // BUSY, LOCKED
            (_, 5 | 6) => Self::Busy,
            // PERM, NOMEM, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL
            (_, 3 | 7 | 8 | 9 | 10 | 13 | 14 | 15) => Self::Unavailable,
            // NOTADB
            (_, 26) => Self::Denied,
            // SQLite has no code of its own for these.
            (_, 1) if NOT_THERE.iter().any(|words| text.contains(words)) => Self::Schema,
            _deterministic => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_between_transactions_are_done_again() {
        assert!(["40001", "40P01"].into_iter().all(|state| Kind::of_postgres(state) == Kind::Busy));
        assert!([1205, 1213].into_iter().all(|number| Kind::of_mysql(number) == Kind::Busy));
        assert!([5, 261, 517, 6].into_iter().all(|code| Kind::of_sqlite(code, "") == Kind::Busy));
    }

    #[test]
    fn a_taken_key_is_told_from_other_violations() {
        assert_eq!((Kind::of_postgres("23505"), Kind::of_postgres("23514")), (Kind::Duplicate, Kind::Failed));
        assert_eq!((Kind::of_mysql(1062), Kind::of_mysql(3819)), (Kind::Duplicate, Kind::Failed));
        assert_eq!((Kind::of_sqlite(1555, ""), Kind::of_sqlite(275, "")), (Kind::Duplicate, Kind::Failed));
    }

    #[test]
    fn a_full_disk_a_read_only_server_and_a_time_limit_are_waited_for() {
        assert!(["53100", "25006", "57014", "57P03"].into_iter().all(|s| Kind::of_postgres(s) == Kind::Unavailable));
        assert!(
            [1021, 1114, 1290, 1836, 1036, 1969, 1053]
                .into_iter()
                .all(|number| Kind::of_mysql(number) == Kind::Unavailable)
        );
        assert!([13, 8, 10, 14].into_iter().all(|code| Kind::of_sqlite(code, "") == Kind::Unavailable));
    }

    #[test]
    fn a_connection_that_the_server_ends_is_replaced_by_another() {
        assert!(["57P01", "57P02", "57P05"].into_iter().all(|state| Kind::of_postgres(state) == Kind::Lost));
        assert_eq!(Kind::of_mysql(1927), Kind::Lost);
        assert!(matches!(Fault::Lost(String::new()).before_any_write(), Fault::Busy(_)));
    }

    #[test]
    fn a_table_or_a_column_that_is_not_there_is_a_matter_of_the_schema() {
        assert!(["42P01", "42703"].into_iter().all(|state| Kind::of_postgres(state) == Kind::Schema));
        assert!([1146, 1054].into_iter().all(|number| Kind::of_mysql(number) == Kind::Schema));
        for text in ["no such table: stock", "no such column: s.fence_token", "table stock has no column named sku"] {
            assert_eq!(Kind::of_sqlite(1, text), Kind::Schema, "{text}");
        }
    }

    #[test]
    fn a_missing_grant_is_no_orders_fault() {
        assert_eq!(Kind::of_postgres("42501"), Kind::Unavailable);
        assert_eq!(Kind::of_mysql(1142), Kind::Unavailable);
    }

    #[test]
    fn a_refused_login_is_told_from_an_outage_but_waited_for_while_working() {
        assert!(["28000", "28P01", "3D000"].into_iter().all(|state| Kind::of_postgres(state) == Kind::Denied));
        assert!([1044, 1045, 1049, 1130, 1698].into_iter().all(|number| Kind::of_mysql(number) == Kind::Denied));
        let later = Fault::Denied("no".into()).into_error("db");
        assert!(matches!(&later, Error::Unavailable(text) if text == "db: no"), "{later:?}");
    }

    #[test]
    fn a_message_too_large_for_the_server_is_not_sent_for_ever() {
        assert_eq!(Kind::of_mysql(1153), Kind::Failed);
        assert_eq!(Kind::of_postgres("54000"), Kind::Failed);
    }
}
