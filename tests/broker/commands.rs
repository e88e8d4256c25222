//! The program's commands, started as a user starts them.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use lastunit::broker::topology::Topology;
use lastunit::broker::{DeadQueue, Delivery, Outgoing, Tag};
use serde_json::{Value, json};

use crate::support::{Place, url};

fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lastunit"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("LASTUNIT__BROKER__URL", url());
    command.env("LASTUNIT__BROKER__NAME_PREFIX", &place.settings.broker.name_prefix);
    command.env("LASTUNIT__BROKER__DELIVERY_LIMIT", place.settings.broker.delivery_limit.to_string());
    command.env("LASTUNIT__RETRY__DELAYS_MS", "50,60");
    command
}

async fn run(place: &Place, arguments: &[&str], input: &str) -> Output {
    let mut command = command(place, arguments);
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
    let text = String::from_utf8(output.stdout).unwrap();
    let items: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(items.len() > 6 && items.iter().all(|item| item["state"] == "present"), "{text}");
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
    let laid_out = "{\n  \"order_id\": \"A-9\",\n  \"sku\": \"X\",\n  \"quantity\": 1\n}\n";
    let output = run(&place, &["publish", "-"], laid_out).await;
    assert!(code(&output) == Some(1) && stderr(&output).contains("jq -c . FILE"), "{}", stderr(&output));
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
    for (which, said) in [("foo/1", "the queues are lost-race"), ("invalid/0", "from 1 to"), ("invalid/x", "from 1 to")]
    {
        let output = run(&place, &["dead", "show", which], "").await;
        assert_eq!(code(&output), Some(2));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    place.clean_up().await;
}

#[tokio::test]
async fn a_body_that_is_no_text_is_shown_without_loss() {
    let place = Place::new("cli-bytes").await;
    let body = b"\xff\x00 no text \x1b[2J".to_vec();
    let original = Arc::new(Delivery::bare(Tag { session: 1, delivery: 1 }, body.clone()));
    let letter = Outgoing::dead_letter(&place.names, "invalid.encoding", &json!({"error": "no text"}), &original);
    assert!(place.publisher().await.publish(&[letter]).await[0].is_ok());
    for look in 1..=3 {
        place.wait_for_count(&place.names.dead_queue(DeadQueue::Invalid), 1).await;
        let output = run(&place, &["dead", "show", "invalid/1", "--json"], "").await;
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        let shown = stdout(&output);
        assert_eq!((&shown["body"], &shown["body_base64"]), (&Value::Null, &json!("/wAgbm8gdGV4dCAbWzJK")));
        assert_eq!(shown["headers"]["x-delivery-count"], Value::Null, "look {look} is not the order's history");
    }
    place.wait_for_count(&place.names.dead_queue(DeadQueue::Invalid), 1).await;
    let output = run(&place, &["dead", "show", "invalid/1"], "").await;
    assert!(output.stdout.ends_with(&[body, b"\n".to_vec()].concat()));
    place.clean_up().await;
}

#[tokio::test]
async fn a_look_finds_all_of_many_letters_and_gives_them_back() {
    const LETTERS: u64 = 2_000;
    let place = Place::new("look").await;
    let queue = place.names.dead_queue(DeadQueue::LostRace);
    let letters: Vec<_> = (0..LETTERS)
        .map(|number| {
            let original =
                Arc::new(Delivery::bare(Tag { session: 1, delivery: number }, number.to_string().into_bytes()));
            Outgoing::dead_letter(&place.names, "lost-race.sold-out", &json!({}), &original)
        })
        .collect();
    assert!(place.publisher().await.publish(&letters).await.iter().all(Result::is_ok));
    let observer = place.observer().await;
    for (most, found) in [(0, 0), (7, 7), (1_999, 1_999), (u16::MAX, LETTERS as usize)] {
        place.wait_for_count(&queue, LETTERS).await;
        let letters = observer.dead_letters(DeadQueue::LostRace, most).await.unwrap();
        let bodies: BTreeSet<_> = letters.iter().map(|letter| letter.body.clone()).collect();
        assert_eq!((letters.len(), bodies.len()), (found, found), "each once");
    }
    place.wait_for_count(&queue, LETTERS).await;
    place.clean_up().await;
}

#[tokio::test]
async fn without_a_topology_commands_say_how_to_get_one() {
    let place = Place::new("cli-bare").await;
    Topology::new(&place.settings.broker, &place.settings.retry).delete(&place.settings.broker).await.unwrap();
    let order = "{\"order_id\":\"A\",\"sku\":\"X\",\"quantity\":1}\n";
    for (arguments, input) in
        [(&["dead", "list"][..], ""), (&["dead", "show", "failed/1"], ""), (&["publish", "-"], order)]
    {
        let output = run(&place, arguments, input).await;
        assert_eq!(code(&output), Some(78), "{}", stderr(&output));
        assert!(stderr(&output).contains("run `lastunit topology`"), "{}", stderr(&output));
    }
    place.clean_up().await;
}

#[tokio::test]
async fn publish_that_is_interrupted_says_what_is_done_and_how_to_go_on() {
    let place = Place::new("cli-stop").await;
    let mut child = command(&place, &["publish", "-"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for number in 0..501 {
        writeln!(input, "{{\"order_id\":\"A-{number}\",\"sku\":\"X\",\"quantity\":1}}").unwrap();
    }
    // The first 500 go together; the other one is read, and waits for more of its kind, or the end.
    place.wait_for_count(&place.names.orders(), 500).await;
    let signal = Command::new("sh").arg("-c").arg(format!("kill -INT {}", child.id())).status().unwrap();
    assert!(signal.success());
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    assert_eq!(code(&output), Some(1), "{}", stderr(&output));
    let text = stderr(&output);
    let said = ["stopped after line 50", "orders confirmed; to go on, send the whole file again"];
    assert!(said.iter().all(|said| text.contains(said)), "{text}");
    drop(input);
    place.clean_up().await;
}
