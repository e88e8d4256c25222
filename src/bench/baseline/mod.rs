//! The contenders that are not lastunit, as honest as can be: pooled, prepared, pipelined. They keep none of the promises.

mod lease;
mod link;
mod one_at_a_time;
mod pass_through;
mod shelf;

use std::future::Future;

use super::Error;
use crate::config::Settings;
use crate::order::{Limits, Order, parse};

/// Which baseline.
#[derive(Clone, Copy, Debug)]
pub enum Baseline {
    /// No lease and no database.
    PassThrough {
        /// Whether each order gets a dead letter beside its event.
        dead_letters: bool,
    },
    /// A lease and a transaction per message.
    OneAtATime {
        /// Messages in work at the same time.
        tasks: u16,
    },
}

/// Works until `shutdown`, then finishes what it has and gives the rest back.
///
/// # Errors
/// See [`Error`]: a baseline survives nothing.
pub async fn run(baseline: Baseline, settings: &Settings, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    match baseline {
        Baseline::PassThrough { dead_letters } => pass_through::run(dead_letters, settings, shutdown).await,
        Baseline::OneAtATime { tasks } => one_at_a_time::run(tasks, settings, shutdown).await,
    }
}

/// Reads an order as the worker does.
fn read(body: &[u8], settings: &Settings) -> Result<Order, Error> {
    let limits = Limits {
        max_bytes: settings.broker.max_message_bytes,
        max_lines: settings.order.max_lines,
        max_quantity: settings.order.max_quantity,
    };
    parse(body, &limits).map_err(|malformed| Error::Order(malformed.to_string()))
}
