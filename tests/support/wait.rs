//! Waiting for something to become true, with a deadline.

// Each test binary that includes this uses a part of it.
#![allow(dead_code)]

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Enough for anything that takes a second on an idle machine; a test that fails takes it, one that passes does not.
pub const SOON: Duration = Duration::from_secs(60);
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Enough for a server that takes ten seconds to start on an idle machine.
pub const SLOW_START: Duration = Duration::from_secs(180);

/// Asks again and again until the answer is `Ok`, and returns it. `Err` says what was seen instead.
///
/// # Panics
/// After `deadline`, with what was last seen.
pub async fn eventually<T, E: Display>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if start.elapsed() > deadline => panic!("not within {deadline:?}: {what}; last seen: {seen}"),
            Err(_) => tokio::time::sleep(POLL_EVERY).await,
        }
    }
}

/// The same for a test that blocks: until the condition holds.
///
/// # Panics
/// After `deadline`.
pub fn until(what: &str, deadline: Duration, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() <= deadline, "not within {deadline:?}: {what}");
        std::thread::sleep(POLL_EVERY);
    }
}

/// `Ok` when both are equal; otherwise says what was found.
pub fn equal<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{found:?} instead of {wanted:?}")) }
}
