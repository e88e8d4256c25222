//! What a lease costs: measured by the server itself, printed with `--nocapture`.

use lastunit::lease::Attempt;
use lastunit::order::Sku;

use crate::redis_server::RedisServer;
use crate::scene::{Scene, request, sku};

/// Leases and releases in one measurement.
const LEASES: usize = 2_000;
/// The best one counts: other programs on the machine can only add to it.
const MEASUREMENTS: usize = 15;
/// The most that the project allows itself, in Redis' time for one lease and its release.
const MOST_MICROS_PER_SKU: f64 = 25.0;

#[tokio::test]
async fn a_lease_and_its_release_take_less_than_25_microseconds_of_redis_per_sku() {
    let server = RedisServer::start(&[]);
    let scene = Scene::on(&server.url()).await;
    for size in [1_usize, 8, 64, 1_000] {
        let skus: Vec<Sku> = (0..size).map(|n| sku(&format!("COST-{n}"))).collect();
        for sku in &skus {
            scene.seed(sku, 1).await;
        }
        let mut micros = Vec::new();
        for _ in 0..MEASUREMENTS {
            micros.push(measure(&scene, &skus).await);
        }
        micros.sort_by(f64::total_cmp);
        let (best, median) = (micros[0], micros[MEASUREMENTS / 2]);
        println!(
            "{size:>5} SKUs at once: best {best:.1}, median {median:.1} µs of Redis per SKU for lease and release"
        );
        // A SKU that is leased alone bears the constant cost of a call alone.
        assert!(size == 1 || best < MOST_MICROS_PER_SKU, "{best:.1} µs at {size} SKUs");
    }
}

/// Microseconds for one SKU.
async fn measure(scene: &Scene, skus: &[Sku]) -> f64 {
    let requests: Vec<_> = skus.iter().map(request).collect();
    let _reset: String = scene.run(&["CONFIG", "RESETSTAT"]).await;
    let rounds = LEASES / skus.len();
    for _ in 0..rounds {
        round(scene, &requests, skus).await;
    }
    script_micros(scene).await / (rounds * skus.len()) as f64
}

async fn round(scene: &Scene, requests: &[lastunit::lease::Request], skus: &[Sku]) {
    let attempt = Attempt::new();
    scene.leases.acquire(attempt, requests).await.expect("answers");
    scene.leases.release(attempt, skus).await.expect("released");
}

/// Microseconds that the server spent in EVALSHA since the last reset.
async fn script_micros(scene: &Scene) -> f64 {
    let stats: String = scene.run(&["INFO", "commandstats"]).await;
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("scripts were called");
    let (_, after) = line.split_once("usec=").expect("a time");
    after.split(',').next().and_then(|usec| usec.parse().ok()).expect("a number")
}
