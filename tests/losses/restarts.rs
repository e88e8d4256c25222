//! The server dies, and comes back with less than it had.

use std::fs::{self, OpenOptions};

use super::rush::Rush;
use crate::support::RedisServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_with_nothing() {
    let mut server = RedisServer::start(&[]);
    let mut rush = Rush::on(&server.url()).await;
    rush.begin(3).await;
    for tenths in [2, 5] {
        rush.tenths(tenths).await;
        server.resume();
    }
    rush.ends(2).await;
}

/// The counters exist, and are too low.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_from_an_old_snapshot() {
    let mut server = RedisServer::start(&[]);
    let mut rush = Rush::on(&server.url()).await;
    rush.begin(3).await;
    rush.tenths(1).await;
    server.command::<()>(&["SAVE"]).await;
    for tenths in [3, 5] {
        rush.tenths(tenths).await;
        server.resume();
        assert!(server.command::<i64>(&["DBSIZE"]).await > 0, "the snapshot was loaded");
    }
    rush.ends(2).await;
}

/// What a crashed machine may leave of the log: its beginning, cut in the middle of a command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_from_a_log_without_its_tail() {
    let mut server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut rush = Rush::on(&server.url()).await;
    rush.begin(3).await;
    rush.tenths(4).await;
    server.kill();
    let folder = server.folder().join("appendonlydir");
    let files = fs::read_dir(folder).expect("the log's folder").map(|entry| entry.expect("a file").path());
    let log = files.into_iter().find(|path| path.to_string_lossy().ends_with(".incr.aof")).expect("the log");
    let length = fs::metadata(&log).expect("its length").len();
    let cut = length / 2 + 1;
    OpenOptions::new().write(true).open(&log).expect("the log").set_len(cut).expect("cut");
    server.resume();
    assert!(server.command::<i64>(&["DBSIZE"]).await > 0, "what is left of the log was loaded");
    rush.ends(1).await;
}
