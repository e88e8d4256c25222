//! Cluster, Sentinel and TLS, on servers of the test's own.

use std::time::{Duration, Instant};

use lastunit::fence::Epoch;
use lastunit::lease::{Attempt, Cause, Error, Incarnation, Leases, Reply, Request, Seed};
use lastunit::order::Sku;

use crate::certificates::Certificates;
use crate::redis_cluster::{RedisCluster, redis_cli};
use crate::redis_server::{RedisServer, free_port};
use crate::scene::{assert_granted, assert_held, connect, granted, incarnation, request, sku};
use crate::wait::{eventually, until};

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn on_a_cluster_every_sku_is_recovered_leased_listed_and_released_on_its_own_master() {
    let cluster = RedisCluster::start();
    let leases = connect(&cluster.url(""), "t", &[]).await.expect("leases");
    let skus: Vec<Sku> = (0..2_000).map(|n| sku(&format!("{{X}} {n}"))).collect();
    let requests: Vec<_> = skus.iter().map(request).collect();
    let (first, second) = (Attempt::new(), Attempt::new());
    let replies = leases.acquire(first, &requests).await.expect("answers");
    leases.seed(&seeds(&skus, &replies)).await.expect("seeded");
    cluster.for_each_master(&["SCRIPT", "FLUSH"]);
    let replies = leases.acquire(first, &requests).await.expect("answers");
    replies.iter().for_each(assert_granted);
    leases.acquire(second, &requests).await.expect("answers").iter().for_each(assert_held);
    let holdings = leases.list().await.expect("a list");
    assert_eq!(holdings.len(), skus.len());
    assert!(holdings.iter().all(|holding| holding.is_current));
    assert!(cluster.masters.iter().all(|master| redis_cli(master.port(), &["DBSIZE"]).trim() != "0"));
    leases.release(first, &skus).await.expect("released");
    assert_eq!(leases.list().await.expect("a list"), []);
}

