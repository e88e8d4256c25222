//! W3C trace context: from an order to its event and its dead letter.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use crate::support::{Backend, Message, SOON, Sandbox, eventually};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const STATE: &str = "congo=t61rcWkgMzE";

fn traced(parent: Option<&str>, state: Option<&str>) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in [("traceparent", parent), ("tracestate", state)] {
        if let Some(value) = value {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        }
    }
    BasicProperties::default().with_headers(headers)
}

fn context(message: &Message) -> (Option<String>, Option<String>) {
    (message.header("traceparent"), message.header("tracestate"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orders_trace_goes_on_in_its_event_and_its_dead_letter_and_what_is_no_trace_does_not() {
    let sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.stock("X", 0).await;
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(1).await;
    let zeros = PARENT.replace("b7ad6b7169203331", "0000000000000000");
    let sent = [
        ("A-1", traced(Some(PARENT), Some(STATE)), (Some(PARENT), Some(STATE))),
        ("A-2", traced(Some(PARENT), Some("nicht=für\nKöpfe")), (Some(PARENT), None)),
        ("A-3", traced(Some("not-a-trace"), Some(STATE)), (None, None)),
        ("A-4", traced(Some(&zeros), Some(STATE)), (None, None)),
        ("A-5", traced(None, Some(STATE)), (None, None)),
        ("A-6", traced(None, None), (None, None)),
    ];
    let body = |id: &str| format!(r#"{{"order_id":"{id}","sku":"X","quantity":1}}"#);
    sandbox.rabbit.publish(sent.iter().map(|(id, properties, _)| (body(id), properties.clone()))).await;
    let events = listener.wait_for(sent.len(), SOON).await;
    eventually("all are dead letters", SOON, async || {
        let count = sandbox.rabbit.count("dead.lost-race").await as usize;
        if count == sent.len() { Ok(()) } else { Err(count) }
    })
    .await;
    let letters = sandbox.rabbit.drain("dead.lost-race").await;
    let own = |(parent, state): (Option<&str>, Option<&str>)| (parent.map(str::to_owned), state.map(str::to_owned));
    for (id, properties, carried) in sent {
        let event = events.iter().find(|event| event.order_id() == id).expect("an event");
        assert_eq!(context(event), own(carried), "the event of {id}");
        assert!(!String::from_utf8_lossy(&event.body).contains("trace"), "in headers only");
        let letter = letters.iter().find(|letter| letter.body == body(id).as_bytes()).expect("a dead letter");
        let as_sent = Message { routing_key: String::new(), body: Vec::new(), properties };
        assert_eq!(context(letter), context(&as_sent), "the dead letter of {id} is the message as it was sent");
    }
    sandbox.finish(workers).await;
}
