//! The style of this project as a test: what a reviewer would otherwise have to say again and again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of source that is longer wants to be two.
const MAX_LINES: usize = 400;
/// Each outside library has one home, so that another can take its place there.
const HOMES: [(&str, &[&str]); 7] = [
    ("lapin", &["src/broker/", "src/bench/"]),
    ("redis", &["src/lease/", "src/bench/"]),
    ("sea_orm", &["src/ledger/", "src/bench/", "entity/", "migration/"]),
    ("backoff", &["src/retry.rs"]),
    ("anyhow", &["src/main.rs", "src/commands/"]),
    ("opentelemetry", &["src/telemetry/traces/"]),
    ("ureq", &["src/telemetry/traces/client.rs"]),
];
/// Pure modules: no clock, no waiting, no I/O.
const PURE: [&str; 4] = ["src/order", "src/fence", "src/plan", "src/outcome"];
const IMPURE: [&str; 6] = ["tokio::", "SystemTime::now", "Instant::now", "Utc::now", "std::fs", "std::net"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files with this extension under these folders and files, with their text.
fn files(places: &[&str], extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> =
        places.iter().map(|place| root().join(place)).filter(|path| path.exists()).collect();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|found| found == extension) {
            let name = path.strip_prefix(root()).expect("inside").to_string_lossy().into_owned();
            found.push((name, fs::read_to_string(&path).expect("text")));
        }
    }
    found.sort();
    found
}

fn rust() -> Vec<(String, String)> {
    files(&["src", "entity", "migration", "tests", "benches"], "rs")
}

fn expect_none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The text without comments, and without the tests at its end.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let body = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    body.lines().enumerate().map(|(index, line)| (index + 1, line.split("//").next().unwrap_or(line)))
}

/// Whether `word` stands in `line` as a path's first segment or a `use`.
fn mentions_crate(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = &line[at + name.len()..];
        let starts = !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '"' | '/'));
        starts && (after.starts_with("::") || (line.trim_start().starts_with("use ") && after.starts_with(';')))
    })
}

#[test]
fn every_file_begins_with_what_it_is_for() {
    let bare = rust().into_iter().filter(|(_, text)| !text.starts_with("//! "));
    expect_none(bare.map(|(name, _)| format!("{name} has no //! header")).collect());
}

#[test]
fn files_of_source_are_short() {
    let long = files(&["src", "entity", "migration"], "rs").into_iter().filter_map(|(name, text)| {
        // Tests beside the code are not counted: they are what makes it readable.
        let lines = code(&text).count();
        (lines > MAX_LINES).then(|| format!("{name} has {lines} lines, more than {MAX_LINES}"))
    });
    expect_none(long.collect());
}

#[test]
fn each_outside_library_has_one_home() {
    let mut faults = Vec::new();
    for (name, text) in files(&["src", "entity", "migration"], "rs") {
        for (library, homes) in HOMES {
            if homes.iter().any(|home| name.starts_with(home)) {
                continue;
            }
            let guests = code(&text).filter(|(_, line)| mentions_crate(line, library));
            faults.extend(guests.map(|(number, _)| format!("{name}:{number} uses {library}")));
        }
    }
    expect_none(faults);
}

#[test]
fn nothing_is_left_unfinished() {
    // Put together here, so that this file does not find itself.
    let marks = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!("));
    let ignored = ["#[", "ignore"].concat();
    let mut faults = Vec::new();
    for (name, text) in rust() {
        for (index, line) in text.lines().enumerate() {
            let found = marks.iter().any(|mark| line.contains(mark.as_str())) || line.contains(&ignored);
            faults.extend(found.then(|| format!("{name}:{}: {}", index + 1, line.trim())));
        }
    }
    expect_none(faults);
}

#[test]
fn pure_modules_touch_no_clock_and_no_world() {
    let mut faults = Vec::new();
    for (name, text) in files(&["src"], "rs") {
        if PURE.iter().any(|module| name.starts_with(module)) {
            for (number, line) in code(&text) {
                let found = IMPURE.iter().find(|what| line.contains(*what));
                faults.extend(found.map(|what| format!("{name}:{number} is pure, but uses {what}")));
            }
        }
    }
    expect_none(faults);
}

#[test]
fn tests_wait_for_something_never_for_time() {
    let sleep = ["sleep", "("].concat();
    let mut faults = Vec::new();
    // What polls with a deadline lives there, and only there.
    let polls = ["tests/support/wait.rs", "tests/support/redis_server.rs"];
    for (name, text) in files(&["tests"], "rs").into_iter().filter(|(name, _)| !polls.contains(&name.as_str())) {
        let sleeps = code(&text).filter(|(_, line)| line.contains(&sleep));
        faults.extend(sleeps.map(|(number, _)| format!("{name}:{number} sleeps")));
    }
    expect_none(faults);
}

#[test]
fn every_setting_says_what_it_is_for() {
    let text = fs::read_to_string(root().join("config/default.toml")).expect("the defaults");
    let mut faults = Vec::new();
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        // The TLS files are the same for each service; the first says it for all.
        let is_setting = !line.is_empty() && !line.starts_with(['#', '[']) && !line.starts_with("tls_");
        if is_setting && !before.starts_with('#') {
            faults.push(format!("config/default.toml:{}: {line}", index + 1));
        }
        before = line;
    }
    expect_none(faults);
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    let mut faults = Vec::new();
    let documents = files(&["README.md", "SECURITY.md", "docs", "deploy"], "md");
    for (name, text) in &documents {
        let folder = root().join(name);
        let folder = folder.parent().expect("a folder");
        for target in links(text) {
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains("://") && !folder.join(path).exists() {
                faults.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(!documents.is_empty());
    expect_none(faults);
}

/// The targets of Markdown links.
fn links(text: &str) -> BTreeSet<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}
