//! `lastunit bench` on real services: everyone is measured, and nothing is left behind.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use support::{Backend, Rabbit, SOON, Sandbox, Sql, WorkerProcess, eventually};

mod support;

/// Small enough for a test; the numbers mean nothing.
const SMALL: [&str; 7] = ["bench", "--orders", "200", "--repeat", "1", "--light", "1"];
const ENDS: Duration = Duration::from_secs(60);

/// Neither queues nor keys nor a database with the bench's names.
async fn expect_nothing_left(sandbox: &Sandbox, names: &str) {
    let rabbit = Rabbit::connect(sandbox.get("broker.url"), names).await;
    for queue in ["orders", "dead.lost-race", "retry.1000"] {
        assert!(!rabbit.exists(queue).await, "{queue} is left");
    }
    let client = redis::Client::open(sandbox.get("redis.url")).expect("an address");
    let mut redis = client.get_multiplexed_async_connection().await.expect("redis");
    let mut keys = redis::cmd("KEYS");
    let keys: Vec<String> = keys.arg(format!("{names}*")).query_async(&mut redis).await.expect("keys");
    assert!(keys.is_empty(), "{keys:?} are left");
    let server = Sql::connect(sandbox.get("database.url"), Backend::Postgres).await;
    let name = names.replace('-', "_");
    assert_eq!(server.number("count(*)", &format!("pg_database where datname = '{name}'")).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_measures_every_contender_and_leaves_nothing_behind() {
    let sandbox = Sandbox::empty(Backend::Postgres).await;
    let loads = ["--workload", "hot", "--workload", "sold-out", "--json"];
    let finished = sandbox.run(&[&SMALL[..], &loads].concat()).await.expect_code(0);

    let report: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    let lines = report["lines"].as_array().expect("lines");
    assert_eq!(lines.len(), 8, "two workloads, four contenders: {report:#}");
    for line in lines {
        for measured in ["/rate/median", "/to_pass_through/median", "/to_one_at_a_time/median", "/latency_ms/p50"] {
            let value = line.pointer(measured).and_then(Value::as_f64);
            assert!(value.is_some_and(|value| value > 0.0), "{measured}: {line:#}");
        }
        let has_books = line["contender"] != "pass-through";
        assert_eq!(line["commits"].is_object(), has_books, "{line:#}");
    }
    expect_nothing_left(&sandbox, report["names"].as_str().expect("its names")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_reservations_and_a_backlog_lie_around_while_it_measures() {
    for backend in [Backend::Postgres, Backend::MariaDb, Backend::Sqlite] {
        let sandbox = Sandbox::empty(backend).await;
        let around = [
            "--history",
            "500",
            "--backlog",
            "300",
            "--order-bytes",
            "600",
            "--scattered-ids",
            "--workload",
            "uniform",
            "--json",
        ];
        let who = ["--contender", "pass-through", "--contender", "lastunit"];
        let finished = sandbox.run(&[&SMALL[..], &around, &who].concat()).await.expect_code(0);

        let report: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        // Whole copies of the 200 that a worker decided.
        assert_eq!((&report["history"], &report["backlog"]), (&600.into(), &300.into()), "{report:#}");
        let lines = report["lines"].as_array().expect("lines");
        assert_eq!(lines.len(), 2, "{report:#}");
        for line in lines {
            assert!(line["rate"]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{line:#}");
            assert!(line["latency_ms"].is_null(), "behind a backlog there is no light load: {line:#}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_bench_leaves_nothing_behind() {
    let sandbox = Sandbox::empty(Backend::Postgres).await;
    let log = sandbox.folder().join("bench.log");
    let mut bench = WorkerProcess::start(sandbox.command(&SMALL), log.clone());
    let names = eventually("the bench tells its names", SOON, async || told(&log)).await;
    let rabbit = Rabbit::connect(sandbox.get("broker.url"), &names).await;
    eventually("its queue is declared", SOON, async || {
        if rabbit.exists("orders").await { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;

    bench.interrupt();
    assert!(!bench.wait_exit(ENDS).await.success(), "nothing was measured");
    assert!(bench.printed().contains("interrupted"), "{}", bench.printed());
    expect_nothing_left(&sandbox, &names).await;
}

/// `names="lastunit-bench-…"` in a log line, without colours.
fn told(log: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(log).map_err(|fault| fault.to_string())?;
    let at = text.find("lastunit-bench-").ok_or_else(|| text.clone())?;
    let name: String = text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    if name.len() == "lastunit-bench-".len() + 6 { Ok(name) } else { Err(text) }
}
