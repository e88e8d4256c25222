//! A service that has no room left: it reads, it answers a probe, and it refuses the work.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::scene::{Scene, sandbox, sandbox_on};
use crate::support::{Backend, MariaDbServer, PostgresServer, RedisServer, Sandbox, Services, Sql};

/// A table's file gives way to `/dev/full`, which says "no space left on device" to whoever wants to make it longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_postgres_is_waited_for() {
    let server = tokio::task::spawn_blocking(PostgresServer::start).await.expect("a server");
    let services = Services { database: Some(server.url()), ..Services::shared(Backend::Postgres) };
    let sandbox = sandbox_on(Backend::Postgres, services).await;
    let sql = sandbox.sql().await;
    let mut scene = Scene::start(sandbox).await;
    // Nothing stands in it yet, so that nothing is missed.
    let path = sql.texts("pg_relation_filepath('reservation')", "(select 1) as one").await;
    let table = server.data().join(&path[0]);
    let kept = table.with_extension("kept");
    fs::rename(&table, &kept).expect("the table's file");
    symlink("/dev/full", &table).expect("a full disk");
    sql.disconnect_others().await;
    scene.suffers().await;
    assert!(scene.said("No space left on device") > 0, "{}", scene.worker.printed());
    fs::rename(&kept, &table).expect("the table's file");
    sql.disconnect_others().await;
    scene.recovers().await;
    scene.ends().await;
}

/// The table's file cannot grow, and what it has is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_mariadb_is_waited_for() {
    let Some(server) = tokio::task::spawn_blocking(MariaDbServer::on_small_disk).await.expect("a server") else {
        return;
    };
    let services = Services { database: Some(server.url()), ..Services::shared(Backend::MariaDb) };
    let sandbox = sandbox_on(Backend::MariaDb, services).await;
    let sql = sandbox.sql().await;
    let mut scene = Scene::start(sandbox).await;
    server.fill_disk();
    fill_page(&sql).await;
    scene.suffers().await;
    assert!(scene.said("The table 'reservation' is full") > 0, "{}", scene.worker.printed());
    server.empty_disk();
    scene.recovers().await;
    sql.run("delete from reservation where order_id like '%filler%'").await;
    scene.ends().await;
}

/// Fills the only page of an empty table, down to what is less than an order. Before the orders and behind them in turn:
/// InnoDB keeps a sixteenth of a page free from rows that come in sequence.
async fn fill_page(sql: &Sql) {
    for bytes in [4_000, 400, 0] {
        let mut refused = 0;
        for number in 0.. {
            let id = format!("{}filler-{bytes}-{number}", if number % 2 == 0 { '!' } else { '~' });
            let row = format!("'{id}', 'rejected', 'sold-out', '', repeat('x', {bytes}), '', now(), 'rejected', now()");
            let columns = "order_id, outcome, reason, content_hash, event, commit_id, decided_at, status, changed_at";
            let insert = format!("insert into reservation ({columns}) values ({row})");
            refused = if sql.is_allowed(&insert).await { 0 } else { refused + 1 };
            if refused == 2 {
                break;
            }
        }
    }
}

/// The process may not write beyond the first pages of any file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_sqlite_is_waited_for() {
    let sandbox = sandbox(Backend::Sqlite).await;
    let command = unharmed_by_file_limits(&sandbox);
    let mut scene = Scene::start_as(sandbox, command).await;
    scene.works().await;
    limit_files(&scene, "8192");
    scene.suffers().await;
    limit_files(&scene, "unlimited");
    scene.recovers().await;
    scene.ends().await;
}

/// Exceeding the limit is an error to it, as a full disk is, and no signal. What it says goes through a pipe, which has no
/// length.
fn unharmed_by_file_limits(sandbox: &Sandbox) -> Command {
    let worker = sandbox.command(&["worker"]);
    let mut shell = Command::new("bash");
    shell
        .args(["-c", r#"trap "" XFSZ; exec "$@" > >(exec cat) 2>&1"#, "bash"])
        .arg(worker.get_program())
        .args(worker.get_args());
    shell.current_dir(sandbox.folder());
    for (variable, value) in worker.get_envs() {
        match value {
            Some(value) => shell.env(variable, value),
            None => shell.env_remove(variable),
        };
    }
    shell
}

fn limit_files(scene: &Scene, bytes: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &scene.worker.pid().to_string(), &format!("--fsize={bytes}:")]);
    assert!(prlimit.status().expect("prlimit (Debian: util-linux)").success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_without_memory_is_waited_for() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let services = Services { redis: server.url(), ..Services::shared(Backend::Postgres) };
    let sandbox = sandbox_on(Backend::Postgres, services).await;
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    scene.suffers().await;
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    scene.recovers().await;
    scene.ends().await;
}
