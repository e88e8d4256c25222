//! What is wrong at start is said in one clear line, with its exit code, and without a password.

use std::time::{Duration, Instant};

use crate::on_each_backend;
use crate::support::redis_server::free_port;
use crate::support::{Backend, Finished, Links, Proxy, SOON, Sandbox, WorkerProcess, eventually};

const CONFIG: i32 = 78;
const UNAVAILABLE: i32 = 69;
const USAGE: i32 = 2;
const SECRET: &str = "t0p-s3cret";
/// On top of `startup.wait_ms`: the process itself starts and ends.
const OVERHEAD: Duration = Duration::from_secs(10);

/// One line that names `what`, and nothing that would frighten or betray.
fn expect_clear(finished: Finished, code: i32, what: &str) {
    let finished = finished.expect_code(code);
    let all = format!("{}{}", finished.stdout, finished.stderr);
    let said: Vec<_> = finished.stderr.lines().filter(|line| line.starts_with("lastunit: ")).collect();
    assert_eq!(said.len(), 1, "one line: {all}");
    assert!(said[0].contains(what), "{what:?} is missing: {all}");
    for never in [SECRET, "panicked", "backtrace", "RUST_BACKTRACE"] {
        assert!(!all.contains(never), "{never:?} in: {all}");
    }
}

#[tokio::test]
async fn an_unknown_setting_is_refused_by_its_name() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.set("lease.tll_ms", 5_000);
    expect_clear(sandbox.run(&["worker"]).await, CONFIG, "tll_ms");
}

#[tokio::test]
async fn contradictory_settings_are_refused_by_name() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.set("lease.ttl_ms", 1_000);
    sandbox.set("lease.safety_margin_ms", 2_000);
    expect_clear(sandbox.run(&["worker"]).await, CONFIG, "lease.safety_margin_ms");
}

#[tokio::test]
async fn a_setting_of_the_wrong_kind_is_refused_by_name() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.set("broker.prefetch", "many");
    expect_clear(sandbox.run(&["worker"]).await, CONFIG, "prefetch");
}

