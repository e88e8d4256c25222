//! A Redis Cluster of a test's own: three masters, no replicas.

// Each test program uses the part that it needs.
#![allow(dead_code)]

use std::process::Command;
use std::time::Duration;

use super::redis_server::RedisServer;
use super::wait::until;

const DEADLINE: Duration = Duration::from_secs(60);

/// See the module.
pub struct RedisCluster {
    pub masters: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts the masters and waits until each sees all slots served.
    pub fn start() -> Self {
        let arguments =
            ["--cluster-enabled", "yes", "--cluster-node-timeout", "60000", "--cluster-require-full-coverage", "no"];
        let masters: Vec<_> = (0..3).map(|_| RedisServer::start(&arguments)).collect();
        let addresses = masters.iter().map(|master| format!("127.0.0.1:{}", master.port()));
        let created =
            Command::new("redis-cli").args(["--cluster", "create"]).args(addresses).arg("--cluster-yes").output();
        assert!(created.expect("redis-cli").status.success());
        let cluster = Self { masters };
        until("all masters see all slots", DEADLINE, || {
            cluster.masters.iter().all(|master| {
                let info = redis_cli(master.port(), &["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            })
        });
        cluster
    }

    /// `redis+cluster://LOGIN127.0.0.1:PORT,…`, with nothing or `USER:PASSWORD@` for the login.
    pub fn url(&self, login: &str) -> String {
        let nodes: Vec<_> = self.masters.iter().map(|master| format!("127.0.0.1:{}", master.port())).collect();
        format!("redis+cluster://{login}{}", nodes.join(","))
    }

    /// Sends a command to each master.
    pub fn for_each_master(&self, words: &[&str]) {
        for master in &self.masters {
            redis_cli(master.port(), words);
        }
    }

    /// Which master serves a slot.
    pub fn owner(&self, slot: &str) -> usize {
        let slot: u32 = slot.parse().expect("a slot");
        let owns = |master: &RedisServer| {
            let nodes = redis_cli(master.port(), &["CLUSTER", "NODES"]);
            let own = nodes.lines().find(|line| line.contains("myself")).expect("its own line");
            own.split(' ')
                .skip(8)
                .filter_map(|range| range.split_once('-'))
                .any(|(low, high)| (low.parse().expect("low")..=high.parse().expect("high")).contains(&slot))
        };
        self.masters.iter().position(owns).expect("an owner")
    }
}

/// Sends a command and returns what was printed.
pub fn redis_cli(port: u16, words: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words).output().expect("redis-cli");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
