//! Publishes what a message has led to, waits for the broker's confirms, and acknowledges last of all.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use super::context::Context;
use crate::broker::{self, Delivery, Outgoing, Tag};
use crate::checkpoint::{Point, reach};
use crate::outcome::{Message, Settlement};
use crate::retry::Backoff;
use crate::telemetry::{Ended, Stage};

/// A message and how it ends.
#[derive(Debug)]
pub struct Settled {
    /// The message.
    pub delivery: Arc<Delivery>,
    /// Its end.
    pub settlement: Settlement,
}

/// What must be confirmed before a delivery may be acknowledged.
struct Open {
    tag: Tag,
    ended: Ended,
    messages: Vec<Outgoing>,
}

/// Settles messages for good: comes back only when each was acknowledged, or its session has ended (it comes again), or the
/// worker stops and a last attempt failed.
pub async fn settle(context: &Context, settled: Vec<Settled>) {
    if settled.is_empty() {
        return;
    }
    let mut on_their_way = Some(context.outbound.set_out(settled.len()));
    reach(&context.holder, Point::BeforeSettle).await;
    let mut open: Vec<Open> = settled.into_iter().map(|settled| publishable(context, settled)).collect();
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    let mut _unpublished;
    loop {
        let failure = publish(context, &mut open).await;
        let (done, rest): (Vec<Open>, Vec<Open>) = open.into_iter().partition(|open| open.messages.is_empty());
        reach(&context.holder, Point::BeforeAck).await;
        if !done.is_empty() {
            context.metrics.ended(done.iter().map(|open| open.ended));
            context.control.ack(done.into_iter().map(|open| open.tag).collect());
            reach(&context.holder, Point::AfterAck).await;
        }
        open = rest;
        let Some(error) = failure else { return };
        let messages = open.len();
        // What cannot be published at once holds nobody up; and it is one line in the log, however long it takes.
        if on_their_way.take().is_some() {
            warn!(%error, messages, "outcomes could not be published; nothing is acknowledged, trying again");
        } else {
            debug!(%error, messages, "outcomes could not be published");
        }
        context.metrics.not_published();
        _unpublished = context.health.cannot_publish(&error);
        if !context.pause_between_attempts(backoff.next_delay()).await {
            warn!(messages = open.len(), "stopping: what could not be published goes back to the queue");
            return;
        }
        open.retain(|open| context.is_live(open.tag));
        if open.is_empty() {
            return;
        }
    }
}

/// Publishes all that is open in one go and drops what was confirmed. Returns one failure, if there was any.
async fn publish(context: &Context, open: &mut [Open]) -> Option<broker::Error> {
    let (owners, messages): (Vec<usize>, Vec<Outgoing>) = (0..)
        .zip(open.iter_mut())
        .flat_map(|(owner, open)| std::mem::take(&mut open.messages).into_iter().map(move |message| (owner, message)))
        .unzip();
    let results = context.metrics.timed(Stage::Publish, context.publisher.publish(&messages)).await;
    let mut failure = None;
    for ((owner, message), result) in owners.into_iter().zip(messages).zip(results) {
        if let Err(error) = result {
            open[owner].messages.push(message);
            failure = Some(error);
        }
    }
    failure
}

/// The messages of one settlement, addressed.
fn publishable(context: &Context, settled: Settled) -> Open {
    let Settled { delivery, settlement } = settled;
    let names = &context.names;
    let address = |message| match message {
        Message::Event { kind, id, body } => Outgoing::event(names, kind, &id.to_string(), body, &delivery),
        Message::DeadLetter { reason, detail } => Outgoing::dead_letter(names, &reason, &detail, &delivery),
        Message::Retry { delay_ms } => Outgoing::retry(names, delay_ms, &delivery),
    };
    let ended = Ended::from(&settlement);
    Open { tag: delivery.tag, ended, messages: settlement.messages().into_iter().map(address).collect() }
}
