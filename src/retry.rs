//! Back-off between attempts. The only home of the `backoff` crate, which is unmaintained (RUSTSEC-2025-0012).

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff as _;

/// Jittered exponential delays without an end: each is drawn from ±50 % around a value that doubles up to a bound, so
/// that workers which failed together do not come back together.
#[derive(Debug)]
pub struct Backoff(ExponentialBackoff);

impl Backoff {
    /// Starts at `first` and grows to `most`.
    #[must_use]
    pub fn new(first: Duration, most: Duration) -> Self {
        Self(ExponentialBackoff {
            current_interval: first,
            initial_interval: first,
            multiplier: 2.0,
            max_interval: most,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        })
    }

    /// The next delay.
    pub fn next_delay(&mut self) -> Duration {
        // Without a limit of elapsed time there always is a next one.
        self.0.next_backoff().unwrap_or(self.0.max_interval)
    }

    /// Sleeps for the next delay.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_their_bound_and_start_over() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(10), ms(100));
        let delays: Vec<_> = (0..20).map(|_| backoff.next_delay()).collect();
        assert!(delays[0] >= ms(5) && delays[0] <= ms(15), "{delays:?}");
        assert!(delays[10..].iter().all(|delay| *delay >= ms(50) && *delay <= ms(150)), "{delays:?}");
        backoff.reset();
        assert!(backoff.next_delay() <= ms(15));
    }
}
