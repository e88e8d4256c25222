//! A delivery becomes an order that waits, or is settled at once because it is none.

use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use tracing::warn;

use super::settle::Settled;
use super::waiting::Job;
use crate::broker::Delivery;
use crate::config::Settings;
use crate::order::{InvalidCode, Limits, MAX_ID_BYTES, Malformed, Order, parse};
use crate::outcome::Settlement;
use crate::telemetry::Metrics;

/// Reads deliveries in the sequence of their arrival.
#[derive(Debug)]
pub struct Intake {
    limits: Limits,
    arrivals: u64,
    metrics: Arc<Metrics>,
}

impl Intake {
    /// Nothing has arrived yet.
    #[must_use]
    pub fn new(settings: &Settings, metrics: Arc<Metrics>) -> Self {
        let limits = Limits {
            max_bytes: settings.broker.max_message_bytes,
            max_lines: settings.order.max_lines,
            max_quantity: settings.order.max_quantity,
        };
        Self { limits, arrivals: 0, metrics }
    }

    /// Reads one delivery.
    ///
    /// # Errors
    /// Not an error of the worker: a message that can never be processed, with the reason for its sender.
    pub fn read(&mut self, delivery: Delivery) -> Result<Job, Settled> {
        self.arrivals += 1;
        self.metrics.received(delivery.redelivered);
        // It may have been decided by a worker that could not acknowledge it, or while it was on its way back.
        let look_up = delivery.redelivered || delivery.attempts > 0;
        let order = order_of(&delivery, &self.limits);
        let delivery = Arc::new(delivery);
        match order {
            Ok(order) => {
                let order = Arc::new(order);
                Ok(Job { arrival: self.arrivals, arrived: Instant::now(), delivery, order, look_up })
            }
            Err(malformed) => Err(Settled { delivery, settlement: Settlement::Invalid(malformed) }),
        }
    }
}

/// One line for all that were taken in together: how many of each code, and the first as an example. What is wrong with
/// each stands in its dead letter.
pub fn report_malformed(settled: &[Settled]) {
    let code = |settled: &Settled| match &settled.settlement {
        Settlement::Invalid(malformed) => Some(malformed.code),
        Settlement::Decided(_) | Settlement::Failed { .. } | Settlement::Retry { .. } => None,
    };
    let count = |wanted| settled.iter().filter(|settled| code(settled) == Some(wanted)).count();
    let counts = InvalidCode::ALL.map(|code| (code.as_str(), count(code)));
    let counts = counts.iter().filter(|(_, count)| *count > 0).map(|(code, count)| format!("{code} {count}"));
    let codes = counts.collect::<Vec<_>>().join(", ");
    let Some(example) = settled.first() else { return };
    let delivery = &example.delivery;
    warn!(
        messages = settled.len(),
        codes,
        code = code(example).map(InvalidCode::as_str),
        message_id = delivery.message_id(),
        order_id = order_id(&delivery.body),
        "messages that are not orders go to the dead letters"
    );
}

/// The order id of what is not an order, where it has one that can be read.
fn order_id(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        order_id: String,
    }
    let named: Named = serde_json::from_slice(body).ok()?;
    (named.order_id.len() <= MAX_ID_BYTES).then_some(named.order_id)
}

fn order_of(delivery: &Delivery, limits: &Limits) -> Result<Order, Malformed> {
    match delivery.kind.as_deref() {
        None | Some("" | "reserve-last-unit") => {}
        Some(kind) => {
            let detail = format!("the type {kind:?} is not supported; this worker reads reserve-last-unit");
            return Err(Malformed::new(InvalidCode::UnsupportedType, detail));
        }
    }
    match delivery.content_encoding.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "utf-8" | "utf8" | "identity") => parse(&delivery.body, limits),
        Some(encoding) => {
            let detail = format!("the content encoding {encoding:?} is not read; send plain UTF-8");
            Err(Malformed::new(InvalidCode::Encoding, detail))
        }
    }
}
