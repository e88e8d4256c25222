//! What happens when the server forgets, restarts, refuses or hangs: each on a server of the test's own.

use std::time::Duration;

use lastunit::lease::{Attempt, Cause, Error};

use crate::redis_server::RedisServer;
use crate::scene::{Scene, assert_unknown, connect, granted, incarnation, request, sku};
use crate::wait::{equal, eventually};

const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_flushed_server_knows_nothing_and_takes_the_next_epoch() {
    let server = RedisServer::start(&[]);
    let scene = Scene::on(&server.url()).await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let old = scene.take(Attempt::new(), &sku).await;
    let _flushed: String = scene.run(&["FLUSHALL"]).await;
    assert_unknown(&scene.ask(Attempt::new(), request(&sku)).await, Cause::Missing);
    scene.seed(&sku, 2).await;
    assert!(old < scene.take(Attempt::new(), &sku).await);
}

#[tokio::test]
async fn a_restarted_server_is_another_incarnation_even_with_all_its_keys() {
    let mut server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let scene = Scene::on(&server.url()).await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let old = scene.take(Attempt::new(), &sku).await;
    let before = incarnation(&scene.leases).await;
    server.resume();
    assert!(matches!(scene.leases.acquire(Attempt::new(), &[request(&sku)]).await, Err(Error::Unavailable(_))));
    assert_unknown(&scene.ask(Attempt::new(), request(&sku)).await, Cause::Incarnation);
    assert_ne!(incarnation(&scene.leases).await, before);
    scene.seed(&sku, 2).await;
    assert!(old < scene.take(Attempt::new(), &sku).await);
}

#[tokio::test]
async fn a_promoted_replica_that_lagged_is_noticed_although_its_counter_exists() {
    let master = RedisServer::start(&["--repl-diskless-sync-delay", "0"]);
    let port = master.port().to_string();
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &port]);
    let scene = Scene::on(&master.url()).await;
    // A master takes a new replication id with its first replica: a new incarnation, which is not what this is about.
    eventually("the replica is attached", DEADLINE, async || {
        let replication: String = scene.run(&["INFO", "replication"]).await;
        if replication.contains("state=online") { Ok(()) } else { Err(replication) }
    })
    .await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let attempt = Attempt::new();
    scene.take(attempt, &sku).await;
    let mut on_replica =
        redis::Client::open(replica.url()).and_then(|client| client.get_connection()).expect("a replica");
    eventually("the replica has caught up", DEADLINE, async || {
        equal(redis::cmd("EXISTS").arg(scene.lease_key(&sku)).query::<u64>(&mut on_replica), Ok(1))
    })
    .await;
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(&mut on_replica).expect("promoted");
    // The old master goes on meanwhile: what it hands out now the new one does not know.
    scene.leases.release(attempt, std::slice::from_ref(&sku)).await.expect("released");
    scene.take(Attempt::new(), &sku).await;
    let promoted = connect(&replica.url(), &scene.prefix, &[]).await.expect("the new master answers");
    let replies = promoted.acquire(Attempt::new(), &[request(&sku)]).await.expect("an answer");
    assert_unknown(&replies[0], Cause::Incarnation);
}

