//! The database goes away, becomes slow, read-only or silent.

use std::time::Duration;

use url::Url;

use super::scene::{SKU, Scene, behind_proxy, sandbox, sandbox_on};
use crate::support::grants::documented;
use crate::support::{Backend, Flow, Links, MariaDbServer, Sandbox, Services, Sql};
use crate::{on_each_backend, on_each_server};

on_each_server!(
    a_database_that_is_away_is_waited_for,
    a_database_that_says_nothing_is_waited_for,
    a_database_whose_link_is_too_slow_is_waited_for,
    connections_that_are_dead_without_a_word_are_given_up,
);
on_each_backend!(a_database_that_is_locked_is_waited_for);

async fn a_database_that_is_away_is_waited_for(backend: Backend) {
    let (mut scene, proxy) = behind_proxy(sandbox(backend).await, "database.url").await;
    for _ in 0..2 {
        proxy.close();
        scene.gets_over(&proxy).await;
    }
    scene.ends().await;
}

async fn a_database_that_says_nothing_is_waited_for(backend: Backend) {
    let (mut scene, proxy) = behind_proxy(sandbox(backend).await, "database.url").await;
    proxy.set(Links::HELD);
    scene.gets_over(&proxy).await;
    scene.ends().await;
}

async fn a_database_whose_link_is_too_slow_is_waited_for(backend: Backend) {
    let (mut scene, proxy) = behind_proxy(sandbox(backend).await, "database.url").await;
    let slow = Flow::Slow(Duration::from_secs(2));
    proxy.set(Links { up: slow, down: slow, refused: false });
    scene.gets_over(&proxy).await;
    scene.ends().await;
}

/// All connections of the pool, again and again: the worker needs no hand, although none of them ever answers or ends.
async fn connections_that_are_dead_without_a_word_are_given_up(backend: Backend) {
    let mut sandbox = sandbox(backend).await;
    sandbox.set("database.max_connections", 1);
    let (mut scene, proxy) = behind_proxy(sandbox, "database.url").await;
    for _ in 0..3 {
        proxy.forsake();
        scene.works().await;
    }
    scene.nothing_else_happened().await;
    scene.ends().await;
}

/// Somebody has the row, for longer than the time limits: an operator's open transaction, a backup, a vacuum.
async fn a_database_that_is_locked_is_waited_for(backend: Backend) {
    let sandbox = sandbox(backend).await;
    let sql = sandbox.sql().await;
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    let lock = sql.lock_row(SKU).await;
    scene.suffers().await;
    lock.rollback().await.expect("unlocked");
    scene.recovers().await;
    scene.ends().await;
}

/// As after a fail-over to a replica, or when a disk watch pulls the brake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_read_only_is_waited_for() {
    let sandbox = sandbox(Backend::Postgres).await;
    let sql = sandbox.sql().await;
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    set_read_only(&sql, "on").await;
    scene.suffers().await;
    set_read_only(&sql, "off").await;
    scene.recovers().await;
    scene.ends().await;
}

/// For new connections, and there are only new ones. The test's own stays as it is.
async fn set_read_only(sql: &Sql, value: &str) {
    sql.run(&format!(
        "do $$ begin execute format('alter database %I set default_transaction_read_only = {value}', current_database()); end $$"
    ))
    .await;
    sql.disconnect_others().await;
}

/// The same on MariaDB. Who may administrate writes all the same; the worker may not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_that_is_read_only_is_waited_for() {
    let server = tokio::task::spawn_blocking(MariaDbServer::start).await.expect("a server");
    let mut sandbox = sandbox_on_mariadb(&server).await;
    let sql = sandbox.sql().await;
    grant_the_least(&mut sandbox, &sql).await;
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    sql.run("set global read_only = 1").await;
    scene.suffers().await;
    assert!(scene.said("--read-only option") > 0, "{}", scene.worker.printed());
    sql.run("set global read_only = 0").await;
    scene.recovers().await;
    scene.ends().await;
}

/// As on a server that is to be repaired, or copied: InnoDB itself refuses, whoever asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_whose_tables_are_read_only_is_waited_for() {
    let mut server = tokio::task::spawn_blocking(MariaDbServer::start).await.expect("a server");
    let sandbox = sandbox_on_mariadb(&server).await;
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    server.resume(&["--innodb-read-only"]);
    scene.suffers().await;
    assert!(scene.said("read-only mode") > 0, "{}", scene.worker.printed());
    server.resume(&[]);
    scene.recovers().await;
    scene.ends().await;
}

async fn sandbox_on_mariadb(server: &MariaDbServer) -> Sandbox {
    let services = Services { database: Some(server.url()), ..Services::shared(Backend::MariaDb) };
    sandbox_on(Backend::MariaDb, services).await
}

/// From now on processes have the rights that docs/OPERATIONS.md grants, and may audit.
async fn grant_the_least(sandbox: &mut Sandbox, sql: &Sql) {
    let mut url = Url::parse(sandbox.get("database.url")).expect("an address");
    let database = format!("{}.", url.path().trim_start_matches('/'));
    sql.run("create user worker@'127.0.0.1'").await;
    for grant in documented("MySQL and MariaDB", "worker@'127.0.0.1'") {
        sql.run(&grant.replace("lastunit.", &database)).await;
    }
    sql.run(&format!("grant select on {database}* to worker@'127.0.0.1'")).await;
    url.set_username("worker").expect("an address with a user");
    sandbox.set("database.url", url);
}
