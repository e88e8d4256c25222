//! Metrics: every name in one place, as `docs/OPERATIONS.md` explains them.
//!
//! Labels come from closed sets of this program's own words, never from a message; every series exists from the start, at
//! zero. What is counted per order is one addition to an atomic; locks are taken once per batch at most.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::registering::{Label, counter, counters, gauge, gauges, histogram, histograms, info};
use super::traces;
use crate::health::{Report, Service};
use crate::lease::Cause;
use crate::order::InvalidCode;
use crate::outcome::{Failure, Settlement, dead_letter_reason};
use crate::plan::Reason;

/// The content type of what [`Metrics::render`] writes.
pub const METRICS_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Seconds: from a fast statement to the longest time limit.
const SECONDS: [f64; 15] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Orders in a batch.
const ORDERS: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];

/// A stage in the life of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// Decisions are read of orders that may have been decided before.
    LookUp,
    /// Leases are taken, and counters recovered where Redis forgot them.
    Lease,
    /// Stock is read.
    Read,
    /// The transaction.
    Commit,
    /// Events and dead letters are published and confirmed.
    Publish,
}

const STAGES: Label<5> = ("stage", ["lookup", "lease", "read", "commit", "publish"]);
const CAUSES: Label<3> = ("cause", ["missing", "incarnation", "behind"]);

/// How a message ended, as it is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// Its order is reserved.
    Reserved,
    /// It is a dead letter; the place of its reason among the labels.
    Dead(usize),
    /// It waits in a delay queue.
    Delayed,
}

impl From<&Settlement> for Ended {
    fn from(settlement: &Settlement) -> Self {
        match settlement {
            Settlement::Decided(decided) => decided.rejected.map_or(Self::Reserved, |reason| Self::Dead(place(reason))),
            Settlement::Invalid(malformed) => Self::Dead(Reason::ALL.len() + malformed.code as usize),
            Settlement::Failed { failure: Failure::Internal, .. } => {
                Self::Dead(Reason::ALL.len() + InvalidCode::ALL.len())
            }
            Settlement::Retry { .. } => Self::Delayed,
        }
    }
}

/// A reason's place in [`Reason::ALL`].
fn place(reason: Reason) -> usize {
    Reason::ALL.iter().position(|known| *known == reason).unwrap_or_default()
}

/// The reasons of dead letters, as their routing keys; in the sequence of [`Ended::Dead`].
fn dead_letter_reasons() -> Vec<String> {
    let lost = Reason::ALL.map(|reason| dead_letter_reason(reason).to_owned());
    let invalid = InvalidCode::ALL.map(|code| format!("invalid.{}", code.as_str()));
    lost.into_iter().chain(invalid).chain([format!("failed.{}", Failure::Internal.as_str())]).collect()
}

/// What a worker counts and measures.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    ready: Gauge,
    up: Vec<Gauge>,
    outages: Vec<Counter>,
    messages: Counter,
    redeliveries: Counter,
    reserved: Counter,
    rejected: Vec<Counter>,
    repeated: Counter,
    dead_letters: Vec<Counter>,
    retries: Counter,
    publish_failures: Counter,
    recoveries: Vec<Counter>,
    refusals: Counter,
    lease_waits: Histogram,
    batch_orders: Histogram,
    stages: Vec<Histogram>,
    waiting: Gauge,
    in_flight: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("lastunit");
        let r = &mut registry;
        info(r, "build", "The program", "version", env!("CARGO_PKG_VERSION"));
        let services = ("service", Service::ALL.map(Service::as_str));
        let (reserved, rejected) = decisions(r);
        Self {
            ready: gauge(r, "ready", "1 while the worker is really consuming, as /readyz says"),
            up: gauges(r, "service_up", "1 while the service works for this worker", &services),
            outages: counters(r, "outages", "Times that a service went away", &services),
            messages: counter(r, "messages", "Messages taken from the orders queue, redeliveries included"),
            redeliveries: counter(r, "redeliveries", "Messages that the broker had delivered to somebody before"),
            reserved,
            rejected,
            repeated: counter(r, "decisions_repeated", "Decisions told again to a redelivery or a duplicate"),
            dead_letters: counters(
                r,
                "dead_letters",
                "Dead letters confirmed by the broker",
                &("reason", dead_letter_reasons()),
            ),
            retries: counter(r, "retries", "Messages sent through a delay queue"),
            publish_failures: counter(
                r,
                "publish_failures",
                "Batches of outcomes that the broker did not take at once",
            ),
            recoveries: counters(r, "fence_recoveries", "SKUs whose counter Redis did not know", &CAUSES),
            refusals: counter(r, "fence_refusals", "SKUs for which the fence refused a stale token"),
            lease_waits: histogram(
                r,
                "lease_wait_seconds",
                "How long a SKU that another worker held was waited for",
                &SECONDS,
            ),
            batch_orders: histogram(r, "batch_orders", "Orders in a batch", &ORDERS),
            stages: histograms(r, "stage_seconds", "How long a stage of a batch took", &STAGES, &SECONDS),
            waiting: gauge(r, "waiting_orders", "Orders in memory that wait for their SKUs"),
            in_flight: gauge(r, "batches_in_flight", "Batches before their commit"),
            registry,
        }
    }
}

/// Decisions by outcome and reason; a reservation has none.
fn decisions(registry: &mut Registry) -> (Counter, Vec<Counter>) {
    let outcomes = std::iter::once(("reserved", "")).chain(Reason::ALL.map(|reason| ("rejected", reason.as_str())));
    let labels = outcomes.map(|(outcome, reason)| [("outcome", outcome), ("reason", reason)]);
    let mut all = super::registering::family(registry, "decisions", "Decisions that this worker made durable", labels);
    let rejected = all.split_off(1);
    (all.pop().unwrap_or_default(), rejected)
}