#[tokio::test]
async fn a_write_to_a_replica_is_unavailable_not_failed() {
    let master = RedisServer::start(&[]);
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let scene = Scene::on(&master.url()).await;
    let on_replica = connect(&replica.url(), &scene.prefix, &[]).await.expect("a replica answers");
    let sku = sku("X");
    let here = incarnation(&on_replica).await;
    let seed = lastunit::lease::Seed { sku, incarnation: here, epoch: lastunit::fence::Epoch::new(1).expect("epoch") };
    let refused = on_replica.seed(&[seed]).await;
    assert!(matches!(&refused, Err(Error::Unavailable(text)) if text.contains("ReadOnly")), "{refused:?}");
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = RedisServer::start(&[]);
    let scene = Scene::on(&server.url()).await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let attempt = Attempt::new();
    for _ in 0..2 {
        let _flushed: String = scene.run(&["SCRIPT", "FLUSH"]).await;
        let token = scene.take(attempt, &sku).await;
        let _flushed: String = scene.run(&["SCRIPT", "FLUSH"]).await;
        scene.leases.release(attempt, std::slice::from_ref(&sku)).await.expect("released");
        let _flushed: String = scene.run(&["SCRIPT", "FLUSH"]).await;
        scene.seed(&sku, u64::from(token.epoch().get()) + 1).await;
    }
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_unavailable_and_the_next_one_works() {
    let server = RedisServer::start(&[]);
    let scene = Scene::on(&server.url()).await;
    let hasty = connect(&server.url(), &scene.prefix, &[("redis.command_timeout_ms", "200")]).await.expect("leases");
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let attempt = Attempt::new();
    let _paused: String = scene.run(&["CLIENT", "PAUSE", "1000", "ALL"]).await;
    let late = hasty.acquire(attempt, &[request(&sku)]).await;
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
    // Unpausing would wait like any other command; this one does until the pause is over.
    let _pong: String = scene.run(&["PING"]).await;
    let token = granted(&hasty.acquire(attempt, &[request(&sku)]).await.expect("an answer")[0]);
    // The first request may have been run after all: it is the same attempt, so it is the same token.
    assert_eq!(scene.take(attempt, &sku).await, token);
}

#[tokio::test]
async fn a_full_server_is_unavailable() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let scene = Scene::on(&server.url()).await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let _set: String = scene.run(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = scene.leases.acquire(Attempt::new(), &[request(&sku)]).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn an_absent_server_is_unavailable_and_its_password_is_not_told() {
    let mut server = RedisServer::start(&[]);
    server.kill();
    let url = format!("redis://user:secret@127.0.0.1:{}", server.port());
    let Err(Error::Unavailable(text)) = connect(&url, "t", &[]).await.map(drop) else { panic!("unavailable") };
    assert!(text.contains("user:***@127.0.0.1") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn refused_credentials_and_missing_rights_say_what_to_do() {
    let acl = "--requirepass secret --user worker on >secret ~* +@read +@write +@scripting";
    let server = RedisServer::start(&acl.split(' ').collect::<Vec<_>>());
    let port = server.port();
    for (login, remedy) in
        [("", "redis.url"), (":wrong@", "redis.url"), ("worker:wrong@", "redis.url"), ("worker:secret@", "grant +info")]
    {
        let failed = connect(&format!("redis://{login}127.0.0.1:{port}"), "t", &[]).await.map(drop);
        assert!(matches!(&failed, Err(Error::Failed(text)) if text.contains(remedy)), "{login} {failed:?}");
    }
    connect(&format!("redis://:secret@127.0.0.1:{port}"), "t", &[]).await.expect("the right password");
}

#[tokio::test]
async fn the_rights_that_the_error_names_are_enough() {
    let acl = "--user worker on >secret ~lastunit:* \
               +eval +evalsha +info +time +get +mget +set +del +pttl +pexpire +hmget +hset +scan";
    let server = RedisServer::start(&acl.split(' ').collect::<Vec<_>>());
    let url = format!("redis://worker:secret@127.0.0.1:{}", server.port());
    let leases = connect(&url, "lastunit", &[]).await.expect("enough to connect");
    let sku = sku("X");
    let seed = lastunit::lease::Seed {
        sku: sku.clone(),
        incarnation: incarnation(&leases).await,
        epoch: lastunit::fence::Epoch::new(1).expect("epoch"),
    };
    leases.seed(&[seed]).await.expect("enough to seed");
    let attempt = Attempt::new();
    granted(&leases.acquire(attempt, &[request(&sku)]).await.expect("enough to acquire")[0]);
    assert_eq!(leases.list().await.expect("enough to list").len(), 1);
    leases.release(attempt, &[sku]).await.expect("enough to release");
}

#[tokio::test]
async fn keys_of_another_type_are_no_counters_and_stand_in_nobodys_way() {
    let server = RedisServer::start(&[]);
    let scene = Scene::on(&server.url()).await;
    let (broken, healthy) = (sku("P"), sku("Q"));
    for key in [scene.lease_key(&broken), scene.fence_key(&broken)] {
        let _length: u64 = scene.run(&["RPUSH", &key, "garbage"]).await;
    }
    scene.seed(&healthy, 1).await;
    let requests = [request(&broken), request(&healthy)];
    let replies = scene.leases.acquire(Attempt::new(), &requests).await.expect("an answer");
    assert_unknown(&replies[0], Cause::Missing);
    granted(&replies[1]);
    scene.seed(&broken, 1).await;
    let attempt = Attempt::new();
    let replies = scene.leases.acquire(attempt, &requests[..1]).await.expect("an answer");
    granted(&replies[0]);
    scene.leases.release(attempt, std::slice::from_ref(&broken)).await.expect("released");
}
