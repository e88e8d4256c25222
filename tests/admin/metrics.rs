//! What is counted is what happened.

use std::collections::BTreeMap;

use crate::probe::Observed;
use crate::support::{Backend, SOON, Sandbox};

fn order(id: &str, sku: &str) -> String {
    format!(r#"{{"order_id":"{id}","sku":"{sku}","quantity":1}}"#)
}

/// The sum of all series of a name.
fn sum(samples: &BTreeMap<String, f64>, name: &str) -> f64 {
    samples.iter().filter(|(series, _)| series.split('{').next() == Some(name)).map(|(_, value)| value).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_is_counted_once_under_what_became_of_it() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.stock("X", 2).await;
    let listener = sandbox.rabbit.listen().await;
    let observed = Observed::ready(&mut sandbox).await;
    let orders = [order("A-1", "X"), order("A-2", "X"), order("A-3", "X"), order("A-4", "nobody's"), order("A-1", "X")];
    for (number, order) in orders.iter().enumerate() {
        sandbox.rabbit.send([order]).await;
        listener.wait_for(number + 1, SOON).await;
    }
    sandbox.rabbit.send(["not an order", r#"{"order_id":"A-1","sku":"Y","quantity":1}"#]).await;
    observed.sample_becomes("lastunit_dead_letters_total{reason=\"invalid.json\"}", 1.0).await;
    observed.sample_becomes("lastunit_dead_letters_total{reason=\"invalid.conflicting-duplicate\"}", 1.0).await;

    let samples = observed.samples().await;
    for (series, value) in [
        ("lastunit_messages_total", 7.0),
        ("lastunit_redeliveries_total", 0.0),
        ("lastunit_decisions_total{outcome=\"reserved\",reason=\"\"}", 2.0),
        ("lastunit_decisions_total{outcome=\"rejected\",reason=\"sold-out\"}", 1.0),
        ("lastunit_decisions_total{outcome=\"rejected\",reason=\"unknown-sku\"}", 1.0),
        ("lastunit_decisions_repeated_total", 1.0),
        ("lastunit_dead_letters_total{reason=\"lost-race.sold-out\"}", 1.0),
        ("lastunit_dead_letters_total{reason=\"invalid.unknown-sku\"}", 1.0),
        ("lastunit_retries_total", 0.0),
        ("lastunit_publish_failures_total", 0.0),
        ("lastunit_fence_recoveries_total{cause=\"missing\"}", 1.0),
        ("lastunit_fence_refusals_total", 0.0),
        ("lastunit_waiting_orders", 0.0),
        ("lastunit_batches_in_flight", 0.0),
        ("lastunit_ready", 1.0),
    ] {
        assert_eq!(samples.get(series), Some(&value), "{series}");
    }
    assert_eq!(sum(&samples, "lastunit_decisions_total"), 4.0);
    assert_eq!(sum(&samples, "lastunit_dead_letters_total"), 4.0);
    assert_eq!(sum(&samples, "lastunit_service_up"), 3.0);
    assert_eq!(sum(&samples, "lastunit_outages_total"), 0.0);
    assert_eq!(sum(&samples, "lastunit_build_info"), 1.0);
    assert_eq!(samples["lastunit_batch_orders_sum"], 6.0, "every order was in one batch");
    for stage in ["lease", "read", "commit", "publish"] {
        assert!(samples[&format!("lastunit_stage_seconds_count{{stage=\"{stage}\"}}")] >= 4.0, "{stage}");
    }
    sandbox.finish(vec![observed.worker]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_is_explained_to_operators() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    let observed = Observed::ready(&mut sandbox).await;
    let text = observed.get("/metrics").await.body;
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(names.len() > 15, "{names:?}");
    let explained = include_str!("../../docs/OPERATIONS.md");
    let missing: Vec<_> = names.iter().filter(|name| !explained.contains(&format!("`{name}"))).collect();
    assert!(missing.is_empty(), "docs/OPERATIONS.md says nothing about {missing:?}");
    sandbox.finish(vec![observed.worker]).await;
}

/// Two workers that want the same SKU all the time: each waits for the other's lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_another_workers_lease_is_measured() {
    let mut sandbox = Sandbox::ready(Backend::Postgres).await;
    sandbox.set("batch.max_orders", 5);
    sandbox.stock("X", 10_000).await;
    let (one, two) = (Observed::ready(&mut sandbox).await, Observed::ready(&mut sandbox).await);
    let listener = sandbox.rabbit.listen().await;
    sandbox.rabbit.send((0..2_000).map(|number| order(&format!("A-{number}"), "X"))).await;
    listener.wait_for(2_000, SOON).await;
    let (ones, twos) = (one.samples().await, two.samples().await);
    let both = |name: &str| sum(&ones, name) + sum(&twos, name);
    assert_eq!(both("lastunit_decisions_total"), 2_000.0);
    assert!(both("lastunit_lease_wait_seconds_count") > 0.0, "neither had to wait");
    assert!(both("lastunit_lease_wait_seconds_sum") > 0.0);
    sandbox.finish(vec![one.worker, two.worker]).await;
}
