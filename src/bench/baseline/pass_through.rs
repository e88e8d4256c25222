//! What the broker allows: every order is consumed, its event published and confirmed, and acknowledged. No lease, no
//! database; each order is `reserved`, or else each is rejected, with a dead letter. Many messages are on their way at
//! once, and one acknowledgement covers many.

use std::future::Future;
use std::pin::pin;

use chrono::Utc;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt};
use lapin::message::Delivery;
use lapin::options::BasicAckOptions;
use serde_json::json;

use super::super::Error;
use super::link::{DeadLetter, Link, Outbox, Sent};
use super::read;
use crate::config::Settings;
use crate::order::{Line, Order};
use crate::outcome::event_body;
use crate::plan::{Reason, Short, Verdict};

/// Messages that are published together and acknowledged at once.
const TOGETHER: u16 = 256;
/// Such lots that wait for their confirms at the same time; the prefetch keeps all of them busy.
const LOTS: u16 = 8;

pub(super) async fn run(
    dead_letters: bool,
    settings: &Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let link = Link::open(&settings.broker, LOTS * TOGETHER).await?;
    let outbox = link.outbox.clone();
    let lots = link.consumer.clone().ready_chunks(TOGETHER.into()).map(Ok::<_, Error>);
    let passing = lots.map_ok(|lot| pass(lot, &outbox, dead_letters, settings)).try_buffered(LOTS.into());
    let mut passing = pin!(passing.try_for_each(acknowledge));
    tokio::select! {
        passed = &mut passing => passed?,
        () = shutdown => {
            link.stop().await?;
            passing.await?;
        }
    }
    link.close().await
}

/// Publishes for a lot of orders; returns the last of them.
async fn pass(
    lot: Vec<lapin::Result<Delivery>>,
    outbox: &Outbox,
    dead_letters: bool,
    settings: &Settings,
) -> Result<Option<Delivery>, Error> {
    let mut lot = lot.into_iter().collect::<lapin::Result<Vec<Delivery>>>()?;
    let sent = try_join_all(lot.iter().map(|delivery| pass_one(delivery, outbox, dead_letters, settings))).await?;
    // The last first, as the worker does it: one awakening is enough for all confirms.
    for sent in sent.into_iter().rev() {
        sent.confirmed().await?;
    }
    Ok(lot.pop())
}

async fn pass_one(
    delivery: &Delivery,
    outbox: &Outbox,
    dead_letters: bool,
    settings: &Settings,
) -> Result<Sent, Error> {
    let order = read(&delivery.data, settings)?;
    let (kind, verdict, dead) = if dead_letters {
        let short =
            order.lines.iter().map(|line| Short { sku: line.sku.clone(), requested: line.quantity, available: 0 });
        let verdict = Verdict::Rejected { reason: Reason::SoldOut, short: short.collect() };
        ("reservation.rejected", verdict, Some(DeadLetter { order: delivery, detail: detail(&order) }))
    } else {
        ("reservation.reserved", Verdict::Reserved, None)
    };
    let event = event_body(&settings.broker.name_prefix, &order, &verdict, Utc::now(), None);
    outbox.publish(kind, &order.id, &event, dead).await
}

/// Nothing is left of anything.
fn detail(order: &Order) -> String {
    let short = |line: &Line| json!({ "sku": line.sku.as_str(), "requested": line.quantity, "available": 0 });
    json!({ "short": order.lines.iter().map(short).collect::<Vec<_>>() }).to_string()
}

/// Lots come in their sequence: the last order of one covers all before it.
async fn acknowledge(last: Option<Delivery>) -> Result<(), Error> {
    if let Some(last) = last
        && !last.acker.ack(BasicAckOptions { multiple: true }).await?
    {
        return Err(Error::Unconfirmed);
    }
    Ok(())
}
