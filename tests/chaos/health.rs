//! Whether each worker is ready again in time once every fault that it may feel is gone.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::plan::{Kind, WORKERS};

/// See the module.
pub struct Health {
    limit: Duration,
    workers: Mutex<[State; WORKERS]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Faults that it feels now.
    faults: usize,
    /// Since when it feels none and was not seen ready.
    free_since: Option<Instant>,
    longest: Duration,
    late: Option<Duration>,
}

impl Health {
    /// So long a worker may take.
    pub fn new(limit: Duration) -> Self {
        Self { limit, workers: Mutex::default() }
    }

    /// A fault begins.
    pub fn begin(&self, kind: Kind) {
        let mut workers = self.workers();
        for worker in kind.victims() {
            workers[worker].faults += 1;
            workers[worker].free_since = None;
        }
    }

    /// A fault is gone.
    pub fn end(&self, kind: Kind) {
        let mut workers = self.workers();
        for worker in kind.victims() {
            workers[worker].faults -= 1;
            workers[worker].free_since = (workers[worker].faults == 0).then(Instant::now);
        }
    }

    /// A worker was asked whether it is ready; the question was put at `asked`.
    pub fn seen(&self, worker: usize, ready: bool, asked: Instant) {
        let state = &mut self.workers()[worker];
        let Some(since) = state.free_since.filter(|since| *since <= asked) else { return };
        let took = since.elapsed();
        if ready {
            state.longest = state.longest.max(took);
            state.free_since = None;
        } else if took > self.limit {
            state.late = Some(took);
        }
    }

    /// Whether all are ready and feel no fault.
    pub fn is_well(&self) -> Result<(), String> {
        let workers = self.workers();
        let well = workers.iter().all(|state| state.faults == 0 && state.free_since.is_none());
        if well { Ok(()) } else { Err(format!("{:?}", *workers)) }
    }

    /// The longest time that one took.
    ///
    /// # Panics
    /// When one took longer than it may.
    pub fn longest(&self) -> Duration {
        let workers = self.workers();
        assert!(workers.iter().all(|state| state.late.is_none()), "not ready within {:?}: {workers:?}", self.limit);
        workers.iter().map(|state| state.longest).max().expect("workers")
    }

    fn workers(&self) -> MutexGuard<'_, [State; WORKERS]> {
        self.workers.lock().expect("no panic in here")
    }
}
