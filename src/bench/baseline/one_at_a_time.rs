//! The worker as one writes it by hand: each task takes a message, its own leases, its own transaction, publishes, waits
//! for the confirm, acknowledges. Connections are shared and pooled, statements prepared, confirms and acknowledgements
//! of different tasks travel together.

use std::future::Future;
use std::sync::Arc;

use chrono::{SubsecRound, Utc};
use futures_util::StreamExt;
use futures_util::stream::Fuse;
use lapin::Consumer;
use lapin::message::Delivery;
use lapin::options::BasicAckOptions;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::super::Error;
use super::lease::Leases;
use super::link::{DeadLetter, Link, Outbox};
use super::read;
use super::shelf::Shelf;
use crate::config::Settings;
use crate::outcome::event_body;
use crate::plan::{Reason, Verdict};

/// What all tasks share.
struct Worker {
    settings: Settings,
    /// Fused: each task shall see its end.
    consumer: Mutex<Fuse<Consumer>>,
    outbox: Outbox,
    leases: Leases,
    shelf: Shelf,
}

pub(super) async fn run(tasks: u16, settings: &Settings, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    // The next message is there when a task has finished its last.
    let link = Link::open(&settings.broker, tasks.saturating_mul(2)).await?;
    let worker = Arc::new(Worker {
        settings: settings.clone(),
        consumer: Mutex::new(link.consumer.clone().fuse()),
        outbox: link.outbox.clone(),
        leases: Leases::connect(&settings.redis, settings.lease.ttl_ms.0).await?,
        shelf: Shelf::open(&settings.database, tasks.into()).await?,
    });
    let mut working = JoinSet::new();
    for _ in 0..tasks {
        let worker = Arc::clone(&worker);
        working.spawn(async move { worker.work().await });
    }
    tokio::pin!(shutdown);
    let mut stopping = false;
    while !working.is_empty() {
        tokio::select! {
            ended = working.join_next() => ended.transpose()?.transpose()?.unwrap_or_default(),
            () = &mut shutdown, if !stopping => {
                link.stop().await?;
                stopping = true;
            }
        }
    }
    link.close().await
}

impl Worker {
    async fn work(&self) -> Result<(), Error> {
        loop {
            let next = self.consumer.lock().await.next().await;
            let Some(delivery) = next else { return Ok(()) };
            self.handle(&delivery?).await?;
        }
    }

    async fn handle(&self, delivery: &Delivery) -> Result<(), Error> {
        let mut order = read(&delivery.data, &self.settings)?;
        // The same sequence everywhere: two orders never wait for each other.
        order.lines.sort_by(|a, b| a.sku.cmp(&b.sku));
        let held = self.leases.acquire(order.lines.iter().map(|line| line.sku.as_str())).await?;
        let now = Utc::now().trunc_subsecs(3);
        let source = &self.settings.broker.name_prefix;
        let reserved = event_body(source, &order, &Verdict::Reserved, now, None);
        let taken = self.shelf.reserve(&order, &held.tokens, reserved, now).await?;
        let (kind, event, lost) = match taken {
            Some(event) => ("reservation.reserved", event, None),
            None => {
                let sold_out = Verdict::Rejected { reason: Reason::SoldOut, short: Vec::new() };
                let event = event_body(source, &order, &sold_out, now, None);
                self.shelf.reject(&order, event.clone(), now).await?;
                ("reservation.rejected", event, Some(DeadLetter { order: delivery, detail: "{}".to_owned() }))
            }
        };
        self.leases.release(held).await?;
        self.outbox.publish(kind, &order.id, &event, lost).await?.confirmed().await?;
        if delivery.acker.ack(BasicAckOptions::default()).await? { Ok(()) } else { Err(Error::Unconfirmed) }
    }
}
