//! What a run has to show.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::count::Outcome;
use super::load::Sent;

/// Said by workers, and worth counting: what it means, and the words in the log.
const SAID: [(&str, &str); 7] = [
    ("fence recoveries, redis had no counter", "recovered the fence: redis has no counter"),
    ("fence recoveries, redis was restarted", "recovered the fence: redis was restarted"),
    ("fence recoveries, redis went back in time", "recovered the fence: redis went back"),
    ("stale tokens refused by the fence", "the fence refused a stale token"),
    ("outages of redis or the database noticed", "a service is away"),
    ("broker sessions lost", "lost the orders queue"),
    ("worker starts", "the worker starts"),
];

/// See the module.
pub struct Figures {
    pub seed: u64,
    pub lasted: Duration,
    pub sent: Sent,
    pub outcome: Outcome,
    pub faults: BTreeMap<String, u64>,
    pub redelivered: u64,
    pub exits: BTreeMap<String, u64>,
    pub longest: Duration,
    /// How often each of [`SAID`] was.
    said: [usize; SAID.len()],
}

impl Figures {
    /// Reads the workers' logs for the rest.
    pub fn new(
        (seed, lasted, sent): (u64, Duration, Sent),
        outcome: Outcome,
        faults: BTreeMap<String, u64>,
        redelivered: u64,
        exits: BTreeMap<String, u64>,
        longest: Duration,
        logs: &Path,
    ) -> Self {
        Self { seed, lasted, sent, outcome, faults, redelivered, exits, longest, said: said(logs) }
    }

    /// Decisions that were taken anew because redis had forgotten.
    pub fn recoveries(&self) -> usize {
        self.said[..3].iter().sum()
    }
}

fn said(folder: &Path) -> [usize; SAID.len()] {
    let mut counts = [0; SAID.len()];
    for entry in fs::read_dir(folder).expect("the logs") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = fs::read_to_string(path).expect("a log");
            for (count, (_, words)) in counts.iter_mut().zip(SAID) {
                *count += text.matches(words).count();
            }
        }
    }
    counts
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { orders, reserved, sold_out, events, letters } = self.outcome;
        let all: u64 = self.faults.values().sum();
        writeln!(f, "| figure | count |\n| --- | ---: |")?;
        writeln!(f, "| seed | {} |\n| seconds | {} |", self.seed, self.lasted.as_secs())?;
        writeln!(f, "| orders, each decided once | {orders} |")?;
        writeln!(f, "| messages sent, duplicates included | {} |", self.sent.messages)?;
        writeln!(f, "| messages sent again for want of a confirm | {} |", self.sent.again)?;
        writeln!(f, "| reserved | {reserved} |\n| sold out | {sold_out} |")?;
        writeln!(f, "| events, repetitions included | {events} |")?;
        writeln!(f, "| dead letters, all sold-out and equal to what came in | {letters} |")?;
        writeln!(f, "| redeliveries, by the broker's count | {} |", self.redelivered)?;
        for ((meaning, _), count) in SAID.iter().zip(self.said) {
            writeln!(f, "| {meaning} | {count} |")?;
        }
        for (status, count) in &self.exits {
            writeln!(f, "| workers that ended by SIGTERM or for want of a service: {status} | {count} |")?;
        }
        writeln!(f, "| faults | {all} |")?;
        for (label, count) in &self.faults {
            writeln!(f, "| {label} | {count} |")?;
        }
        writeln!(f, "| longest time to ready | {:.2} s |", self.longest.as_secs_f64())
    }
}
