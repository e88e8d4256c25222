//! `Leases::list`: what `lastunit leases` shows.

use lastunit::lease::Attempt;

use crate::scene::{Scene, sku};

#[tokio::test]
async fn every_lease_under_the_prefix_is_listed_with_its_holder_and_token() {
    let scene = Scene::open().await;
    let mut expected = Vec::new();
    for text in ["B", "A", "é {x}:y"] {
        let sku = sku(text);
        scene.seed(&sku, 7).await;
        expected.push((sku.clone(), scene.take(Attempt::new(), &sku).await));
    }
    expected.sort();
    let holdings = scene.leases.list().await.expect("a list");
    let found: Vec<_> = holdings.iter().map(|holding| (holding.sku.clone(), holding.token)).collect();
    assert_eq!(found, expected);
    assert!(holdings.iter().all(|holding| holding.holder == "worker-1" && holding.is_current));
    assert!(holdings.iter().all(|holding| holding.remaining <= crate::scene::TTL));
}

#[tokio::test]
async fn a_lease_of_another_incarnation_is_listed_as_void_and_strangers_are_not_listed() {
    let scene = Scene::open().await;
    let sku = sku("X");
    let value = format!("{} pod-7 elsewhere 3 9", Attempt::new().0);
    let _set: String = scene.run(&["SET", &scene.lease_key(&sku), &value, "PX", "9000"]).await;
    let _set: String = scene.run(&["SET", &format!("{}:{{Y}}:lease", scene.prefix), "not ours"]).await;
    let holdings = scene.leases.list().await.expect("a list");
    assert_eq!(holdings.len(), 1);
    assert!(!holdings[0].is_current);
    assert_eq!((holdings[0].holder.as_str(), holdings[0].token.to_string().as_str()), ("pod-7", "3.9"));
}

#[tokio::test]
async fn an_idle_server_holds_nothing() {
    let scene = Scene::open().await;
    assert_eq!(scene.leases.list().await.expect("a list"), []);
}