impl Metrics {
    /// A message came in.
    pub fn received(&self, redelivered: bool) {
        self.messages.inc();
        self.redeliveries.inc_by(redelivered.into());
    }

    /// A batch of so many orders starts.
    pub fn batch(&self, orders: usize) {
        self.batch_orders.observe(orders as f64);
    }

    /// What waits, and what is in work.
    pub fn load(&self, waiting: usize, in_flight: usize) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.in_flight.set(i64::try_from(in_flight).unwrap_or(i64::MAX));
    }

    /// Does the work of a stage, and notes how long it took; within the span of a batch in one of its own.
    pub async fn timed<T>(&self, stage: Stage, work: impl Future<Output = T>) -> T {
        let start = Instant::now();
        let done = traces::stage(STAGES.1[stage as usize], work).await;
        self.stages[stage as usize].observe(start.elapsed().as_secs_f64());
        done
    }

    /// Decisions became durable: reserved (`None`), or rejected with a reason.
    pub fn decided(&self, decisions: impl Iterator<Item = Option<Reason>>) {
        for rejected in decisions {
            rejected.map_or(&self.reserved, |reason| &self.rejected[place(reason)]).inc();
        }
    }

    /// Of these settlements, each decision is told again.
    pub fn repeated<'a>(&self, settlements: impl Iterator<Item = &'a Settlement>) {
        let decided = settlements.filter(|settlement| matches!(settlement, Settlement::Decided(_)));
        self.repeated.inc_by(decided.count() as u64);
    }

    /// Messages have ended: what there was to publish is confirmed.
    pub fn ended(&self, messages: impl Iterator<Item = Ended>) {
        for ended in messages {
            match ended {
                Ended::Reserved => {}
                Ended::Dead(reason) => drop(self.dead_letters[reason].inc()),
                Ended::Delayed => drop(self.retries.inc()),
            }
        }
    }

    /// The broker did not take a batch's outcomes.
    pub fn not_published(&self) {
        self.publish_failures.inc();
    }

    /// Counters of so many SKUs were recovered.
    pub fn recovered(&self, cause: Cause, skus: usize) {
        self.recoveries[cause as usize].inc_by(skus as u64);
    }

    /// The fence refused tokens of so many SKUs.
    pub fn refused(&self, skus: usize) {
        self.refusals.inc_by(skus as u64);
    }

    /// SKUs were waited for, because other workers held them.
    pub fn waited(&self, waits: impl Iterator<Item = Duration>) {
        waits.for_each(|wait| self.lease_waits.observe(wait.as_secs_f64()));
    }

    /// All of it in the Prometheus text format.
    #[must_use]
    pub fn render(&self, health: &Report) -> String {
        self.ready.set(health.ready.into());
        let parts = [&health.parts.broker, &health.parts.database, &health.parts.redis];
        for (gauge, part) in self.up.iter().zip(parts) {
            gauge.set(part.ready.into());
        }
        for (counter, outages) in self.outages.iter().zip(health.outages) {
            counter.inner().store(outages, Ordering::Relaxed);
        }
        let mut text = String::new();
        // Writing into a String does not fail.
        prometheus_text::encode(&mut text, &self.registry).map_or_else(|_| String::new(), |()| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;
    use crate::order::Malformed;

    fn text(metrics: &Metrics) -> String {
        metrics.render(&Health::default().report())
    }

    #[test]
    fn every_series_exists_from_the_start_at_zero() {
        let text = text(&Metrics::default());
        for series in [
            "lastunit_decisions_total{outcome=\"reserved\",reason=\"\"} 0",
            "lastunit_decisions_total{outcome=\"rejected\",reason=\"sold-out\"} 0",
            "lastunit_dead_letters_total{reason=\"invalid.unsupported-type\"} 0",
            "lastunit_fence_recoveries_total{cause=\"behind\"} 0",
            "lastunit_service_up{service=\"redis\"} 0",
            "lastunit_stage_seconds_count{stage=\"publish\"} 0",
            "lastunit_waiting_orders 0",
        ] {
            assert!(text.lines().any(|line| line == series), "{series} is missing in:\n{text}");
        }
    }

    #[test]
    fn every_end_is_counted_under_its_own_reason() {
        let metrics = Metrics::default();
        let ends = InvalidCode::ALL.map(|code| Settlement::Invalid(Malformed::new(code, "")));
        let failed = Settlement::Failed { failure: Failure::Internal, detail: String::new() };
        let delayed = Settlement::Retry { delay_ms: 1 };
        metrics.ended(ends.iter().chain([&failed, &delayed]).map(Ended::from));
        let text = text(&metrics);
        for code in InvalidCode::ALL.map(InvalidCode::as_str) {
            assert!(text.contains(&format!("{{reason=\"invalid.{code}\"}} 1")), "{code}:\n{text}");
        }
        assert!(text.contains("{reason=\"failed.internal\"} 1") && text.contains("lastunit_retries_total 1"), "{text}");
    }

    #[test]
    fn causes_are_labelled_by_their_names() {
        let metrics = Metrics::default();
        for (cause, skus) in [(Cause::Missing, 1), (Cause::Incarnation, 2), (Cause::Behind, 3)] {
            metrics.recovered(cause, skus);
        }
        let text = text(&metrics);
        for line in ["{cause=\"missing\"} 1", "{cause=\"incarnation\"} 2", "{cause=\"behind\"} 3"] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
    }
}
