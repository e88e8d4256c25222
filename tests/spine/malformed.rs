//! What is not an order lands in the dead letters, byte for byte, and disturbs nobody.

use std::collections::BTreeSet;

use lapin::BasicProperties;

use crate::on_each_backend;
use crate::support::{Backend, SOON, Sandbox, eventually};

const MAX_BYTES: usize = 4_096;
const MAX_LINES: usize = 40;
const LINE: &str = r#"{"sku":"X","quantity":1},"#;

on_each_backend!(malformed_messages_among_good_ones_are_told_apart);

/// The code with which a message must be refused, the message, and the order id of which it must leave no row.
struct Bad {
    code: &'static str,
    body: Vec<u8>,
    properties: BasicProperties,
}

fn bad(code: &'static str, body: impl Into<Vec<u8>>) -> Bad {
    Bad { code, body: body.into(), properties: BasicProperties::default() }
}

fn with(code: &'static str, body: &str, properties: BasicProperties) -> Bad {
    Bad { code, body: body.into(), properties }
}

/// Every kind, with a body of its own each so that the dead letters can be told apart.
fn every_kind() -> Vec<Bad> {
    let plain = BasicProperties::default;
    let deep = format!(r#"{{"order_id":"B","sku":"X","quantity":1,"x":{}{}}}"#, "[".repeat(500), "]".repeat(500));
    vec![
        bad("json", ""),
        bad("json", "hello"),
        bad("json", r#"{"order_id":"B","sku":"X","quantity":1"#),
        bad("json", r#"{"order_id":"B","sku":"X","quantity":1} and more"#),
        bad("json", deep),
        bad("json", "{\"order_id\":\"B\n\",\"sku\":\"X\",\"quantity\":1}"),
        bad("json", r#"{"order_id":"B\ud800","sku":"X","quantity":1}"#),
        bad("json", r#"{"order_id":"B","sku":"X","quantity":1,}"#),
        bad("json", r#"{"order_id":"B","sku":"X","quantity":NaN}"#),
        bad("encoding", *b"{\"order_id\":\"B\xff\",\"sku\":\"X\",\"quantity\":1}"),
        bad("encoding", *b"\xff\xfe{\0}\0"),
        bad("encoding", *b"{\"order_id\":\"B\",\"sku\":\"X\xc0\xaf\",\"quantity\":1}"),
        with("encoding", "not really zipped", plain().with_content_encoding("gzip".into())),
        with(
            "encoding",
            r#"{"order_id":"B4","sku":"X","quantity":1}"#,
            plain().with_content_encoding("deflate".into()),
        ),
        with("encoding", r#"{"order_id":"B5","sku":"X","quantity":1}"#, plain().with_content_encoding("latin1".into())),
        bad("too-large", format!(r#"{{"order_id":"B","sku":"X","quantity":1,"x":"{}"}}"#, "x".repeat(MAX_BYTES))),
        bad("order", "[]"),
        bad("order", r#"["B","X",1]"#),
        bad("order", r#"{"sku":"X","quantity":1}"#),
        bad("order", r#"{"order_id":17,"sku":"X","quantity":1}"#),
        bad("order", r#"{"order_id":"","sku":"X","quantity":1}"#),
        bad("order", r#"{"order_id":"B\u0000","sku":"X","quantity":1}"#),
        bad("order", r#"{"order_id":"B","order_id":"C","sku":"X","quantity":1}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":0}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":-1}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":1.0}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":"1"}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":99999999999999999999}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":1e0}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":1000001}"#),
        bad("order", r#"{"order_id":"B","lines":[{"sku":"X","quantity":600000},{"sku":"X","quantity":600000}]}"#),
        bad("order", r#"{"order_id":"B","sku":"X\u007f","quantity":1}"#),
        bad("order", r#"{"order_id":"B","sku":17,"quantity":1}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":1,"hold_seconds":-1}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":1,"hold_seconds":315360001}"#),
        bad("order", r#"{"order_id":"B","lines":[{"sku":"X","quantity":1,"quantity":2}]}"#),
        bad("order", r#"{"order_id":"B","lines":[]}"#),
        bad("order", r#"{"order_id":"B","lines":[["X",1]]}"#),
        bad("order", r#"{"order_id":"B","sku":"X","quantity":1,"lines":[{"sku":"X","quantity":1}]}"#),
        bad("order", format!(r#"{{"order_id":"{}","sku":"X","quantity":1}}"#, "B".repeat(256))),
        bad("order", format!(r#"{{"order_id":"B","sku":"{}","quantity":1}}"#, "é".repeat(128))),
        bad("order", format!(r#"{{"order_id":"B","lines":[{}{{"sku":"X","quantity":1}}]}}"#, LINE.repeat(MAX_LINES))),
        with("unsupported-type", r#"{"order_id":"B1"}"#, plain().with_type("confirm".into())),
        with("unsupported-type", r#"{"order_id":"B2"}"#, plain().with_type("release".into())),
        with("unsupported-type", r#"{"order_id":"B3","sku":"X","quantity":1}"#, plain().with_type("refund".into())),
    ]
}

async fn malformed_messages_among_good_ones_are_told_apart(backend: Backend) {
    let mut sandbox = Sandbox::ready(backend).await;
    sandbox.set("broker.max_message_bytes", MAX_BYTES);
    sandbox.set("order.max_lines", MAX_LINES);
    sandbox.stock("X", 1_000).await;
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(1).await;
    let bad = every_kind();
    let good: Vec<String> = (0..=bad.len()).map(|number| format!("A-{number:03}")).collect();
    let mut messages = Vec::new();
    for (number, order) in good.iter().enumerate() {
        let kind = BasicProperties::default().with_type("reserve-last-unit".into());
        messages.push((format!(r#"{{"order_id":"{order}","sku":"X","quantity":1}}"#).into_bytes(), kind));
        messages.extend(bad.get(number).map(|bad| (bad.body.clone(), bad.properties.clone())));
    }
    sandbox.rabbit.publish(messages).await;
    let events = listener.wait_for(good.len(), SOON).await;
    eventually("every malformed message is a dead letter", SOON, async || {
        let count = sandbox.rabbit.count("dead.invalid").await as usize;
        if count >= bad.len() { Ok(()) } else { Err(format!("{count} of {}", bad.len())) }
    })
    .await;
    sandbox.finish(workers).await;

    let letters = sandbox.rabbit.drain("dead.invalid").await;
    let found: BTreeSet<_> = letters.iter().map(|letter| (letter.routing_key.clone(), letter.body.clone())).collect();
    let wanted: BTreeSet<_> = bad.into_iter().map(|bad| (format!("invalid.{}", bad.code), bad.body)).collect();
    assert_eq!(found, wanted);
    assert_eq!(letters.len(), wanted.len(), "each once");
    for letter in &letters {
        assert_eq!(letter.header("lastunit-reason").as_ref(), Some(&letter.routing_key));
        let detail = letter.header("lastunit-detail").expect("a detail");
        serde_json::from_str::<serde_json::Value>(&detail).expect("a detail in JSON");
    }
    assert_eq!(events.len(), good.len());
    assert!(events.iter().all(|event| event.routing_key == "reservation.reserved"));
    assert_eq!(sandbox.sql().await.texts("order_id", "reservation").await, good, "a malformed message leaves no row");
    sandbox.audit().await;
}

on_each_backend!(an_unknown_sku_is_a_decision_with_its_row_and_event);

async fn an_unknown_sku_is_a_decision_with_its_row_and_event(backend: Backend) {
    let sandbox = Sandbox::ready(backend).await;
    sandbox.stock("X", 5).await;
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(1).await;
    let body = r#"{"order_id":"A-1","lines":[{"sku":"X","quantity":1},{"sku":"x","quantity":1}]}"#;
    sandbox.rabbit.send([body]).await;
    let events = listener.wait_for(1, SOON).await;
    sandbox.finish(workers).await;

    let letters = sandbox.rabbit.drain("dead.invalid").await;
    assert_eq!((letters.len(), letters[0].routing_key.as_str()), (1, "invalid.unknown-sku"));
    assert_eq!(letters[0].body, body.as_bytes());
    let data = &events[0].json()["data"];
    assert_eq!((events[0].routing_key.as_str(), &data["reason"]), ("reservation.rejected", &"unknown-sku".into()));
    assert_eq!(data["short"], serde_json::json!([{"sku": "x", "requested": 1, "available": 0}]));
    let sql = sandbox.sql().await;
    assert_eq!(sql.texts("order_id", "reservation where outcome = 'rejected'").await, ["A-1"]);
    assert_eq!(sql.available().await["X"], 5, "all lines or none");
    sandbox.audit().await;
}
