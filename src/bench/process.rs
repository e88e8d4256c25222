//! What a process has used, by the word of the kernel (`/proc`, Linux).

use std::ops::Sub;
use std::time::Duration;

/// A tick of the CPU times in `/proc`: `USER_HZ`, which Linux keeps at 100 a second on every common architecture.
const TICK: Duration = Duration::from_millis(10);

/// Use of the machine by some processes together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// In user mode and in the kernel, all threads.
    pub cpu: Duration,
    /// The largest resident size that any one of them ever had, bytes.
    pub peak_bytes: u64,
}

impl Usage {
    /// Of these processes until now; one that has ended does not count.
    #[must_use]
    pub fn of(processes: &[u32]) -> Self {
        let mut usage = Self::default();
        for id in processes {
            let read = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
            usage.cpu += TICK * ticks(&read("stat")).unwrap_or_default();
            usage.peak_bytes = usage.peak_bytes.max(peak(&read("status")).unwrap_or_default());
        }
        usage
    }
}

impl Sub for Usage {
    type Output = Self;

    /// The CPU time since `earlier`; a peak stays what it is.
    fn sub(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(earlier.cpu), peak_bytes: self.peak_bytes }
    }
}

/// `utime` and `stime`. The program's name before them may hold anything, even a parenthesis.
fn ticks(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?)
}

fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_is_found_behind_a_name_with_parentheses() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 5 0 1000 1 1";
        assert_eq!(ticks(stat), Some(300));
    }

    #[test]
    fn this_process_has_used_memory() {
        let usage = Usage::of(&[std::process::id()]);
        assert!(usage.peak_bytes > 1 << 20, "{usage:?}");
    }
}
