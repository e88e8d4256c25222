//! `lastunit stock` at the command line: what it takes, what it refuses, and how it prints.

use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Backend, Finished, Sandbox};

const USAGE: i32 = 2;

async fn empty_shelves() -> Sandbox {
    let sandbox = Sandbox::empty(Backend::Sqlite).await;
    sandbox.run(&["migrate", "up"]).await.expect_code(0);
    sandbox
}

/// Runs the program with this on its standard input.
async fn feed(sandbox: &Sandbox, arguments: &[&str], input: &str) -> Finished {
    let mut command = sandbox.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let running = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("the program starts");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("read");
        child.wait_with_output().expect("its end")
    });
    running.await.expect("no panic").into()
}

#[tokio::test]
async fn counts_that_cannot_be_are_usage_errors_that_say_what_can() {
    let sandbox = empty_shelves().await;
    for (arguments, said) in [
        (["stock", "set", "A", "-1"], "it must be 0 or more (`lastunit stock add` takes units away)"),
        (["stock", "set", "A", "9223372036854775808"], "it must be a whole number from 0 to 9223372036854775807"),
        (["stock", "set", "A", "1.5"], "it must be a whole number from 0 to"),
        (["stock", "add", "A", "-99999999999999999999"], "it must be a whole number from -9223372036854775807 to"),
        (["stock", "set", "", "1"], "an id is empty"),
    ] {
        let finished = sandbox.run(&arguments).await.expect_code(USAGE);
        assert!(finished.stderr.contains(said), "{arguments:?}: {}", finished.stderr);
    }
    let help = sandbox.run(&["stock", "set", "--help"]).await.expect_code(0).stdout;
    assert!(help.contains("byte for byte") && help.contains("0 or more"), "{help}");
}

#[tokio::test]
async fn a_shelf_is_filled_from_standard_input_or_not_at_all() {
    let sandbox = empty_shelves().await;
    let import = ["stock", "import", "-"];
    let finished = feed(&sandbox, &import, "sku,available\nA,1\n").await.expect_code(0);
    assert_eq!(finished.stdout, "1 SKU, 1 unit available\n");
    let finished = feed(&sandbox, &import, "sku,available\nA,2\nB,3,4\n").await.expect_code(1);
    assert!(finished.stderr.contains("standard input: nothing was imported: line 3: 3 columns"), "{}", finished.stderr);
    let finished = feed(&sandbox, &import, "sku,available\n\"A \",7\n").await.expect_code(0);
    assert_eq!(finished.stdout, "1 SKU, 7 units available\n");
    assert_eq!(
        sandbox.sql().await.available().await.into_iter().collect::<Vec<_>>(),
        [("A".into(), 1), ("A ".into(), 7)]
    );
}

#[tokio::test]
async fn what_is_not_there_is_said_and_nothing_else() {
    let sandbox = empty_shelves().await;
    assert_eq!(sandbox.run(&["stock", "show"]).await.expect_code(0).stdout, "0 SKUs\n");
    for arguments in [&["stock", "show", "NOPE"][..], &["stock", "add", "NOPE", "-5"]] {
        let finished = sandbox.run(arguments).await.expect_code(1);
        assert!(finished.stdout.is_empty(), "{}", finished.stdout);
        assert!(finished.stderr.contains("no such SKU"), "{}", finished.stderr);
        assert!(!finished.stderr.contains("available"), "{}", finished.stderr);
    }
    assert_eq!(sandbox.run(&["stock", "show", "--json"]).await.expect_code(0).stdout, "", "none was made");
    let finished = feed(&sandbox, &["stock", "import", "-"], "sku,available\n").await.expect_code(0);
    assert_eq!(finished.stdout, "0 SKUs, 0 units available\n");
    assert!(finished.stderr.contains("WARN") && finished.stderr.contains("no rows"), "{}", finished.stderr);
}

#[tokio::test]
async fn programs_read_a_line_per_sku_and_people_see_their_spaces() {
    let sandbox = empty_shelves().await;
    sandbox.stock("A", 1).await;
    sandbox.stock("A ", 2).await;
    let table = sandbox.run(&["stock", "show"]).await.expect_code(0).stdout;
    assert!(table.contains("\"A \"") && !table.contains("\"A\""), "{table}");
    let lines = sandbox.run(&["stock", "show", "--json"]).await.expect_code(0).stdout;
    let skus: Vec<_> =
        lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")).collect();
    assert_eq!(
        skus.iter().map(|row| (&row["sku"], &row["available"])).collect::<Vec<_>>(),
        [(&"A".into(), &1.into()), (&"A ".into(), &2.into()),]
    );
    let finished = sandbox.run(&["stock", "add", "A ", "-3"]).await.expect_code(1);
    assert!(finished.stderr.contains("\"A \": 2 available, cannot change by -3"), "{}", finished.stderr);
    let finished = sandbox.run(&["stock", "show", "a"]).await.expect_code(1);
    assert!(finished.stderr.contains("a: no such SKU"), "{}", finished.stderr);
    let audit = sandbox.run(&["audit"]).await.expect_code(0).stdout;
    assert_eq!(audit, "audit clean: 2 SKUs, 0 orders, 0 lines\n");
}