#[tokio::test]
async fn a_usage_error_exits_with_2() {
    let sandbox = Sandbox::empty(Backend::Sqlite).await;
    for arguments in [&["no-such-command"][..], &[], &["worker", "--no-such-flag"]] {
        let finished = sandbox.run(arguments).await.expect_code(USAGE);
        assert!(finished.stderr.contains("Usage"), "{}", finished.stderr);
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_named_within_the_startup_time() {
    let port = free_port();
    let refused = format!("connecting to 127.0.0.1 port {port}: Connection refused");
    let unreachable = [
        ("redis.url", format!("redis://:{SECRET}@127.0.0.1:{port}"), "redis"),
        ("broker.url", format!("amqp://guest:{SECRET}@127.0.0.1:{port}/%2f"), "broker"),
        ("database.url", format!("postgres://shop:{SECRET}@127.0.0.1:{port}/shop"), refused.as_str()),
        ("database.url", format!("mysql://shop:{SECRET}@127.0.0.1:{port}/shop"), &refused),
    ];
    for (key, url, name) in unreachable {
        let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
        let wait = Duration::from_millis(500);
        sandbox.set("startup.wait_ms", wait.as_millis());
        let right = sandbox.get(key).to_owned();
        sandbox.set(key, url);
        let start = Instant::now();
        expect_clear(sandbox.run(&["worker"]).await, UNAVAILABLE, name);
        assert!(start.elapsed() < wait + OVERHEAD, "{name}: {:?}", start.elapsed());
        // For the clean-up.
        sandbox.set(key, right);
    }
}

#[tokio::test]
async fn a_database_that_lets_nobody_in_is_a_matter_of_settings() {
    for backend in [Backend::Postgres, Backend::MariaDb] {
        let mut sandbox = Sandbox::empty(backend).await;
        let right = sandbox.get("database.url").to_owned();
        let mut url: url::Url = right.parse().expect("an address");
        url.set_username("lastunit_nobody").and_then(|()| url.set_password(Some(SECRET))).expect("a login");
        sandbox.set("database.url", &url);
        let start = Instant::now();
        for command in [&["worker"][..], &["migrate", "status"]] {
            expect_clear(sandbox.run(command).await, CONFIG, "lets nobody in");
        }
        assert!(start.elapsed() < OVERHEAD * 2, "nothing to wait for: {:?}", start.elapsed());
        // For the clean-up.
        sandbox.set("database.url", right);
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_a_database_is_a_matter_of_settings() {
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    let right = sandbox.get("database.url").to_owned();
    let text = sandbox.folder().join("a text, long enough for the header of a database");
    std::fs::write(&text, "no database. ".repeat(100)).expect("a file");
    let nowhere = sandbox.folder().join("no such folder/lastunit.db");
    for path in [sandbox.folder().to_owned(), text, nowhere] {
        sandbox.set("database.url", format!("sqlite://{}?mode=rwc", path.display()));
        let start = Instant::now();
        expect_clear(sandbox.run(&["worker"]).await, CONFIG, "cannot be opened");
        assert!(start.elapsed() < OVERHEAD, "nothing to wait for: {:?}", start.elapsed());
    }
    // For the clean-up.
    sandbox.set("database.url", right);
}

#[tokio::test]
async fn a_slash_too_many_at_the_brokers_address_is_explained() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    let right = sandbox.get("broker.url").to_owned();
    let url = right.strip_suffix("%2f").expect("an address that ends in its virtual host");
    sandbox.set("broker.url", url);
    expect_clear(sandbox.run(&["worker"]).await, CONFIG, "/%2f");
    sandbox.set("broker.url", right);
}

#[tokio::test]
async fn commands_wait_for_a_broker_that_is_starting() {
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    let right = sandbox.get("broker.url").to_owned();
    let mut url: url::Url = right.parse().expect("an address");
    let proxy = Proxy::before(url.port().unwrap_or(5672));
    url.set_port(Some(proxy.port())).expect("a port");
    sandbox.set("broker.url", &url);
    sandbox.set("startup.wait_ms", 60_000);
    std::fs::write(sandbox.folder().join("orders"), "{\"order_id\":\"A\",\"sku\":\"X\",\"quantity\":1}\n")
        .expect("written");
    for arguments in [&["topology"][..], &["publish", "orders"], &["dead", "list"]] {
        proxy.close();
        let log = sandbox.folder().join(format!("{}.log", arguments[0]));
        let mut process = WorkerProcess::start(sandbox.command(arguments), log);
        eventually("it waits", SOON, async || {
            if process.printed().contains("does not answer yet") { Ok(()) } else { Err(process.printed()) }
        })
        .await;
        proxy.set(Links::OPEN);
        assert!(process.wait_exit(SOON).await.success(), "{}", process.printed());
    }
    assert_eq!(sandbox.rabbit.count("orders").await, 1);
    // For the clean-up.
    sandbox.set("broker.url", right);
}

on_each_backend!(a_database_without_the_schema_is_refused_with_what_to_do);

async fn a_database_without_the_schema_is_refused_with_what_to_do(backend: Backend) {
    let sandbox = Sandbox::empty(backend).await;
    expect_clear(sandbox.run(&["worker"]).await, CONFIG, "lastunit migrate");
}

#[tokio::test]
async fn a_database_in_memory_is_refused() {
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    for url in ["sqlite::memory:", "sqlite://shop.db?mode=memory"] {
        sandbox.set("database.url", url);
        for command in [&["migrate", "up"][..], &["worker"]] {
            expect_clear(sandbox.run(command).await, CONFIG, "Name a file, such as sqlite://lastunit.db?mode=rwc");
        }
    }
}

on_each_backend!(a_table_of_somebody_else_is_refused_by_name, a_worker_does_not_wait_for_a_table_of_somebody_else);

async fn a_table_of_somebody_else_is_refused_by_name(backend: Backend) {
    let sandbox = Sandbox::empty(backend).await;
    let sql = sandbox.sql().await;
    sql.run("create table stock (id integer)").await;
    sql.run("insert into stock values (7)").await;
    for command in [&["migrate", "up"][..], &["migrate", "down", "--force"], &["audit"], &["worker"]] {
        expect_clear(sandbox.run(command).await, CONFIG, "already has a table stock that is not lastunit's");
    }
    let status = sandbox.run(&["migrate", "status"]).await.expect_code(0).stdout;
    assert!(status.starts_with("missing  m2026"), "{status}");
    assert_eq!(sql.number("max(id)", "stock").await, 7);
}

/// Whoever replaced it has lost lastunit's own; nothing may be lost on top of that.
async fn a_worker_does_not_wait_for_a_table_of_somebody_else(backend: Backend) {
    let sandbox = Sandbox::empty(backend).await;
    sandbox.run(&["migrate", "up"]).await.expect_code(0);
    let sql = sandbox.sql().await;
    sql.run("drop table reservation").await;
    expect_clear(sandbox.run(&["worker"]).await, CONFIG, "has lost its table reservation");
    sql.run("create table reservation (order_id integer)").await;
    let lacks = "reservation that is not lastunit's (it has no column outcome)";
    for command in [&["worker"][..], &["migrate", "down"], &["migrate", "down", "--force"]] {
        expect_clear(sandbox.run(command).await, CONFIG, lacks);
    }
    assert_eq!(sql.number("count(*)", "reservation").await, 0);
}

on_each_backend!(the_schema_goes_up_down_and_up_again, stock_and_decisions_are_not_dropped_by_accident);

async fn the_schema_goes_up_down_and_up_again(backend: Backend) {
    let sandbox = Sandbox::empty(backend).await;
    for (arguments, said) in [
        (["migrate", "status"], "missing  m2026"),
        (["migrate", "up"], "applied  m2026"),
        (["migrate", "up"], "already applied  m2026"),
        (["migrate", "down"], "undone  m2026"),
        (["migrate", "down"], "missing  m2026"),
        (["migrate", "up"], "applied  m2026"),
        (["migrate", "status"], "applied  m2026"),
    ] {
        let stdout = sandbox.run(&arguments).await.expect_code(0).stdout;
        assert!(stdout.starts_with(said), "{arguments:?}: {stdout}");
    }
    let json = sandbox.run(&["migrate", "up", "--json"]).await.expect_code(0).stdout;
    assert!(json.contains("\"applied\":true,\"changed\":false"), "{json}");
    assert_eq!(sandbox.sql().await.number("count(*)", "stock").await, 0);
}

/// Together they are more than a number of the database can hold.
async fn stock_and_decisions_are_not_dropped_by_accident(backend: Backend) {
    let sandbox = Sandbox::empty(backend).await;
    sandbox.run(&["migrate", "up"]).await.expect_code(0);
    for sku in ["A", "B"] {
        sandbox.run(&["stock", "set", sku, "9223372036854775807"]).await.expect_code(0);
    }
    let held = "the database holds 0 decisions and 2 SKUs in stock, which would be lost: repeat with --force";
    expect_clear(sandbox.run(&["migrate", "down"]).await, 1, held);
    sandbox.run(&["migrate", "down", "--force"]).await.expect_code(0);
}

#[tokio::test]
async fn a_queue_that_was_declared_differently_is_refused_by_name() {
    let sandbox = Sandbox::empty(Backend::Sqlite).await;
    sandbox.run(&["migrate", "up"]).await.expect_code(0);
    sandbox.rabbit.declare_otherwise("orders").await;
    let queue = sandbox.rabbit.name("orders");
    expect_clear(sandbox.run(&["worker"]).await, CONFIG, &queue);
    expect_clear(sandbox.run(&["topology"]).await, CONFIG, &queue);
}

/// A supervisor that changes its mind does not wait for `startup.wait_ms`.
#[tokio::test]
async fn a_worker_that_waits_for_its_services_stops_when_told_to() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    let right = sandbox.get("redis.url").to_owned();
    sandbox.set("redis.url", format!("redis://127.0.0.1:{}", free_port()));
    sandbox.set("startup.wait_ms", 600_000);
    let worker = sandbox.worker();
    eventually("it waits for redis", SOON, async || {
        let printed = worker.printed();
        if printed.contains("redis") { Ok(()) } else { Err(printed) }
    })
    .await;
    worker.end(SOON).await;
    // For the clean-up.
    sandbox.set("redis.url", right);
}
