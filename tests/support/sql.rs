//! Plain SQL for assertions: what stands in the tables, not what the program says about it.

use std::collections::BTreeMap;

use sea_orm::{
    ConnectOptions, ConnectionTrait as _, Database, DatabaseConnection, DatabaseTransaction, QueryResult, Statement,
    TransactionTrait as _,
};

use super::Backend;

/// A connection of the test's own.
pub struct Sql {
    connection: DatabaseConnection,
    backend: Backend,
}

impl Sql {
    /// Connects.
    pub async fn connect(url: &str, backend: Backend) -> Self {
        let mut options = ConnectOptions::new(url);
        options.max_connections(1).sqlx_logging(false);
        Self { connection: Database::connect(options).await.expect("the test's database"), backend }
    }

    /// One number: `select {expression} from {rest}`.
    pub async fn number(&self, expression: &str, rest: &str) -> i64 {
        let integer = self.integer(expression);
        let rows = self.rows(&format!("select {integer} as n from {rest}")).await;
        rows[0].try_get("", "n").expect("a number")
    }

    /// A text column, in the sequence of its values.
    pub async fn texts(&self, column: &str, rest: &str) -> Vec<String> {
        let text = self.text(column);
        let rows = self.rows(&format!("select {text} as t from {rest}")).await;
        let mut texts: Vec<String> = rows.iter().map(|row| row.try_get("", "t").expect("a text")).collect();
        texts.sort_unstable();
        texts
    }

    /// Units left per SKU.
    pub async fn available(&self) -> BTreeMap<String, i64> {
        let (sku, available) = (self.text("sku"), self.integer("available"));
        let rows = self.rows(&format!("select {sku} as t, {available} as n from stock")).await;
        rows.iter().map(|row| (row.try_get("", "t").expect("a sku"), row.try_get("", "n").expect("units"))).collect()
    }

    /// Units taken per order and SKU.
    pub async fn lines(&self) -> BTreeMap<(String, String), i64> {
        let (order, sku, quantity) = (self.text("order_id"), self.text("sku"), self.integer("quantity"));
        let rows = self.rows(&format!("select {order} as o, {sku} as s, {quantity} as n from reservation_line")).await;
        let read = |row: &QueryResult| -> Result<_, sea_orm::DbErr> {
            Ok(((row.try_get("", "o")?, row.try_get("", "s")?), row.try_get("", "n")?))
        };
        rows.iter().map(|row| read(row).expect("a line")).collect()
    }

    /// Locks a SKU's row until the returned transaction ends; this connection has nothing else to do meanwhile.
    pub async fn lock_row(&self, sku: &str) -> DatabaseTransaction {
        let transaction = self.connection.begin().await.expect("a transaction");
        // SQLite locks everything with the first write.
        let touch = format!("update stock set available = available where sku = '{sku}'");
        transaction.execute_unprepared(&touch).await.expect("the row's lock");
        transaction
    }

    /// Runs a statement.
    pub async fn run(&self, sql: &str) {
        self.connection.execute_unprepared(sql).await.unwrap_or_else(|fault| panic!("{sql}: {fault}"));
    }

    /// Runs a statement that may be refused; whether it was not.
    pub async fn is_allowed(&self, sql: &str) -> bool {
        self.connection.execute_unprepared(sql).await.is_ok()
    }

    /// Ends all other connections to the same database of PostgreSQL.
    pub async fn disconnect_others(&self) {
        let others = "pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
        self.rows(&format!("select pg_terminate_backend(pid) from {others}")).await;
    }

    async fn rows(&self, sql: &str) -> Vec<QueryResult> {
        let statement = Statement::from_string(self.connection.get_database_backend(), sql);
        self.connection.query_all_raw(statement).await.unwrap_or_else(|fault| panic!("{sql}: {fault}"))
    }

    /// Ids are bytes on MariaDB, for the sake of exact comparison.
    fn text(&self, column: &str) -> String {
        match self.backend {
            Backend::MariaDb => format!("convert({column} using utf8mb4)"),
            Backend::Postgres | Backend::Sqlite => column.to_owned(),
        }
    }

    /// Sums are of wider types on some databases.
    fn integer(&self, expression: &str) -> String {
        let kind = match self.backend {
            Backend::MariaDb => "signed",
            Backend::Postgres => "bigint",
            Backend::Sqlite => "integer",
        };
        format!("cast(coalesce({expression}, 0) as {kind})")
    }
}
