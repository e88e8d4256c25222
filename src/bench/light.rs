//! Light load: orders at fixed times, whatever became of those before, and how long each took to its event.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::task::JoinSet;

use super::Error;
use super::listener::Listener;
use super::measure::{Run, Session, Watch};
use super::workload::{Orders, number_of};
use crate::broker::{Names, Outgoing, Publisher};

/// 200 orders a second.
const EVERY: Duration = Duration::from_millis(5);

/// The part of an event that tells whose it is.
#[derive(Deserialize)]
struct Subject {
    subject: String,
}

/// Sends orders for `lasting` and waits for all their events. Times count from when an order *should* have been sent: one that
/// waits behind others has waited.
pub(super) async fn latencies(
    session: &mut Session<'_>,
    run: Run,
    orders: Orders,
    lasting: Duration,
    listener: &mut Listener,
) -> Result<Vec<Duration>, Error> {
    let count = (lasting.as_millis() / EVERY.as_millis()) as usize;
    let start = Instant::now() + EVERY;
    let sending = tokio::spawn(send(session.publisher.clone(), session.names.clone(), orders.take(count), start));
    let mut latencies = Vec::with_capacity(count);
    let mut watch = Watch::new(run);
    while latencies.len() < count {
        tokio::select! {
            event = listener.next() => {
                let event = event?;
                let now = Instant::now();
                let subject = serde_json::from_slice(&event).map(|Subject { subject }| subject).unwrap_or_default();
                // Whoever asked for something else is not our concern.
                let Some(number) = number_of(&subject) else { continue };
                latencies.push(now.saturating_duration_since(start + EVERY * number as u32));
            }
            () = watch.tick() => watch.check(session.crew, latencies.len(), count)?,
        }
    }
    sending.await??;
    Ok(latencies)
}

/// Sends each order at its time; a confirm that takes long delays nobody.
async fn send(
    publisher: Publisher,
    names: Names,
    orders: impl Iterator<Item = (String, Vec<u8>)> + Send + 'static,
    start: Instant,
) -> Result<(), Error> {
    let mut sent = JoinSet::new();
    for (index, (id, body)) in orders.enumerate() {
        tokio::time::sleep_until((start + EVERY * index as u32).into()).await;
        let (publisher, order) = (publisher.clone(), Outgoing::order(&names, Some(&id), body.into()));
        sent.spawn(async move { publisher.publish(&[order]).await });
    }
    for results in sent.join_all().await {
        results.into_iter().collect::<Result<(), _>>()?;
    }
    Ok(())
}
