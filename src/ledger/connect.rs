//! Connection options: addresses, sizes, time limits, TLS, and each connection's session.

use std::time::Duration;

use sea_orm::ConnectOptions;
use sea_orm::sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sea_orm::sqlx::postgres::{PgConnectOptions, PgSslMode};
use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use sea_orm::sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySql};

use super::dialect::Dialect;
use super::pool::Patience;
use super::url::split;
use crate::config;

/// A connection that was used since this time is taken without a ping: one round trip saved per transaction. One that died
/// meanwhile shows at `BEGIN`, and the work takes another.
const PING_AFTER_IDLE: Duration = Duration::from_secs(10);

/// Translates the settings.
pub(super) fn configure(settings: &config::Database, patience: Patience) -> ConnectOptions {
    let (url, password) = split(&settings.url);
    let limit_ms = (patience == Patience::Limited).then_some(settings.statement_timeout_ms.0);
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(settings.max_connections)
        .acquire_timeout(settings.acquire_timeout_ms.duration())
        .test_before_acquire_if_idle_for(PING_AFTER_IDLE)
        .record_stmt_in_spans(false)
        .sqlx_logging(false);
    refuse_open_transactions(&mut options);
    match settings.url.scheme().as_str() {
        "sqlite" => configure_sqlite(&mut options, settings.statement_timeout_ms.duration()),
        "mysql" | "mariadb" => configure_mysql(&mut options, settings, password, limit_ms),
        // The settings admit nothing else.
        _postgres => configure_postgres(&mut options, settings, password, limit_ms),
    }
    options
}

/// After a COMMIT that failed (a full disk) the driver may still believe in the transaction, or be right: whoever got that
/// connection next would read decisions that were never made durable. It is closed instead.
fn refuse_open_transactions(options: &mut ConnectOptions) {
    options
        .map_sqlx_sqlite_before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .map_sqlx_postgres_before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .map_sqlx_mysql_before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
}

/// WAL: readers and the writer do not wait for each other. FULL: a commit is on the disk before its message is acknowledged.
fn configure_sqlite(options: &mut ConnectOptions, busy_timeout: Duration) {
    options.map_sqlx_sqlite_opts(move |options| {
        options.busy_timeout(busy_timeout).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full)
    });
}

fn configure_postgres(
    options: &mut ConnectOptions,
    settings: &config::Database,
    password: Option<String>,
    limit_ms: Option<u64>,
) {
    let tls = settings.clone();
    options.map_sqlx_postgres_opts(move |mut options| {
        if let Some(password) = &password {
            options = options.password(password);
        }
        with_postgres_tls(options.application_name("lastunit"), &tls)
    });
    let session = Dialect::Postgres.session(limit_ms);
    options.map_sqlx_postgres_pool_opts(move |pool| {
        let session = session.clone();
        pool.after_connect(move |connection, _| {
            let session = session.clone();
            Box::pin(async move {
                nodelay::set_on_all_sockets();
                for statement in session {
                    connection.execute(AssertSqlSafe(statement)).await?;
                }
                Ok(())
            })
        })
    });
}

fn configure_mysql(
    options: &mut ConnectOptions,
    settings: &config::Database,
    password: Option<String>,
    limit_ms: Option<u64>,
) {
    let tls = settings.clone();
    options.map_sqlx_mysql_opts(move |mut options| {
        if let Some(password) = &password {
            options = options.password(password);
        }
        with_mysql_tls(options, &tls)
    });
    options.map_sqlx_mysql_pool_opts(move |pool| {
        pool.after_connect(move |connection, _| {
            Box::pin(async move {
                nodelay::set_on_all_sockets();
                let version = sea_orm::sqlx::query_scalar::<MySql, String>("SELECT VERSION()");
                let version = version.fetch_one(&mut *connection).await?;
                let dialect = if version.contains("MariaDB") { Dialect::MariaDb } else { Dialect::MySql };
                for statement in dialect.session(limit_ms) {
                    connection.execute(AssertSqlSafe(statement)).await?;
                }
                Ok(())
            })
        })
    });
}

/// An authority in the settings means that the server must prove to be the one named in the URL.
fn with_postgres_tls(mut options: PgConnectOptions, settings: &config::Database) -> PgConnectOptions {
    if !settings.tls_ca.is_empty() {
        options = options.ssl_root_cert(&settings.tls_ca).ssl_mode(PgSslMode::VerifyFull);
    }
    if !settings.tls_client_cert.is_empty() {
        options = options.ssl_client_cert(&settings.tls_client_cert);
    }
    if !settings.tls_client_key.is_empty() {
        options = options.ssl_client_key(&settings.tls_client_key);
    }
    options
}

fn with_mysql_tls(mut options: MySqlConnectOptions, settings: &config::Database) -> MySqlConnectOptions {
    if !settings.tls_ca.is_empty() {
        options = options.ssl_ca(&settings.tls_ca).ssl_mode(MySqlSslMode::VerifyIdentity);
    }
    if !settings.tls_client_cert.is_empty() {
        options = options.ssl_client_cert(&settings.tls_client_cert);
    }
    if !settings.tls_client_key.is_empty() {
        options = options.ssl_client_key(&settings.tls_client_key);
    }
    options
}
