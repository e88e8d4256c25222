//! The address for health and metrics, at start.

use std::net::TcpListener;

use crate::probe::Observed;
use crate::support::redis_server::free_port;
use crate::support::{Backend, SOON, Sandbox, WorkerProcess, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_workers_of_one_host_start_without_a_setting_and_serve_nothing() {
    let sandbox = Sandbox::ready(Backend::Sqlite).await;
    let workers = sandbox.workers(2).await;
    assert!(workers.iter().all(|worker| !worker.printed().contains("are served")));
    sandbox.finish(workers).await;
}

#[tokio::test]
async fn an_address_that_cannot_be_read_is_refused_by_the_keys_name() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    for wrong in ["localhost", "http://127.0.0.1:9464", "70000"] {
        sandbox.set("admin.listen", wrong);
        let finished = sandbox.run(&["worker"]).await.expect_code(78);
        assert!(finished.stderr.contains("admin.listen") && finished.stderr.contains(wrong), "{}", finished.stderr);
    }
}

#[tokio::test]
async fn a_port_that_is_taken_stops_the_worker_before_it_opens_anything() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    sandbox.set("admin.listen", address);
    // Nobody is there: it would wait for this one.
    sandbox.set("redis.url", format!("redis://127.0.0.1:{}", free_port()));
    let finished = sandbox.run(&["worker"]).await.expect_code(69);
    sandbox.set("redis.url", "redis://127.0.0.1:6379");
    assert!(finished.stderr.contains(&format!("admin.listen: cannot listen on {address}")), "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("in use").count(), 1, "told once: {}", finished.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_waits_for_a_service_is_alive_and_not_ready() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    let direct = sandbox.get("redis.url").to_owned();
    let port = free_port();
    sandbox.set("redis.url", format!("redis://127.0.0.1:{port}"));
    sandbox.set("startup.wait_ms", 60_000);
    let observed = Observed::start(&mut sandbox).await;
    sandbox.set("redis.url", direct);
    assert_eq!(observed.becomes_unready("worker", SOON).await, "starting");
    let database = async || match observed.readiness().await.1["parts"]["database"]["ready"].as_bool() {
        Some(true) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("the database is told to be there", SOON, database).await;
    assert_eq!(observed.becomes_unready("redis", SOON).await, "not connected yet");
    let ended = stop(observed.worker).await;
    assert!(!ended.contains("panicked"), "{ended}");
}

async fn stop(mut worker: WorkerProcess) -> String {
    worker.kill();
    worker.printed()
}
