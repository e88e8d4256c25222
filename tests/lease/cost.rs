//! What a lease costs: measured by the server itself, printed with `--nocapture`.

use futures_util::future::join_all;
use lastunit::lease::Attempt;
use lastunit::order::Sku;

use crate::redis_server::RedisServer;
use crate::scene::{Scene, request, sku};

/// Leases and releases in one measurement.
const LEASES: usize = 2_000;
/// Callers of a busy server, each with SKUs of its own.
const CALLERS: usize = 32;
/// How often each size is measured; the median counts.
const MEASUREMENTS: usize = 9;
/// A lease and its release may cost this many times the bare commands that they consist of. Idle machines of 2026 take
/// 5 µs for those.
const MOST_TIMES_BARE: f64 = 5.0;
/// The commands of a lease and its release, without any rule.
const BARE: &str = "
for i = 1, #KEYS, 2 do
  redis.call('GET', KEYS[i])
  redis.call('HMGET', KEYS[i + 1], 'incarnation', 'epoch', 'sequence')
  redis.call('HSET', KEYS[i + 1], 'incarnation', ARGV[1], 'epoch', '1', 'sequence', '60210273443')
  redis.call('PEXPIRE', KEYS[i + 1], '86400000')
  redis.call('SET', KEYS[i], ARGV[1], 'PX', '5000')
  redis.call('GET', KEYS[i])
  redis.call('DEL', KEYS[i])
end";

/// A ratio of two measurements on one server, because a machine that does other things too makes both slower.
#[tokio::test]
async fn a_lease_and_its_release_cost_little_more_than_the_bare_commands() {
    let server = RedisServer::start(&[]);
    let scene = Scene::on(&server.url()).await;
    for (size, callers) in [(1_usize, 1), (1, CALLERS), (8, 1), (8, CALLERS), (64, 1), (1_000, 1)] {
        let skus: Vec<Vec<Sku>> =
            (0..callers).map(|caller| (0..size).map(|n| sku(&format!("COST-{caller}-{n}"))).collect()).collect();
        for sku in skus.iter().flatten() {
            scene.seed(sku, 1).await;
        }
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..MEASUREMENTS {
            ours.push(measure(&scene, &skus).await);
            bare.push(measure_bare(&scene, size.min(64)).await);
        }
        let (ours, bare) = (median(ours), median(bare));
        println!(
            "{size:>5} SKUs at once, {callers:>2} callers: {ours:.1} µs of Redis per SKU for lease and release, bare \
             commands {bare:.1} µs"
        );
        // A SKU that is leased alone bears the constant cost of a call alone.
        assert!(size < 64 || ours < MOST_TIMES_BARE * bare, "{ours:.1} µs at {size} SKUs, {bare:.1} µs bare");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds for one SKU's bare commands.
async fn measure_bare(scene: &Scene, size: usize) -> f64 {
    let keys: Vec<String> = (0..size).flat_map(|n| [format!("bare:{n}:lease"), format!("bare:{n}:fence")]).collect();
    let (count, value) = (keys.len().to_string(), "v".repeat(120));
    let mut words = vec!["EVAL", BARE, &count];
    words.extend(keys.iter().map(String::as_str));
    words.push(&value);
    let _reset: String = scene.run(&["CONFIG", "RESETSTAT"]).await;
    let rounds = LEASES / size;
    for _ in 0..rounds {
        let _nothing: Option<String> = scene.run(&words).await;
    }
    micros(scene, "eval").await / (rounds * size) as f64
}

/// Microseconds for one SKU, for callers side by side, each with SKUs of its own.
async fn measure(scene: &Scene, skus: &[Vec<Sku>]) -> f64 {
    let callers: Vec<(Vec<_>, &[Sku])> =
        skus.iter().map(|skus| (skus.iter().map(request).collect(), skus.as_slice())).collect();
    let total: usize = skus.iter().map(Vec::len).sum();
    let _reset: String = scene.run(&["CONFIG", "RESETSTAT"]).await;
    let rounds = LEASES.div_ceil(total);
    for _ in 0..rounds {
        join_all(callers.iter().map(|(requests, skus)| round(scene, requests, skus))).await;
    }
    micros(scene, "evalsha").await / (rounds * total) as f64
}

async fn round(scene: &Scene, requests: &[lastunit::lease::Request], skus: &[Sku]) {
    let attempt = Attempt::new();
    scene.leases.acquire(attempt, requests).await.expect("answers");
    scene.leases.release(attempt, skus).await.expect("released");
}

/// Microseconds that the server spent in a command since the last reset.
async fn micros(scene: &Scene, command: &str) -> f64 {
    let stats: String = scene.run(&["INFO", "commandstats"]).await;
    let line =
        stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:"))).expect("scripts were called");
    let (_, after) = line.split_once("usec=").expect("a time");
    after.split(',').next().and_then(|usec| usec.parse().ok()).expect("a number")
}
