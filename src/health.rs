//! Whether the worker lives, and whether it is really consuming: what `/livez` and `/readyz` tell.
//!
//! [`Readiness`] is PURE and holds the rules; [`Health`] shares one between the worker's parts. Nothing here is on the path
//! of an order: it is told of changes, and of each turn of the worker's loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// The worker's loop turns at least this often, whether there is work or not.
const BEAT: Duration = Duration::from_secs(1);
/// A loop that has not turned for so long hangs.
const STUCK_AFTER: Duration = Duration::from_secs(15);

/// What a worker cannot work without.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Service {
    /// A subscription to the orders queue on a live channel, and confirms of what is published.
    Broker,
    /// The ledger's database.
    Database,
    /// The lease server.
    Redis,
}

impl Service {
    /// All services, in the sequence of [`Report::outages`].
    pub const ALL: [Self; 3] = [Self::Broker, Self::Database, Self::Redis];

    /// As it stands in answers and labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Database => "database",
            Self::Redis => "redis",
        }
    }
}

/// Where the worker is in its life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Its services are being opened.
    Starting,
    /// It takes orders.
    Working,
    /// It finishes what is in flight and takes nothing new.
    Draining,
}

/// PURE. Which parts are ready, and why others are not.
#[derive(Clone, Debug)]
pub struct Readiness {
    phase: Phase,
    /// Why a service is not there, in the sequence of [`Service::ALL`].
    away: [Option<String>; 3],
    outages: [u64; 3],
    /// Batches whose outcomes the broker does not take, and what it said last.
    unpublished: usize,
    refusal: String,
}

impl Default for Readiness {
    /// A worker that starts: nothing is there yet, which is no outage.
    fn default() -> Self {
        let not_yet = Some("not connected yet".to_owned());
        let away = [not_yet.clone(), not_yet.clone(), not_yet];
        Self { phase: Phase::Starting, away, outages: [0; 3], unpublished: 0, refusal: String::new() }
    }
}

impl Readiness {
    /// It comes into another phase.
    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// A service has failed. What was there before has an outage now.
    pub fn away(&mut self, service: Service, reason: String) {
        if self.away[service as usize].replace(reason).is_none() {
            self.outages[service as usize] += 1;
        }
    }

    /// A service is not used for now, by our own wish.
    pub fn unused(&mut self, service: Service, reason: &str) {
        self.away[service as usize].get_or_insert_with(|| reason.to_owned());
    }

    /// A service works.
    pub fn back(&mut self, service: Service) {
        self.away[service as usize] = None;
    }

    /// What is to be told, for a loop that last turned so long ago.
    #[must_use]
    pub fn report(&self, turned_ago: Duration) -> Report {
        let [broker, database, redis] = self.away.clone();
        let refused = || (self.unpublished > 0).then(|| format!("outcomes cannot be published: {}", self.refusal));
        let worker = match self.phase {
            Phase::Starting => Some("starting".to_owned()),
            Phase::Draining => Some("draining".to_owned()),
            Phase::Working => (turned_ago >= STUCK_AFTER)
                .then(|| format!("the worker's loop has not turned for {} s", turned_ago.as_secs())),
        };
        let alive = self.phase != Phase::Working || worker.is_none();
        let parts = Parts {
            broker: broker.or_else(refused).into(),
            database: database.into(),
            redis: redis.into(),
            worker: worker.into(),
        };
        let ready = parts.broker.ready && parts.database.ready && parts.redis.ready && parts.worker.ready;
        Report { alive, ready, parts, outages: self.outages }
    }
}

/// What is told about a worker's health.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Report {
    /// The loop turns.
    #[serde(skip)]
    pub alive: bool,
    /// Every part is ready.
    pub ready: bool,
    /// Each of them.
    pub parts: Parts,
    /// How often each service went away, in the sequence of [`Service::ALL`].
    #[serde(skip)]
    pub outages: [u64; 3],
}

/// The parts of a worker that must be ready.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Parts {
    /// Subscribed on a live channel, and able to publish.
    pub broker: Part,
    /// No outage.
    pub database: Part,
    /// No outage.
    pub redis: Part,
    /// Started, turning, and not draining.
    pub worker: Part,
}

/// One part.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Part {
    /// Whether it is ready.
    pub ready: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<Option<String>> for Part {
    fn from(reason: Option<String>) -> Self {
        Self { ready: reason.is_none(), reason }
    }
}

/// One worker's health, shared by its parts.
#[derive(Debug)]
pub struct Health {
    started: Instant,
    /// When the loop last turned, milliseconds after the start.
    turned_ms: AtomicU64,
    readiness: Mutex<Readiness>,
}

impl Default for Health {
    fn default() -> Self {
        Self { started: Instant::now(), turned_ms: AtomicU64::new(0), readiness: Mutex::default() }
    }
}

