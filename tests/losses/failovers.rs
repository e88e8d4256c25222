//! A replica that was made to lag takes over.

use super::relay::Relay;
use super::rush::{Rush, SKUS};
use crate::support::{RedisServer, SOON, eventually};

/// A master, and a replica that hears of it through a relay.
struct Pair {
    master: RedisServer,
    replica: RedisServer,
    link: Relay,
}

impl Pair {
    async fn start() -> Self {
        let master = RedisServer::start(&["--repl-diskless-sync-delay", "0"]);
        let link = Relay::to(master.port()).await;
        let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &link.port().to_string()]);
        eventually("the replica follows", SOON, async || {
            let info: String = replica.command(&["INFO", "replication"]).await;
            if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
        })
        .await;
        Self { master, replica, link }
    }

    /// From here on the replica knows nothing new.
    fn lag(&self) {
        self.link.cut();
    }

    /// The replica takes over, with counters that exist and are behind.
    async fn promote(&self, rush: &Rush) {
        let prefix = rush.sandbox.get("redis.key_prefix");
        // Its SKU needs no escape in a key.
        let key = format!("{prefix}:{{{}}}:fence", SKUS[0]);
        let sequence = ["HGET", &key, "sequence"];
        let (newer, older) =
            (self.master.command::<u64>(&sequence).await, self.replica.command::<u64>(&sequence).await);
        assert!(older < newer, "the replica lags: {older}, the master is at {newer}");
        self.replica.command::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_to_a_lagging_replica() {
    let mut pair = Pair::start().await;
    let address = Relay::to(pair.master.port()).await;
    let mut rush = Rush::on(&format!("redis://127.0.0.1:{}", address.port())).await;
    rush.begin(3).await;
    rush.tenths(2).await;
    pair.lag();
    rush.tenths(4).await;
    pair.promote(&rush).await;
    pair.master.kill();
    address.switch(pair.replica.port());
    rush.ends(1).await;
}

/// Two leases for one SKU at a time, and two counters: only the fence is left, and each side's workers go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_masters_at_once_with_workers_on_each() {
    let pair = Pair::start().await;
    let mut rush = Rush::on(&pair.master.url()).await;
    rush.begin(1).await;
    rush.tenths(1).await;
    pair.lag();
    rush.tenths(2).await;
    pair.promote(&rush).await;
    rush.sandbox.set("redis.url", pair.replica.url());
    rush.join(1).await;
    rush.tenths(4).await;
    let refusals = rush.ends(1).await;
    assert!(refusals > 0, "the two sides met at the fence");
}
