//! A database of its own for each test, on each server, dropped at the end whatever happens.

use std::collections::BTreeMap;
use std::future::Future;

use chrono::{DateTime, Utc};
use lastunit::config;
use lastunit::fence::{Epoch, FenceToken};
use lastunit::ledger::{Batch, Change, Direction, Ledger, NewDecision, NewLine};
use lastunit::order::{ContentHash, OrderId, Sku};
use lastunit::plan::{Reason, StockRow};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, Statement};
use uuid::Uuid;

/// A database server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Server {
    Postgres,
    MariaDb,
    Sqlite,
}

impl Server {
    fn address(self) -> String {
        let (variable, standard) = match self {
            Self::Postgres => ("LASTUNIT_TEST_POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/postgres"),
            Self::MariaDb => ("LASTUNIT_TEST_MARIADB_URL", "mysql://root@127.0.0.1:3306/test"),
            Self::Sqlite => return String::new(),
        };
        std::env::var(variable).unwrap_or_else(|_| standard.to_owned())
    }
}

/// One test's database.
#[derive(Clone)]
pub struct Db {
    pub server: Server,
    pub settings: config::Database,
    pub ledger: Ledger,
    /// Beside the ledger, to plant and to look.
    pub raw: DatabaseConnection,
}

/// Runs a test on a migrated database of its own.
pub async fn on<F>(server: Server, test: fn(Db) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    on_empty(server, async move |db| {
        db.ledger.migrate(Direction::Up).await.expect("migrate");
        tokio::spawn(test(db)).await
    })
    .await;
}

async fn on_empty(server: Server, test: impl AsyncFnOnce(Db) -> Result<(), tokio::task::JoinError>) {
    let name = format!("lastunit_test_{}", Uuid::new_v4().simple());
    let folder = tempfile::tempdir().expect("a folder");
    let url = match server {
        Server::Sqlite => format!("sqlite://{}?mode=rwc", folder.path().join("ledger.db").display()),
        Server::Postgres | Server::MariaDb => {
            let admin = Database::connect(server.address()).await.expect("the test server");
            admin.execute_unprepared(&format!("CREATE DATABASE {name}")).await.expect("create");
            let (server_url, _) =
                server.address().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a URL");
            format!("{server_url}/{name}")
        }
    };
    let settings = settings(&url);
    let ledger = Ledger::connect(&settings).await.expect("connect");
    let raw = Database::connect(url).await.expect("connect");
    let result = test(Db { server, settings, ledger, raw }).await;
    if server != Server::Sqlite {
        let admin = Database::connect(server.address()).await.expect("the test server");
        let force = if server == Server::Postgres { " WITH (FORCE)" } else { "" };
        admin.execute_unprepared(&format!("DROP DATABASE {name}{force}")).await.expect("drop");
    }
    if let Err(failed) = result {
        std::panic::resume_unwind(failed.into_panic());
    }
}

/// Settings for a database.
pub fn settings(url: &str) -> config::Database {
    let env = [("LASTUNIT__DATABASE__URL", url), ("LASTUNIT__DATABASE__STATEMENT_TIMEOUT_MS", "20000")];
    let env = env.map(|(key, value)| (key.to_owned(), value.to_owned()));
    config::Settings::load(None, env).expect("settings").database
}

/// Writes each test once for all servers.
macro_rules! on_all_servers {
    ($($test:ident),* $(,)?) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() { crate::support::on(crate::support::Server::Postgres, super::$test).await; })*
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() { crate::support::on(crate::support::Server::MariaDb, super::$test).await; })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() { crate::support::on(crate::support::Server::Sqlite, super::$test).await; })*
        }
    };
}
pub(crate) use on_all_servers;

pub fn id(text: &str) -> Sku {
    Sku::new(text).expect("an id")
}

pub fn token(epoch: u64, sequence: u64) -> FenceToken {
    FenceToken::new(Epoch::new(epoch).expect("an epoch"), sequence).expect("a token")
}

pub fn now() -> DateTime<Utc> {
    Utc::now()
}

/// An order that takes these units under these tokens.
pub fn reserved(order: &str, lines: &[(&str, i64, FenceToken)]) -> NewDecision {
    let lines = lines.iter().map(|(sku, quantity, token)| NewLine { sku: id(sku), quantity: *quantity, token: *token });
    NewDecision {
        order_id: id(order),
        rejected: None,
        content_hash: ContentHash([7; 32]),
        event: format!("event of {order}").into(),
        expires_at: None,
        lines: lines.collect(),
    }
}

/// An order that gets nothing.
pub fn rejected(order: &str, reason: Reason) -> NewDecision {
    NewDecision { rejected: Some(reason), ..reserved(order, &[]) }
}

/// A transaction of these decisions, whose stock is what their lines take, and `besides` with 0 units.
pub fn batch(decisions: Vec<NewDecision>, besides: &[(&str, FenceToken)]) -> Batch {
    let mut stock: BTreeMap<Sku, (i64, FenceToken)> =
        besides.iter().map(|(sku, token)| (id(sku), (0, *token))).collect();
    for line in decisions.iter().flat_map(|decision| &decision.lines) {
        stock.entry(line.sku.clone()).or_insert((0, line.token)).0 += line.quantity;
    }
    Batch { commit_id: Uuid::new_v4(), decided_at: now(), decisions, stock }
}

impl Db {
    /// Puts units on the shelf.
    pub async fn shelve(&self, units: &[(&str, i64)]) {
        let changes = units.iter().map(|(sku, units)| (id(sku), Change::Set(*units))).collect();
        self.ledger.change_stock(changes, "test").await.expect("change").expect("possible");
    }

    /// One SKU's row.
    pub async fn row(&self, sku: &str) -> StockRow {
        self.ledger.stock(Some(&[id(sku)])).await.expect("stock")[sku]
    }

    /// The decisions on these orders.
    pub async fn decided(&self, orders: &[&str]) -> usize {
        let orders: Vec<OrderId> = orders.iter().map(|order| id(order)).collect();
        self.ledger.read(&[], &orders).await.expect("read").recorded.len()
    }

    /// Writes behind the ledger's back.
    pub async fn plant(&self, sql: &str) {
        self.raw.execute_unprepared(sql).await.expect("plant");
    }

    /// Whether there is a table, and, with a condition, such a row in it.
    pub async fn has(&self, table: &str) -> bool {
        let select = Statement::from_string(self.raw.get_database_backend(), format!("SELECT 1 FROM {table}"));
        let found = self.raw.query_all_raw(select).await;
        found.is_ok_and(|rows| !table.contains(' ') || !rows.is_empty())
    }

    /// Every test ends with this.
    pub async fn assert_audit_is_clean(&self) {
        let audit = self.ledger.audit().await.expect("audit");
        assert!(audit.is_clean(), "{:?}", audit.failures);
    }
}
