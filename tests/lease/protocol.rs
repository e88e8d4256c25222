//! Each rule of the protocol by its name, on the shared server.

use std::time::Duration;

use lastunit::fence::Epoch;
use lastunit::lease::{Attempt, Cause, Incarnation, Reply, Request, Seed};
use lastunit::order::Sku;

use crate::scene::{Scene, assert_granted, assert_held, assert_unknown, granted, incarnation, request, sku, token};

/// 2025-01-01T00:00:00Z.
const CLOCK_START_MS: u64 = 1_735_689_600_000;

#[tokio::test]
async fn a_sku_never_seen_is_unknown_until_it_is_seeded() {
    let scene = Scene::open().await;
    let sku = sku("X");
    let attempt = Attempt::new();
    assert_unknown(&scene.ask(attempt, request(&sku)).await, Cause::Missing);
    scene.seed(&sku, 1).await;
    let token = scene.take(attempt, &sku).await;
    assert_eq!(token.epoch(), Epoch::new(1).expect("epoch"));
    assert!(token.passes(Epoch::new(1).expect("epoch").floor()));
}

#[tokio::test]
async fn a_lease_keeps_others_out_and_each_next_token_is_higher() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let (first, second) = (Attempt::new(), Attempt::new());
    let low = scene.take(first, &sku).await;
    assert_held(&scene.ask(second, request(&sku)).await);
    scene.leases.release(first, std::slice::from_ref(&sku)).await.expect("released");
    assert!(low < scene.take(second, &sku).await);
}

#[tokio::test]
async fn the_reply_that_was_lost_is_given_again() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let attempt = Attempt::new();
    let token = scene.take(attempt, &sku).await;
    assert_eq!(scene.take(attempt, &sku).await, token);
}

#[tokio::test]
async fn an_attempt_whose_token_was_used_gets_another() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let attempt = Attempt::new();
    let used = scene.take(attempt, &sku).await;
    let next = granted(&scene.ask(attempt, Request { floor: used, ..request(&sku) }).await);
    assert!(used < next);
}

#[tokio::test]
async fn a_worker_continues_its_own_lease_with_a_new_token_and_nobody_elses() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let (first, second, stranger) = (Attempt::new(), Attempt::new(), Attempt::new());
    let low = scene.take(first, &sku).await;
    let after = |previous| Request { previous: Some(previous), ..request(&sku) };
    assert_held(&scene.ask(stranger, after(second)).await);
    assert!(low < granted(&scene.ask(second, after(first)).await));
    assert_held(&scene.ask(stranger, after(first)).await);
}

#[tokio::test]
async fn a_release_that_arrives_late_leaves_the_next_holder_alone() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let (late, owner, third) = (Attempt::new(), Attempt::new(), Attempt::new());
    scene.take(late, &sku).await;
    // The lease of the first ends by itself.
    let _deleted: u64 = scene.run(&["DEL", &scene.lease_key(&sku)]).await;
    scene.take(owner, &sku).await;
    scene.leases.release(late, std::slice::from_ref(&sku)).await.expect("nothing to release");
    assert_held(&scene.ask(third, request(&sku)).await);
    scene.leases.release(owner, std::slice::from_ref(&sku)).await.expect("released");
    scene.take(third, &sku).await;
}

#[tokio::test]
async fn a_lease_ends_by_itself_within_its_ttl() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    scene.take(Attempt::new(), &sku).await;
    let left: u64 = scene.run(&["PTTL", &scene.lease_key(&sku)]).await;
    assert!(left > 0 && Duration::from_millis(left) <= crate::scene::TTL, "{left}");
    let idle: u64 = scene.run(&["PTTL", &scene.fence_key(&sku)]).await;
    assert!(Duration::from_millis(idle) > Duration::from_secs(86_000), "{idle}");
}

#[tokio::test]
async fn a_counter_below_the_callers_floor_has_gone_backwards() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let seen = scene.take(Attempt::new(), &sku).await;
    let _deleted: u64 = scene.run(&["DEL", &scene.lease_key(&sku)]).await;
    let _set: u64 = scene.run(&["HSET", &scene.fence_key(&sku), "sequence", "1"]).await;
    assert_unknown(&scene.ask(Attempt::new(), Request { floor: seen, ..request(&sku) }).await, Cause::Behind);
}

#[tokio::test]
async fn a_counter_set_back_by_hand_does_not_give_a_token_twice_thanks_to_the_clock() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let attempt = Attempt::new();
    let first = scene.take(attempt, &sku).await;
    scene.leases.release(attempt, std::slice::from_ref(&sku)).await.expect("released");
    let _set: u64 = scene.run(&["HSET", &scene.fence_key(&sku), "sequence", "1"]).await;
    // Within the same millisecond it might: the clock only helps. So that millisecond is let pass.
    loop {
        let (seconds, micros): (u64, u64) = scene.run(&["TIME"]).await;
        if seconds * 1_000 + micros / 1_000 > first.sequence() + CLOCK_START_MS {
            break;
        }
    }
    assert!(first < scene.take(Attempt::new(), &sku).await);
}

