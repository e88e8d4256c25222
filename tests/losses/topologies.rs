//! Redis Cluster and Sentinel: a master forgets, dies or hands over while orders race. The workers log in as a user with
//! no more rights than docs/OPERATIONS.md grants.

use super::rush::{Rush, SKUS};
use crate::support::grants::redis_acl;
use crate::support::redis_cluster::redis_cli;
use crate::support::wait::until;
use crate::support::{RedisCluster, RedisServer, SOON};

const LOGIN: &str = "lastunit_worker:t0p-s3cret@";

/// Ready but for the workers; they may do on these servers what the document says.
async fn rush_on(url: &str, servers: &[RedisServer]) -> Rush {
    let rush = Rush::on(url).await;
    servers.iter().for_each(|server| allow(server, &rush));
    rush
}

fn allow(server: &RedisServer, rush: &Rush) {
    let acl = redis_acl("lastunit_worker", "t0p-s3cret", rush.sandbox.get("redis.key_prefix"));
    let words: Vec<&str> = acl.iter().map(String::as_str).collect();
    assert_eq!(redis_cli(server.port(), &words).trim(), "OK", "{words:?}");
}

/// The master that serves the first SKU, and so some of the others.
fn busiest(cluster: &RedisCluster, rush: &Rush) -> usize {
    let key = format!("{}:{{{}}}:fence", rush.sandbox.get("redis.key_prefix"), SKUS[0]);
    cluster.owner(redis_cli(cluster.masters[0].port(), &["CLUSTER", "KEYSLOT", &key]).trim())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_masters_forgets_everything() {
    let cluster = RedisCluster::start();
    let mut rush = rush_on(&cluster.url(LOGIN), &cluster.masters).await;
    let busiest = busiest(&cluster, &rush);
    rush.begin(3).await;
    for tenths in [2, 4, 6] {
        rush.tenths(tenths).await;
        assert_ne!(redis_cli(cluster.masters[busiest].port(), &["DBSIZE"]).trim(), "0");
        assert_eq!(redis_cli(cluster.masters[busiest].port(), &["FLUSHALL"]).trim(), "OK");
    }
    // For the clean-up, which knows single servers.
    rush.sandbox.set("redis.url", cluster.masters[0].url());
    rush.ends(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_masters_dies_and_comes_back_with_nothing() {
    let mut cluster = RedisCluster::start();
    let mut rush = rush_on(&cluster.url(LOGIN), &cluster.masters).await;
    let busiest = busiest(&cluster, &rush);
    rush.begin(3).await;
    rush.tenths(3).await;
    cluster.masters[busiest].kill();
    rush.sandbox.set("redis.url", cluster.masters[busiest].url());
    cluster.masters[busiest].resume();
    // This one kept nothing, its users neither; until they are back it refuses the workers.
    allow(&cluster.masters[busiest], &rush);
    rush.ends(1).await;
}

/// A master, its replica, and the Sentinel that watches them.
struct Watched {
    master: RedisServer,
    replica: RedisServer,
    sentinel: RedisServer,
}

impl Watched {
    fn start() -> Self {
        let master = RedisServer::start(&["--repl-diskless-sync-delay", "0"]);
        let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
        let sentinel = RedisServer::start_sentinel(&format!(
            "sentinel monitor shop 127.0.0.1 {} 1\nsentinel down-after-milliseconds shop 500\n\
             sentinel failover-timeout shop 5000\n",
            master.port()
        ));
        until("the sentinel knows the replica", SOON, || {
            redis_cli(sentinel.port(), &["SENTINEL", "REPLICAS", "shop"]).contains(&replica.port().to_string())
        });
        until("the replica follows", SOON, || {
            redis_cli(replica.port(), &["INFO", "replication"]).contains("master_link_status:up")
        });
        Self { master, replica, sentinel }
    }

    fn url(&self) -> String {
        format!("redis+sentinel://{LOGIN}127.0.0.1:{}/shop", self.sentinel.port())
    }

    async fn rush(&self) -> Rush {
        let rush = rush_on(&self.url(), std::slice::from_ref(&self.master)).await;
        allow(&self.replica, &rush);
        rush
    }

    fn expect_promoted(&self) {
        let role = redis_cli(self.replica.port(), &["ROLE"]);
        assert!(role.starts_with("master"), "{role}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_replaces_a_master_that_died() {
    let mut watched = Watched::start();
    let mut rush = watched.rush().await;
    rush.begin(3).await;
    rush.tenths(3).await;
    watched.master.kill();
    rush.sandbox.set("redis.url", watched.replica.url());
    rush.ends(1).await;
    watched.expect_promoted();
}

/// The old master lives on, as a replica: it answers, and refuses writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_moves_the_master_while_it_lives() {
    let watched = Watched::start();
    let mut rush = watched.rush().await;
    rush.begin(3).await;
    rush.tenths(3).await;
    // What has begun on the old master does not end there before the new one takes over.
    assert_eq!(redis_cli(watched.master.port(), &["CLIENT", "PAUSE", "30000", "WRITE"]).trim(), "OK");
    until("the replica is ready to take over", SOON, || {
        redis_cli(watched.sentinel.port(), &["SENTINEL", "FAILOVER", "shop"]).starts_with("OK")
    });
    rush.sandbox.set("redis.url", watched.replica.url());
    rush.ends(1).await;
    watched.expect_promoted();
}
