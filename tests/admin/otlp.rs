//! Traces by OTLP: what is sent, and that an endpoint that fails hurts nobody.

use std::collections::{BTreeMap, BTreeSet};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::collector::{Collector, Manner, number, text};
use crate::support::rabbit::Listener;
use crate::support::redis_server::free_port;
use crate::support::wait::equal;
use crate::support::{Backend, SOON, Sandbox, WorkerProcess, eventually};

const ORDERS: usize = 40;
const SECRET: &str = "n0t-f0r-y0u";
const FAILS: &str = "traces cannot be sent";

/// A worker that consumes, with these variables in its environment.
async fn worker(sandbox: &Sandbox, variables: &[(&str, &str)]) -> WorkerProcess {
    let mut command = sandbox.command(&["worker"]);
    command.envs(variables.iter().copied()).env("NO_PROXY", "127.0.0.1");
    let worker = sandbox.start(command);
    eventually("the worker consumes", SOON, async || equal(sandbox.rabbit.consumers("orders").await, 1)).await;
    worker
}

fn trace_id(number: usize) -> String {
    format!("0af7651916cd43dd8448eb21{number:08x}")
}

/// An order with a trace of its own.
fn order(number: usize) -> (String, BasicProperties) {
    let mut headers = FieldTable::default();
    let parent = format!("00-{}-b7ad6b7169203331-01", trace_id(number));
    headers.insert("traceparent".into(), AMQPValue::LongString(parent.into()));
    let body = format!(r#"{{"order_id":"A-{number}","sku":"X","quantity":1}}"#);
    (body, BasicProperties::default().with_headers(headers))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_batch(span: &&Span) -> bool {
    span.kind == SpanKind::Consumer as i32
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_a_span_with_its_stages_and_links_to_the_traces_of_its_orders() {
    let collector = Collector::start(Manner::Takes).await;
    let sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.stock("X", 1_000).await;
    let listener = sandbox.rabbit.listen().await;
    let token = format!("x-token={SECRET}");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()),
        ("OTEL_EXPORTER_OTLP_HEADERS", token),
        // What comes, comes with the farewell.
        ("OTEL_BSP_SCHEDULE_DELAY", "600000".to_owned()),
    ];
    let worker = worker(&sandbox, &variables.each_ref().map(|(name, value)| (*name, value.as_str()))).await;
    sandbox.rabbit.publish((0..ORDERS).map(order)).await;
    sandbox.rabbit.send([r#"{"order_id":"untraced","sku":"X","quantity":1}"#, "no order"]).await;
    listener.wait_for(ORDERS + 1, SOON).await;
    let log = worker.printed();
    sandbox.finish(vec![worker]).await;
    assert!(log.contains("traces are sent") && !log.contains(SECRET), "{log}");

    let resources: Vec<_> = collector.taken().into_iter().flat_map(|request| request.resource_spans).collect();
    assert!(!resources.is_empty(), "spans are sent before the worker ends");
    for resource in resources {
        let said = resource.resource.expect("who sent it").attributes;
        assert_eq!(text(&said, "service.name").as_deref(), Some("lastunit"));
        assert_eq!(text(&said, "service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }
    assert!(collector.tokens().iter().all(|token| token == SECRET));

    let spans = collector.spans();
    let batches: Vec<&Span> = spans.iter().filter(is_batch).collect();
    let queue = sandbox.rabbit.name("orders");
    for batch in &batches {
        assert_eq!((batch.name.clone(), batch.parent_span_id.len()), (format!("process {queue}"), 0));
        let said = ["messaging.system", "messaging.operation.type", "messaging.destination.name"]
            .map(|key| text(&batch.attributes, key).unwrap_or_default());
        assert_eq!(said, ["rabbitmq", "process", &queue]);
    }
    // More than that where the broker has delivered some again.
    let sum = |key| batches.iter().filter_map(|batch| number(&batch.attributes, key)).sum::<i64>();
    assert!(sum("messaging.batch.message_count") >= ORDERS as i64 + 2);
    assert!(sum("lastunit.batch.settled") > ORDERS as i64);
    let links = batches.iter().flat_map(|batch| &batch.links).map(|link| hex(&link.trace_id));
    assert_eq!(links.collect::<BTreeSet<_>>(), (0..ORDERS).map(trace_id).collect());

    // Each stage stands within a batch, and inside of its time.
    let by_id: BTreeMap<&[u8], &Span> = batches.iter().map(|batch| (batch.span_id.as_slice(), *batch)).collect();
    let stages: Vec<&Span> = spans.iter().filter(|span| !is_batch(span)).collect();
    for stage in &stages {
        let batch = by_id.get(stage.parent_span_id.as_slice()).expect("its batch");
        assert_eq!(stage.trace_id, batch.trace_id);
        assert!(batch.start_time_unix_nano <= stage.start_time_unix_nano, "{stage:?}");
        assert!(stage.end_time_unix_nano <= batch.end_time_unix_nano, "{stage:?}");
    }
    let names: BTreeSet<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    assert!(names.is_superset(&["commit", "lease", "publish", "read"].into()), "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_linked_to_so_many_traces_and_no_more() {
    const MANY: usize = 300;
    let collector = Collector::start(Manner::Takes).await;
    let sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.stock("X", 1_000).await;
    let (listener, sql) = (sandbox.rabbit.listen().await, sandbox.sql().await);
    let worker = worker(&sandbox, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())]).await;
    // Its window is wide after that.
    decides(&sandbox, &listener, 0).await;
    // One that cannot be committed holds up all that want the same, until they go through together.
    let lock = sql.lock_row("X").await;
    sandbox.rabbit.publish((0..MANY).map(|number| order(1_000 + number))).await;
    eventually("all are with the worker", SOON, async || equal(sandbox.rabbit.count("orders").await, 0)).await;
    lock.rollback().await.expect("unlocked");
    listener.wait_for(ORDERS + MANY, SOON).await;
    sandbox.finish(vec![worker]).await;
    let spans = collector.spans();
    let count = |batch: &Span| number(&batch.attributes, "messaging.batch.message_count").expect("a count");
    let batches: Vec<&Span> = spans.iter().filter(is_batch).collect();
    assert!(batches.iter().any(|batch| count(batch) > 128), "one is large");
    for batch in batches {
        assert_eq!(batch.links.len() as i64, count(batch).min(128));
        assert_eq!(batch.dropped_links_count, 0);
    }
}

/// Sends orders and waits until they are decided.
async fn decides(sandbox: &Sandbox, listener: &Listener, round: usize) {
    sandbox.rabbit.publish((0..ORDERS).map(|number| order(round * 1_000 + number))).await;
    listener.wait_for((round + 1) * ORDERS, SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_fails_is_said_once_and_orders_are_decided_as_ever() {
    for manner in [Manner::Fails, Manner::Hangs] {
        let collector = Collector::start(manner).await;
        let sandbox = Sandbox::ready(Backend::Sqlite).await;
        sandbox.stock("X", 1_000_000).await;
        let listener = sandbox.rabbit.listen().await;
        let endpoint = format!("{}/v1/traces", collector.endpoint());
        let variables = [
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "200"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ];
        let worker = worker(&sandbox, &variables).await;
        let mut round = 0;
        while collector.requests() < 6 {
            decides(&sandbox, &listener, round).await;
            round += 1;
        }
        assert_eq!(worker.printed().matches(FAILS).count(), 1, "{manner:?}:\n{}", worker.printed());
        collector.set(Manner::Takes);
        eventually("traces are sent again", SOON, async || {
            decides(&sandbox, &listener, round).await;
            round += 1;
            equal(worker.printed().matches("traces are sent again").count(), 1)
        })
        .await;
        sandbox.finish(vec![worker]).await;
        sandbox.audit().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_not_there_or_is_none_hurts_nobody() {
    let nobody = format!("http://user:{SECRET}@127.0.0.1:{}/{SECRET}", free_port());
    for (endpoint, said) in [
        (nobody.as_str(), FAILS),
        ("collector:4318", "no traces are sent, because of OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: the address must begin"),
    ] {
        let sandbox = Sandbox::ready(Backend::Sqlite).await;
        sandbox.stock("X", 1_000).await;
        let listener = sandbox.rabbit.listen().await;
        let variables = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
        let worker = worker(&sandbox, &variables).await;
        decides(&sandbox, &listener, 0).await;
        eventually("that is said", SOON, async || equal(worker.printed().matches(said).count(), 1)).await;
        decides(&sandbox, &listener, 1).await;
        let log = worker.printed();
        assert!(log.matches(said).count() == 1 && !log.contains(SECRET), "{log}");
        sandbox.finish(vec![worker]).await;
    }
}

/// It would hang for ten minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_hangs_does_not_keep_a_worker_from_ending() {
    let collector = Collector::start(Manner::Hangs).await;
    let sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.stock("X", 1_000).await;
    let listener = sandbox.rabbit.listen().await;
    let endpoint = collector.endpoint();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "600000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let worker = worker(&sandbox, &variables).await;
    decides(&sandbox, &listener, 0).await;
    eventually("the endpoint is asked", SOON, async || equal(collector.requests(), 1)).await;
    decides(&sandbox, &listener, 1).await;
    let start = std::time::Instant::now();
    sandbox.finish(vec![worker]).await;
    assert!(start.elapsed() < SOON / 4, "{:?}", start.elapsed());
}
