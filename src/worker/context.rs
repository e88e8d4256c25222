//! What every part of a worker has in hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::broker::{Control, Delivery, Names, Publisher, Tag};
use crate::config::Settings;
use crate::health::Health;
use crate::lease::{self, Leases};
use crate::ledger::{self, Ledger};
use crate::telemetry::{Metrics, Span};

/// The worker's connections and settings, shared by its tasks.
#[derive(Debug)]
pub struct Context {
    /// All settings.
    pub settings: Settings,
    /// Exchanges and queues.
    pub names: Names,
    /// The database.
    pub ledger: Ledger,
    /// Redis.
    pub leases: Leases,
    /// The publishing side of the broker.
    pub publisher: Publisher,
    /// The consuming side.
    pub control: Control,
    /// This worker's name, in leases and logs.
    pub holder: String,
    /// What it tells about itself.
    pub health: Arc<Health>,
    /// What it counts and measures.
    pub metrics: Arc<Metrics>,
    /// How senders behave.
    pub duplicates: Duplicates,
    /// Messages whose outcomes are on their way to the broker.
    pub outbound: Outbound,
    /// Sessions up to this one have ended: their deliveries come again.
    ended_session: AtomicU64,
    /// The worker has been told to stop.
    draining: watch::Sender<bool>,
}

impl Context {
    /// Puts the parts together.
    #[must_use]
    pub fn new(parts: super::Parts, control: Control) -> Self {
        let super::Parts { settings, ledger, leases, publisher, holder, health, metrics } = parts;
        let names = Names::new(&settings.broker.name_prefix);
        Self {
            settings,
            names,
            ledger,
            leases,
            publisher,
            control,
            holder,
            health,
            metrics,
            duplicates: Duplicates::default(),
            outbound: Outbound::default(),
            ended_session: AtomicU64::new(0),
            draining: watch::Sender::new(false),
        }
    }

    /// Begins the span of messages that go through together.
    pub fn begin_span<'a>(&self, messages: usize, deliveries: impl Iterator<Item = &'a Delivery>) -> Span {
        Span::batch(|| self.names.orders(), messages, deliveries.filter_map(Delivery::trace))
    }

    /// A session has ended.
    pub fn end_session(&self, session: u64) {
        self.ended_session.fetch_max(session, Ordering::Relaxed);
    }

    /// The worker has been told to stop: nothing is tried again for long.
    pub fn begin_drain(&self) {
        self.draining.send_replace(true);
    }

    /// Waits before the next attempt, or until the worker is told to stop; whether it makes sense to try again.
    pub async fn pause_between_attempts(&self, pause: Duration) -> bool {
        let mut draining = self.draining.subscribe();
        if *draining.borrow_and_update() {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Once more, and no more.
            _told = draining.wait_for(|draining| *draining) => {}
        }
        true
    }

    /// Whether an acknowledgement of this delivery can still reach the broker.
    #[must_use]
    pub fn is_live(&self, tag: Tag) -> bool {
        tag.session > self.ended_session.load(Ordering::Relaxed)
    }
}

/// A batch that inserts an order that was decided before is rolled back as a whole. After that has happened, so many
/// batches look first.
const LOOK_FIRST: u32 = 100;

/// Whether orders come that were decided before, by what the last batches ran into.
#[derive(Debug, Default)]
pub struct Duplicates(AtomicU32);

impl Duplicates {
    /// One came.
    pub fn seen(&self) {
        self.0.store(LOOK_FIRST, Ordering::Relaxed);
    }

    /// Asked once by each batch: whether it should look before it inserts.
    pub fn are_likely(&self) -> bool {
        let count_down = |left: u32| left.checked_sub(1);
        self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, count_down).is_ok()
    }
}

/// Messages that are decided and not acknowledged yet.
#[derive(Debug, Default)]
pub struct Outbound(AtomicUsize);

impl Outbound {
    /// So many set out; they have arrived when this is dropped.
    pub fn set_out(&self, messages: usize) -> impl Drop {
        self.0.fetch_add(messages, Ordering::Relaxed);
        Arrival { outbound: self, messages }
    }

    /// How many are on their way.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

struct Arrival<'a> {
    outbound: &'a Outbound,
    messages: usize,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.outbound.0.fetch_sub(self.messages, Ordering::Relaxed);
    }
}

/// A service failed: the orders are as they were, and go back to where they waited.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The database.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// Redis.
    #[error(transparent)]
    Lease(#[from] lease::Error),
}