#[tokio::test]
async fn the_counter_and_the_lease_of_another_incarnation_are_worth_nothing() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let owner = Attempt::new();
    scene.take(owner, &sku).await;
    let value: String = scene.run(&["GET", &scene.lease_key(&sku)]).await;
    let here = incarnation(&scene.leases).await.0;
    let _set: String =
        scene.run(&["SET", &scene.lease_key(&sku), &value.replace(&here, "elsewhere"), "PX", "9000"]).await;
    let next = scene.take(Attempt::new(), &sku).await;
    let _set: u64 = scene.run(&["HSET", &scene.fence_key(&sku), "incarnation", "elsewhere"]).await;
    let _deleted: u64 = scene.run(&["DEL", &scene.lease_key(&sku)]).await;
    assert_unknown(&scene.ask(Attempt::new(), request(&sku)).await, Cause::Incarnation);
    assert!(next.passes(token(1, 0)));
}

#[tokio::test]
async fn a_seed_of_an_earlier_or_the_same_epoch_changes_nothing() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 5).await;
    let attempt = Attempt::new();
    let given = scene.take(attempt, &sku).await;
    for epoch in [4, 5] {
        scene.seed(&sku, epoch).await;
        let next = granted(&scene.ask(attempt, Request { floor: given, ..request(&sku) }).await);
        assert!(given < next, "epoch {epoch}: {given} then {next}");
    }
    scene.seed(&sku, 6).await;
    let later = granted(&scene.ask(attempt, Request { floor: token(6, 0), ..request(&sku) }).await);
    assert_eq!(later.epoch(), Epoch::new(6).expect("epoch"));
}

#[tokio::test]
async fn a_seed_meant_for_another_incarnation_is_refused() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed_for(&sku, 1, Incarnation("elsewhere".into())).await;
    assert_unknown(&scene.ask(Attempt::new(), request(&sku)).await, Cause::Missing);
}

#[tokio::test]
async fn a_used_up_sequence_is_refused_with_the_skus_name() {
    let scene = Scene::open().await;
    let sku = sku("X");
    scene.seed(&sku, 1).await;
    let _set: u64 = scene.run(&["HSET", &scene.fence_key(&sku), "sequence", "1099511627775"]).await;
    let error = scene.leases.acquire(Attempt::new(), &[request(&sku)]).await.expect_err("used up");
    assert!(error.to_string().contains("\"X\""), "{error}");
}

#[tokio::test]
async fn skus_that_look_alike_or_like_keys_do_not_meet() {
    let scene = Scene::open().await;
    let hostile = [
        "85123A", "85123a", "85123A ", " 85123A", "}:lease", "{X}", "a:b", "a b", "%7B", "{", "é", "e\u{301}", "*",
        "?", "-", "X}:fence", "日本", "\"", "'", "\\",
    ];
    let skus: Vec<Sku> = hostile.iter().map(|text| sku(text)).collect();
    let here = incarnation(&scene.leases).await;
    let seeds: Vec<_> = (1..)
        .zip(&skus)
        .map(|(epoch, sku)| Seed {
            sku: sku.clone(),
            incarnation: here.clone(),
            epoch: Epoch::new(epoch).expect("epoch"),
        })
        .collect();
    scene.leases.seed(&seeds).await.expect("seeded");
    let requests: Vec<_> = skus.iter().map(request).collect();
    let replies = scene.leases.acquire(Attempt::new(), &requests).await.expect("answers");
    for (seed, reply) in seeds.iter().zip(&replies) {
        assert_eq!(granted(reply).epoch(), seed.epoch, "{:?}", seed.sku);
    }
}

#[tokio::test]
async fn ten_thousand_skus_are_recovered_leased_and_released_at_once() {
    let scene = Scene::open().await;
    let skus: Vec<Sku> = (0..10_000).map(|n| sku(&format!("SKU-{n}"))).collect();
    let requests: Vec<_> = skus.iter().map(request).collect();
    let (first, second) = (Attempt::new(), Attempt::new());
    let replies = scene.leases.acquire(first, &requests).await.expect("answers");
    let seed = |(sku, reply): (&Sku, &Reply)| match reply {
        Reply::Unknown { incarnation, cause: Cause::Missing } => {
            Seed { sku: sku.clone(), incarnation: incarnation.clone(), epoch: Epoch::new(1).expect("epoch") }
        }
        other => panic!("{sku} is {other:?}"),
    };
    let seeds: Vec<_> = skus.iter().zip(&replies).map(seed).collect();
    scene.leases.seed(&seeds).await.expect("seeded");
    let replies = scene.leases.acquire(first, &requests).await.expect("answers");
    replies.iter().for_each(assert_granted);
    let replies = scene.leases.acquire(second, &requests).await.expect("answers");
    replies.iter().for_each(assert_held);
    scene.leases.release(first, &skus).await.expect("released");
    let replies = scene.leases.acquire(second, &requests).await.expect("answers");
    replies.iter().for_each(assert_granted);
}

#[tokio::test]
async fn nothing_asked_is_nothing_answered() {
    let scene = Scene::open().await;
    assert_eq!(scene.leases.acquire(Attempt::new(), &[]).await.expect("an answer"), []);
    scene.leases.seed(&[]).await.expect("nothing to seed");
    scene.leases.release(Attempt::new(), &[]).await.expect("nothing to release");
}
