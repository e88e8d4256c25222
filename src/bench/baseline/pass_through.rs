//! What the broker allows: every order is consumed, its event published and confirmed, and acknowledged. No lease, no
//! database; each order is `reserved`. Many messages are on their way at once, and one acknowledgement covers many.

use std::future::Future;
use std::pin::pin;

use chrono::Utc;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt};
use lapin::message::Delivery;
use lapin::options::BasicAckOptions;

use super::super::Error;
use super::link::{Link, Outbox};
use super::read;
use crate::config::Settings;
use crate::outcome::event_body;
use crate::plan::Verdict;

/// Messages that are published together and acknowledged at once.
const TOGETHER: usize = 256;
/// Such lots that wait for their confirms at the same time; `broker.prefetch` keeps all of them busy.
const LOTS: usize = 8;

pub(super) async fn run(
    dead_letters: bool,
    settings: &Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let link = Link::open(&settings.broker, settings.broker.prefetch).await?;
    let outbox = link.outbox.clone();
    let lots = link.consumer.clone().ready_chunks(TOGETHER).map(Ok::<_, Error>);
    let passing = lots.map_ok(|lot| pass(lot, &outbox, dead_letters, settings)).try_buffered(LOTS);
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
    try_join_all(lot.iter().map(|delivery| pass_one(delivery, outbox, dead_letters, settings))).await?;
    Ok(lot.pop())
}

async fn pass_one(delivery: &Delivery, outbox: &Outbox, dead_letters: bool, settings: &Settings) -> Result<(), Error> {
    let order = read(&delivery.data, settings)?;
    let event = event_body(&settings.broker.name_prefix, &order, &Verdict::Reserved, Utc::now(), None);
    let dead = dead_letters.then_some((delivery, "lost-race.sold-out"));
    outbox.publish("reservation.reserved", &event, dead).await
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
