//! A delivery becomes an order that waits, or is settled at once because it is none.

use std::sync::Arc;
use std::time::Instant;

use super::settle::Settled;
use super::waiting::Job;
use crate::broker::Delivery;
use crate::config::Settings;
use crate::order::{InvalidCode, Limits, Malformed, Order, parse};
use crate::outcome::Settlement;

/// Reads deliveries in the sequence of their arrival.
#[derive(Debug)]
pub struct Intake {
    limits: Limits,
    arrivals: u64,
}

impl Intake {
    /// Nothing has arrived yet.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let limits = Limits {
            max_bytes: settings.broker.max_message_bytes,
            max_lines: settings.order.max_lines,
            max_quantity: settings.order.max_quantity,
        };
        Self { limits, arrivals: 0 }
    }

    /// Reads one delivery.
    ///
    /// # Errors
    /// Not an error of the worker: a message that can never be processed, with the reason for its sender.
    pub fn read(&mut self, delivery: Delivery) -> Result<Job, Settled> {
        self.arrivals += 1;
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
