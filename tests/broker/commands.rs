//! The program's commands, started as a user starts them.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use lastunit::broker::{Delivery, Outgoing, Tag};
use serde_json::{Value, json};

use crate::support::{Place, url};

async fn run(place: &Place, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lastunit"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("LASTUNIT__BROKER__URL", url());
    command.env("LASTUNIT__BROKER__NAME_PREFIX", &place.settings.broker.name_prefix);
    command.env("LASTUNIT__BROKER__DELIVERY_LIMIT", place.settings.broker.delivery_limit.to_string());
    command.env("LASTUNIT__RETRY__DELAYS_MS", "50,60");
    let input = input.to_owned();
    let running = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    running.await.unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn topology_says_what_differs_and_exits_78() {
    let mut place = Place::new("cli-topology").await;
    let output = run(&place, &["topology", "--json"], "").await;
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).as_array().unwrap().iter().all(|item| item["state"] == "present"));
    place.settings.broker.delivery_limit += 1;
    let output = run(&place, &["topology"], "").await;
    assert_eq!(code(&output), Some(78));
    let (text, queue) = (stderr(&output), place.names.orders());
    assert!(text.contains(&format!("lastunit: queue {queue} is not as")) && text.contains("To mend"), "{text}");
    place.clean_up().await;
}

#[tokio::test]
async fn publish_sends_good_lines_names_faulty_ones_and_exits_1() {
    let place = Place::new("cli-publish").await;
    let good = r#"{"order_id":"A-1","sku":"X","quantity":1}"#;
    let output = run(&place, &["publish", "-", "--json"], &format!("{good}\n[]\r\n\n{good}\r\nnot json")).await;
    assert_eq!(code(&output), Some(1), "{}", stderr(&output));
    assert_eq!((&stdout(&output)["confirmed"], &stdout(&output)["faulty_lines"]), (&json!(2), &json!(2)));
    let text = stderr(&output);
    assert!(text.contains("line 2: invalid.order") && text.contains("line 5: invalid.json"), "{text}");
    let output = run(&place, &["publish", "-", "--unchecked"], "not json\n").await;
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    place.wait_for_count(&place.names.orders(), 3).await;
    place.clean_up().await;
}

#[tokio::test]
async fn dead_letters_are_listed_and_shown_by_position_and_by_id() {
    let place = Place::new("cli-dead").await;
    let body = br#"{"order_id":"A-7","sku":"X","quantity":1}"#.to_vec();
    let original = Arc::new(Delivery::bare(Tag { session: 1, delivery: 1 }, body.clone()));
    let letter = Outgoing::dead_letter(&place.names, "lost-race.sold-out", &json!({"short": []}), &original);
    assert!(place.publisher().await.publish(&[letter]).await[0].is_ok());
    let output = run(&place, &["dead", "list", "--json"], "").await;
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let listed = stdout(&output);
    assert_eq!(listed["counts"], json!({"lost-race": 1, "invalid": 0, "failed": 0}));
    let letter = &listed["letters"][0];
    assert_eq!((&letter["order_id"], &letter["reason"]), (&json!("A-7"), &json!("lost-race.sold-out")));
    for which in ["lost-race/1", letter["publish_id"].as_str().unwrap()] {
        let output = run(&place, &["dead", "show", which], "").await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("lastunit-died-at") && text.ends_with("\"quantity\":1}\n"), "{text}");
    }
    let output = run(&place, &["dead", "show", "invalid/1"], "").await;
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("there is no dead letter invalid/1"));
    place.clean_up().await;
}