#[tokio::test]
async fn a_slot_that_moved_is_unavailable_once_and_nothing_is_sent_behind_our_back() {
    let cluster = RedisCluster::start();
    let leases = connect(&cluster.url(""), "t", &[]).await.expect("leases");
    let sku = sku("X");
    let seed = Seed { sku: sku.clone(), incarnation: incarnation(&leases).await, epoch: Epoch::new(1).expect("epoch") };
    let slot = redis_cli(cluster.masters[0].port(), &["CLUSTER", "KEYSLOT", "t:{X}:fence"]).trim().to_owned();
    let owner = cluster.owner(&slot);
    let target = (owner + 1) % cluster.masters.len();
    let target_id = redis_cli(cluster.masters[target].port(), &["CLUSTER", "MYID"]).trim().to_owned();
    // The new owner first, or it would learn from the old one that the slot is taken.
    for index in [target, owner, (owner + 2) % cluster.masters.len()] {
        redis_cli(cluster.masters[index].port(), &["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]);
    }
    cluster.for_each_master(&["CONFIG", "RESETSTAT"]);
    let moved = leases.seed(&[seed]).await;
    assert!(matches!(moved, Err(Error::Unavailable(_))), "{moved:?}");
    let evaluated: Vec<_> = cluster.masters.iter().map(|master| calls(master.port(), "eval")).collect();
    assert_eq!(evaluated.iter().sum::<u64>(), 0, "a seed that was redirected is not sent on: {evaluated:?}");
    let reply = answer(&leases, &sku).await;
    assert!(matches!(reply, Reply::Unknown { cause: Cause::Missing, .. }), "{reply:?}");
}

#[tokio::test]
async fn a_cluster_that_lost_a_master_is_unavailable_for_its_skus_and_works_for_the_others() {
    let mut cluster = RedisCluster::start();
    let leases = connect(&cluster.url(""), "t", &[]).await.expect("leases");
    let skus: Vec<Sku> = (0..30).map(|n| sku(&format!("S{n}"))).collect();
    cluster.masters[2].kill();
    let (mut answered, mut unavailable) = (0, 0);
    for sku in &skus {
        match leases.acquire(Attempt::new(), &[request(sku)]).await {
            Ok(_) => answered += 1,
            Err(Error::Unavailable(_)) => unavailable += 1,
            Err(Error::Failed(text)) => panic!("{text}"),
        }
    }
    assert!(answered > 0 && unavailable > 0, "{answered} answered, {unavailable} unavailable");
    cluster.masters[2].resume();
    for sku in &skus {
        answer(&leases, sku).await;
    }
}

#[tokio::test]
async fn after_a_fail_over_the_sentinels_are_asked_for_the_new_master() {
    let mut master = RedisServer::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let sentinel = RedisServer::start_sentinel(&format!(
        "sentinel monitor shop 127.0.0.1 {} 1\nsentinel down-after-milliseconds shop 500\nsentinel failover-timeout shop 5000\n",
        master.port()
    ));
    until("the sentinel knows the replica", DEADLINE, || {
        redis_cli(sentinel.port(), &["SENTINEL", "REPLICAS", "shop"]).contains(&replica.port().to_string())
    });
    let url = format!("redis+sentinel://127.0.0.1:{}/shop", sentinel.port());
    let leases = connect(&url, "t", &[]).await.expect("leases");
    let sku = sku("X");
    let replies = leases.acquire(Attempt::new(), &[request(&sku)]).await.expect("an answer");
    leases.seed(&seeds(std::slice::from_ref(&sku), &replies)).await.expect("seeded");
    let old = granted(&leases.acquire(Attempt::new(), &[request(&sku)]).await.expect("an answer")[0]);
    until("the replica has it", DEADLINE, || !redis_cli(replica.port(), &["GET", "t:{X}:lease"]).trim().is_empty());
    let before = incarnation(&leases).await;
    master.kill();
    let Reply::Unknown { incarnation, cause: Cause::Incarnation } = answer(&leases, &sku).await else {
        panic!("the new master is another incarnation, and its copied lease is void");
    };
    assert_ne!(incarnation, before);
    leases.seed(&[Seed { sku: sku.clone(), incarnation, epoch: Epoch::new(2).expect("epoch") }]).await.expect("seeded");
    assert!(old < granted(&leases.acquire(Attempt::new(), &[request(&sku)]).await.expect("an answer")[0]));
}

#[tokio::test]
async fn a_master_that_was_demoted_leads_to_the_new_one() {
    let master = RedisServer::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let sentinel = RedisServer::start_sentinel(&format!("sentinel monitor shop 127.0.0.1 {} 1\n", master.port()));
    until("the sentinel knows the replica", DEADLINE, || {
        redis_cli(sentinel.port(), &["SENTINEL", "REPLICAS", "shop"]).contains(&replica.port().to_string())
    });
    let url = format!("redis+sentinel://127.0.0.1:{}/shop", sentinel.port());
    let leases = connect(&url, "t", &[]).await.expect("leases");
    let before = incarnation(&leases).await;
    until("the replica is ready to take over", DEADLINE, || {
        redis_cli(sentinel.port(), &["SENTINEL", "FAILOVER", "shop"]).starts_with("OK")
    });
    until("the old master is demoted", DEADLINE, || redis_cli(master.port(), &["ROLE"]).starts_with("slave"));
    let sku = sku("X");
    // The connection to the old master stays open: only a refused write shows that it is none any more.
    let deadline = Instant::now() + DEADLINE;
    while !is_seeded_elsewhere(&leases, &sku, &before).await {
        assert!(Instant::now() < deadline, "still on the old master");
    }
    granted(&leases.acquire(Attempt::new(), &[request(&sku)]).await.expect("an answer")[0]);
}

#[tokio::test]
async fn tls_needs_the_right_authority_and_the_client_certificate() {
    let certificates = Certificates::make();
    let file = |name: &str| certificates.path(name);
    let tls_port = free_port();
    let arguments = format!(
        "--tls-port {tls_port} --tls-cert-file {} --tls-key-file {} --tls-ca-cert-file {}",
        file("server.crt"),
        file("server.key"),
        file("ca.crt")
    );
    let _server = RedisServer::start(&arguments.split(' ').collect::<Vec<_>>());
    let url = format!("rediss://localhost:{tls_port}");
    let (ca, certificate, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
    let ours = [("redis.tls_ca", &*ca), ("redis.tls_client_cert", &*certificate), ("redis.tls_client_key", &*key)];
    let leases = connect(&url, "t", &ours).await.expect("leases over TLS");
    assert!(!incarnation(&leases).await.0.is_empty());
    let stranger = connect(&url, "t", &[]).await.map(drop);
    assert!(matches!(&stranger, Err(Error::Failed(text)) if text.contains("redis.tls_ca")), "{stranger:?}");
    let nameless = connect(&url, "t", &ours[..1]).await.map(drop);
    assert!(nameless.is_err(), "{nameless:?}");
}

fn seeds(skus: &[Sku], replies: &[Reply]) -> Vec<Seed> {
    let seed = |(sku, reply): (&Sku, &Reply)| match reply {
        Reply::Unknown { incarnation, cause: Cause::Missing } => {
            Seed { sku: sku.clone(), incarnation: incarnation.clone(), epoch: Epoch::new(1).expect("epoch") }
        }
        other => panic!("{sku} is {other:?}"),
    };
    skus.iter().zip(replies).map(seed).collect()
}

/// Seeds the SKU wherever it is asked for; true when that is another incarnation than `before`.
async fn is_seeded_elsewhere(leases: &Leases, sku: &Sku, before: &Incarnation) -> bool {
    let Ok(replies) = leases.acquire(Attempt::new(), &[request(sku)]).await else { return false };
    let [Reply::Unknown { incarnation, .. }] = &replies[..] else { panic!("a SKU never seen is {replies:?}") };
    let seed = Seed { sku: sku.clone(), incarnation: incarnation.clone(), epoch: Epoch::new(1).expect("epoch") };
    match leases.seed(&[seed]).await {
        Ok(()) => incarnation != before,
        Err(Error::Unavailable(_)) => false,
        Err(Error::Failed(text)) => panic!("{text}"),
    }
}

/// Asks until the servers answer again.
async fn answer(leases: &Leases, sku: &Sku) -> Reply {
    eventually("the servers answer again", DEADLINE, async || {
        let asked = Request { floor: Epoch::new(1).expect("epoch").floor(), ..request(sku) };
        match leases.acquire(Attempt::new(), &[asked]).await {
            Ok(mut replies) => Ok(replies.remove(0)),
            Err(Error::Unavailable(text)) => Err(text),
            Err(Error::Failed(text)) => panic!("{text}"),
        }
    })
    .await
}

/// How often a command was run to its end.
fn calls(port: u16, name: &str) -> u64 {
    let stats = redis_cli(port, &["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls="))).unwrap_or("0,");
    line.split(',').next().expect("a number").parse().expect("a number")
}
