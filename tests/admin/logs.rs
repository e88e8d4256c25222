//! Lines for machines.

use serde_json::Value;

use crate::support::{Backend, SOON, Sandbox, eventually};

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line}"))
}

#[tokio::test]
async fn a_fatal_error_is_a_line_of_json_where_lines_are_json() {
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    sandbox.set("log.format", "json");
    // Wrong only once it is connected; wrong as a setting.
    for (setting, value, what) in [("log.filter", "off", "lastunit migrate"), ("lease.ttl_ms", "1", "lease.")] {
        sandbox.set(setting, value);
        let finished = sandbox.run(&["worker"]).await.expect_code(78);
        let lines: Vec<_> = finished.stderr.lines().map(json).collect();
        let last = lines.last().expect("a line");
        assert_eq!((&last["level"], &last["exit_code"]), (&"ERROR".into(), &78.into()), "{last}");
        assert!(last["message"].as_str().is_some_and(|message| message.contains(what)), "{last}");
        assert!(last["timestamp"].as_str().is_some_and(|time| chrono::DateTime::parse_from_rfc3339(time).is_ok()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_messages_are_logged_together_by_code_with_one_example() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.set("log.format", "json");
    let bad = [r#"{"order_id":"B-1","sku":"X","quantity":0}"#, r#"{"order_id":"B-2","sku":"X"}"#, "no JSON"];
    let properties = |number: usize| lapin::BasicProperties::default().with_message_id(format!("m-{number}").into());
    sandbox.rabbit.publish(bad.iter().enumerate().map(|(number, body)| (body, properties(number)))).await;
    let worker = sandbox.worker();
    eventually("all are dead letters", SOON, async || {
        let count = sandbox.rabbit.count("dead.invalid").await;
        if count == 3 { Ok(()) } else { Err(count) }
    })
    .await;
    let printed = worker.printed();
    let lines: Vec<_> = printed.lines().map(json).filter(|line| line.get("codes").is_some()).collect();
    let first = &lines[0];
    assert_eq!((&first["codes"], &first["messages"]), (&"order 1".into(), &1.into()), "the first comes alone: {first}");
    assert_eq!((&first["message_id"], &first["order_id"]), (&"m-0".into(), &"B-1".into()), "{first}");
    let messages: i64 = lines.iter().map(|line| line["messages"].as_i64().expect("a number")).sum();
    assert_eq!(messages, 3);
    assert!(!printed.contains("no JSON"), "never a payload");
    sandbox.finish(vec![worker]).await;
}