impl Health {
    /// The readiness, to be told of a change.
    pub fn lock(&self) -> MutexGuard<'_, Readiness> {
        self.readiness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop turns, and must turn again by the time returned, which is no later than its own alarm.
    pub fn turned(&self, alarm: Option<Instant>) -> Instant {
        let now = Instant::now();
        let ms = u64::try_from((now - self.started).as_millis()).unwrap_or(u64::MAX);
        self.turned_ms.store(ms, Ordering::Relaxed);
        alarm.map_or(now + BEAT, |alarm| alarm.min(now + BEAT))
    }

    /// A batch's outcomes are not taken by the broker; until the guard is dropped.
    pub fn cannot_publish(&self, error: &impl ToString) -> Unpublished<'_> {
        let mut readiness = self.lock();
        readiness.unpublished += 1;
        readiness.refusal = error.to_string();
        Unpublished(self)
    }

    /// What is to be told now.
    #[must_use]
    pub fn report(&self) -> Report {
        let turned = Duration::from_millis(self.turned_ms.load(Ordering::Relaxed));
        self.lock().report(self.started.elapsed().saturating_sub(turned))
    }
}

/// As long as it lives, a batch waits for the broker to take its outcomes.
#[derive(Debug)]
pub struct Unpublished<'a>(&'a Health);

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        self.0.lock().unpublished -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn working() -> Readiness {
        let mut readiness = Readiness::default();
        readiness.enter(Phase::Working);
        Service::ALL.into_iter().for_each(|service| readiness.back(service));
        readiness
    }

    #[test]
    fn a_worker_is_ready_once_it_works_and_every_service_is_there() {
        let mut readiness = Readiness::default();
        readiness.enter(Phase::Working);
        for service in Service::ALL {
            assert!(!readiness.report(NOW).ready, "{service:?} is not there yet");
            readiness.back(service);
        }
        let report = readiness.report(NOW);
        assert!(report.ready && report.alive);
        assert_eq!(report.outages, [0; 3], "what was never there had no outage");
    }

    #[test]
    fn a_service_that_is_away_is_named_with_its_reason_and_counted_once() {
        let mut readiness = working();
        readiness.away(Service::Redis, "timed out".into());
        readiness.away(Service::Redis, "refused".into());
        let report = readiness.report(NOW);
        assert!(!report.ready && report.alive, "starting again would not help");
        assert_eq!(report.parts.redis.reason.as_deref(), Some("refused"));
        assert!(report.parts.broker.ready && report.parts.database.ready && report.parts.worker.ready);
        assert_eq!(report.outages, [0, 0, 1]);
        readiness.back(Service::Redis);
        assert!(readiness.report(NOW).ready);
    }

    #[test]
    fn a_pause_of_our_own_is_no_outage_and_hides_no_reason() {
        let mut readiness = working();
        readiness.unused(Service::Broker, "paused");
        assert!(!readiness.report(NOW).ready);
        assert_eq!(readiness.report(NOW).outages, [0; 3]);
        readiness.away(Service::Broker, "cut".into());
        readiness.unused(Service::Broker, "paused");
        assert_eq!(readiness.report(NOW).parts.broker.reason.as_deref(), Some("cut"));
    }

    #[test]
    fn a_draining_worker_is_alive_and_not_ready() {
        let mut readiness = working();
        readiness.enter(Phase::Draining);
        let report = readiness.report(STUCK_AFTER * 2);
        assert!(report.alive && !report.ready);
        assert_eq!(report.parts.worker.reason.as_deref(), Some("draining"));
    }

    #[test]
    fn a_loop_that_hangs_is_not_alive_but_one_that_has_not_begun_is() {
        let report = working().report(STUCK_AFTER);
        assert!(!report.alive && !report.ready);
        assert!(working().report(STUCK_AFTER - BEAT).alive);
        assert!(Readiness::default().report(STUCK_AFTER).alive);
    }

    #[test]
    fn outcomes_that_cannot_be_published_make_it_not_ready_until_none_is_left() {
        let health = Health::default();
        *health.lock() = working();
        let first = health.cannot_publish(&"no queue takes them");
        let second = health.cannot_publish(&"no queue takes them");
        drop(first);
        let reason = health.report().parts.broker.reason.expect("a reason");
        assert!(reason.contains("no queue takes them"), "{reason}");
        drop(second);
        assert!(health.report().ready);
    }

    #[test]
    fn a_loop_turns_at_its_own_alarm_or_at_the_beat_whatever_is_sooner() {
        let health = Health::default();
        let soon = Instant::now();
        assert_eq!(health.turned(Some(soon)), soon);
        assert!(health.turned(Some(soon + BEAT * 10)) < soon + BEAT * 2);
        assert!(health.turned(None) >= soon + BEAT);
    }
}
