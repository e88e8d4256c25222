//! One order id, several messages.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::on_each_backend;
use crate::support::wait::equal;
use crate::support::{Backend, Message, SOON, Sandbox, eventually};

const RESERVED: &str = r#"{"order_id":"A-1","lines":[{"sku":"X","quantity":1},{"sku":"Y","quantity":2}]}"#;
/// The same content: other sequence of lines, a SKU in two of them, a field that nobody reads.
const RESERVED_AGAIN: &str = r#"{"note":1,"order_id":"A-1","lines":[{"sku":"Y","quantity":1},{"sku":"X","quantity":1},{"sku":"Y","quantity":1}]}"#;
const REJECTED: &str = r#"{"order_id":"A-2","sku":"X","quantity":100}"#;
const CONFLICT: &str = r#"{"order_id":"A-1","sku":"X","quantity":1}"#;

on_each_backend!(
    a_duplicate_gets_the_same_event_to_the_byte,
    a_duplicate_in_the_same_batch_is_decided_once,
    an_order_id_with_other_content_changes_nothing,
);

async fn a_duplicate_gets_the_same_event_to_the_byte(backend: Backend) {
    let sandbox = stocked(backend).await;
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(1).await;
    sandbox.rabbit.send([RESERVED, REJECTED]).await;
    listener.wait_for(2, SOON).await;
    // Much later, by another worker.
    sandbox.finish(workers).await;
    let workers = sandbox.workers(1).await;
    sandbox.rabbit.send([RESERVED_AGAIN, REJECTED]).await;
    let events = listener.wait_for(4, SOON).await;
    sandbox.finish(workers).await;

    expect_twins(&events, "A-1", "reservation.reserved");
    expect_twins(&events, "A-2", "reservation.rejected");
    expect_taken_once(&sandbox).await;
    let letters = sandbox.rabbit.drain("dead.lost-race").await;
    let bodies: Vec<_> = letters.iter().map(|letter| letter.body.as_slice()).collect();
    assert_eq!(bodies, [REJECTED.as_bytes(), REJECTED.as_bytes()], "every delivery of a rejected order ends there");
}

async fn a_duplicate_in_the_same_batch_is_decided_once(backend: Backend) {
    let sandbox = stocked(backend).await;
    let listener = sandbox.rabbit.listen().await;
    sandbox.rabbit.send([RESERVED, REJECTED, RESERVED_AGAIN, REJECTED]).await;
    let workers = sandbox.workers(1).await;
    let events = listener.wait_for(4, SOON).await;
    sandbox.finish(workers).await;
    expect_twins(&events, "A-1", "reservation.reserved");
    expect_twins(&events, "A-2", "reservation.rejected");
    expect_taken_once(&sandbox).await;
}

async fn an_order_id_with_other_content_changes_nothing(backend: Backend) {
    let sandbox = stocked(backend).await;
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(1).await;
    sandbox.rabbit.send([RESERVED]).await;
    listener.wait_for(1, SOON).await;
    sandbox.rabbit.send([CONFLICT]).await;
    eventually("the conflict is refused", SOON, async || equal(sandbox.rabbit.count("dead.invalid").await, 1)).await;
    sandbox.finish(workers).await;

    let letters = sandbox.rabbit.drain("dead.invalid").await;
    assert_eq!(letters[0].routing_key, "invalid.conflicting-duplicate");
    assert_eq!(letters[0].body, CONFLICT.as_bytes());
    assert_eq!(listener.len(), 1, "a conflict has no event");
    let sql = sandbox.sql().await;
    assert_eq!(sql.texts("order_id", "reservation").await, ["A-1"]);
    assert_eq!((sql.available().await["X"], sql.available().await["Y"]), (4, 3));
    sandbox.audit().await;
}

async fn stocked(backend: Backend) -> Sandbox {
    let sandbox = Sandbox::ready(backend).await;
    sandbox.stock("X", 5).await;
    sandbox.stock("Y", 5).await;
    sandbox
}

async fn expect_taken_once(sandbox: &Sandbox) {
    let sql = sandbox.sql().await;
    assert_eq!(sql.texts("order_id", "reservation").await, ["A-1", "A-2"]);
    assert_eq!((sql.available().await["X"], sql.available().await["Y"]), (4, 3));
    sandbox.audit().await;
}

fn expect_twins(events: &[Message], order: &str, kind: &str) {
    let twins: Vec<_> = events.iter().filter(|event| event.order_id() == order).collect();
    assert_eq!(twins.len(), 2, "{order}");
    assert!(twins.iter().all(|event| event.routing_key == kind), "{twins:?}");
    assert_eq!(twins[0].body, twins[1].body, "{order}: the same bytes");
    let ids: BTreeSet<_> = twins.iter().map(|event| event.properties.message_id().clone()).collect();
    assert_eq!(ids.len(), 1, "{order}: the same message id");
    assert!(matches!(twins[0].json()["id"], Value::String(_)), "{order}: an event has an id");
}
