//! Named points where a test can hold a worker, make it believe that an answer was lost, or kill its process.
//!
//! Without the cargo feature `checkpoints`, as in every production build, [`reach`] and [`answer_is_lost`] are nothing.

/// Where a worker can be held.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Point {
    /// Orders were picked for a batch; no lease was asked for.
    BeforeLease,
    /// Redis has answered the request for leases.
    AcquireReply,
    /// Redis said that a counter is unknown; the database has not been asked.
    BeforeAdvance,
    /// The database moved the epoch; the seed has not been sent.
    BeforeSeed,
    /// The leases are ours; nothing was read.
    AfterLease,
    /// Planned, about to begin the transaction.
    BeforeCommit,
    /// The transaction is durable; leases are still held.
    AfterCommit,
    /// About to release the leases.
    BeforeRelease,
    /// About to publish events and dead letters.
    BeforeSettle,
    /// Events and dead letters are confirmed; nothing was acknowledged.
    BeforeAck,
    /// Handed over for acknowledgement.
    AfterAck,
}

impl Point {
    /// All points, in the sequence in which a message passes them.
    pub const ALL: [Self; 11] = [
        Self::BeforeLease,
        Self::AcquireReply,
        Self::BeforeAdvance,
        Self::BeforeSeed,
        Self::AfterLease,
        Self::BeforeCommit,
        Self::AfterCommit,
        Self::BeforeRelease,
        Self::BeforeSettle,
        Self::BeforeAck,
        Self::AfterAck,
    ];
}

/// Passes the point, or stays there as long as a test wants it. `holder` names the worker.
#[cfg(not(feature = "checkpoints"))]
#[inline(always)]
#[allow(clippy::unused_async, reason = "it waits in tests only")]
pub async fn reach(_holder: &str, _point: Point) {}

/// Whether a test wants the answer that just came to be lost on its way. `holder` names the worker.
#[cfg(not(feature = "checkpoints"))]
#[inline(always)]
#[must_use]
pub fn answer_is_lost(_holder: &str, _point: Point) -> bool {
    false
}

#[cfg(feature = "checkpoints")]
pub use latched::{Held, answer_is_lost, hold, lose_answer, reach};

#[cfg(feature = "checkpoints")]
mod latched {
    use std::collections::{HashMap, HashSet};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

    use tokio::sync::oneshot;

    use super::Point;

    type Place = (String, Point);

    #[derive(Default)]
    struct Registry {
        latches: HashMap<Place, Latch>,
        losses: HashSet<Place>,
    }

    struct Latch {
        arrived: oneshot::Sender<()>,
        released: oneshot::Receiver<()>,
    }

    static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

    fn registry() -> MutexGuard<'static, Registry> {
        REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker that is, or will be, held at a point. Dropping it lets the worker go.
    #[derive(Debug)]
    pub struct Held {
        arrived: oneshot::Receiver<()>,
        released: oneshot::Sender<()>,
    }

    impl Held {
        /// Waits until the worker stands at the point.
        ///
        /// # Panics
        /// When another latch was set for the same worker and point.
        pub async fn arrived(&mut self) {
            (&mut self.arrived).await.expect("one latch per worker and point at a time");
        }

        /// Lets the worker go on.
        ///
        /// # Panics
        /// When the worker's task has ended.
        pub fn release(self) {
            self.released.send(()).expect("the worker stands at the latch");
        }
    }

    /// Holds the next arrival of `holder` at `point`, once.
    #[must_use]
    pub fn hold(holder: &str, point: Point) -> Held {
        let (arrived, has_arrived) = oneshot::channel();
        let (release, released) = oneshot::channel();
        registry().latches.insert((holder.to_owned(), point), Latch { arrived, released });
        Held { arrived: has_arrived, released: release }
    }

    /// Makes the next answer at `point` get lost on its way to `holder`, once.
    pub fn lose_answer(holder: &str, point: Point) {
        registry().losses.insert((holder.to_owned(), point));
    }

    /// Whether a test wants the answer that just came to be lost on its way.
    #[must_use]
    pub fn answer_is_lost(holder: &str, point: Point) -> bool {
        registry().losses.remove(&(holder.to_owned(), point))
    }

    /// Passes the point, or stays there as long as a test wants it.
    pub async fn reach(holder: &str, point: Point) {
        if KILL.as_ref().is_some_and(|asked| asked.is_now(point)) {
            std::process::abort();
        }
        if STOP.as_ref().is_some_and(|asked| asked.is_now(point)) {
            stop_this_process();
        }
        let latch = registry().latches.remove(&(holder.to_owned(), point));
        // Whoever dropped its end no longer wants to hold anybody.
        if let Some(latch) = latch
            && latch.arrived.send(()).is_ok()
        {
            latch.released.await.ok();
        }
    }

    /// `LASTUNIT_TEST_KILL=BeforeCommit:3` ends the process, without any farewell, at its third arrival at that point.
    static KILL: LazyLock<Option<Asked>> = LazyLock::new(|| Asked::by("LASTUNIT_TEST_KILL"));
    /// `LASTUNIT_TEST_STOP=BeforeCommit:3` stops it there (SIGSTOP), until somebody sends SIGCONT.
    static STOP: LazyLock<Option<Asked>> = LazyLock::new(|| Asked::by("LASTUNIT_TEST_STOP"));

    /// What the environment asks of this process.
    struct Asked {
        point: String,
        arrival: u32,
        arrivals: AtomicU32,
    }

    impl Asked {
        fn by(variable: &str) -> Option<Self> {
            let asked = std::env::var(variable).ok()?;
            let (point, arrival) = asked.split_once(':')?;
            Some(Self { point: point.to_owned(), arrival: arrival.parse().ok()?, arrivals: AtomicU32::new(0) })
        }

        /// Counts the arrival; whether it is the one.
        fn is_now(&self, point: Point) -> bool {
            self.point == format!("{point:?}") && self.arrivals.fetch_add(1, Ordering::Relaxed) + 1 == self.arrival
        }
    }

    /// All threads at once, as an operating system or a hypervisor would. By way of the shell: the standard library sends
    /// no signals.
    fn stop_this_process() {
        let command = format!("kill -STOP {}", std::process::id());
        let status = std::process::Command::new("sh").arg("-c").arg(command).status();
        assert!(status.is_ok_and(|status| status.success()), "SIGSTOP to this process");
    }
}
