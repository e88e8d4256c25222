//! Exchanges and queues: what there should be, declaring it, and saying what differs.

use std::time::Duration;

use lapin::Connection;
use lapin::options::{ExchangeDeleteOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use serde::Serialize;

use super::connection::{self, within};
use super::inspector::Inspector;
use super::names::{DeadQueue, Names};
use super::{Error, headers};
use crate::config;

/// A delivery limit that nothing reaches. Each look at a dead letter counts as a delivery, RabbitMQ 4 would apply 20
/// when there is none, and -1 drops messages on 3.10.
const UNBOUNDED_DELIVERIES: u64 = 1_000_000_000;

/// What there should be on the broker.
#[derive(Clone, Debug)]
pub struct Topology {
    exchanges: Vec<String>,
    queues: Vec<Queue>,
    declare: bool,
    limit: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) arguments: FieldTable,
    /// Exchange and routing key.
    pub(super) binding: Option<(String, String)>,
}

/// An exchange or a queue, and how it was found.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// `exchange` or `queue`.
    pub kind: &'static str,
    /// Its full name.
    pub name: String,
    /// How it was found.
    #[serde(flatten)]
    pub state: State,
}

/// How an exchange or a queue was found.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "state", content = "detail", rename_all = "lowercase")]
pub enum State {
    /// It was there. Its arguments are as they should be, unless only its existence could be verified
    /// (`broker.declare = false`: the protocol compares arguments only when declaring).
    Present,
    /// It was not there, and now is.
    Created,
    /// It is not there, and must not be declared.
    Missing,
    /// It is there, but otherwise; what the broker says.
    Differs(String),
}

impl Topology {
    /// What the settings ask for.
    #[must_use]
    pub fn new(broker: &config::Broker, retry: &config::Retry) -> Self {
        let names = Names::new(&broker.name_prefix);
        let mut queues = vec![orders(&names, broker.delivery_limit)];
        let mut delays = retry.delays_ms.clone();
        delays.sort_unstable();
        delays.dedup();
        queues.extend(delays.into_iter().map(|delay_ms| delay(&names, delay_ms)));
        queues.extend(DeadQueue::ALL.map(|queue| dead(&names, queue)));
        Self {
            exchanges: vec![names.orders(), names.outcomes(), names.dead()],
            queues,
            declare: broker.declare,
            limit: broker.call_timeout_ms.duration(),
        }
    }

    /// Looks at everything on a connection of its own, and declares what is missing where the settings allow it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Refused`]; what is missing or differs is not an error, but in the items.
    pub async fn inspect(&self, settings: &config::Broker) -> Result<Vec<Item>, Error> {
        let connection = connection::open(settings, "topology").await?;
        let items = self.inspect_on(&connection, true).await?;
        within(self.limit, "closing", connection.close(200, "done".into())).await?;
        Ok(items)
    }

    /// The same, as a condition for work.
    pub(super) async fn require(&self, connection: &Connection) -> Result<(), Error> {
        let items = self.inspect_on(connection, false).await?;
        problems(&items).map_or(Ok(()), |problems| Err(Error::Topology(problems)))
    }

    /// `look_first` tells what was created from what was there, at twice the number of calls.
    async fn inspect_on(&self, connection: &Connection, look_first: bool) -> Result<Vec<Item>, Error> {
        let (declare, limit) = (self.declare, self.limit);
        let mut inspector = Inspector { connection, channel: None, limit, declare, look: look_first || !declare };
        let mut items = Vec::with_capacity(self.exchanges.len() + self.queues.len());
        for name in &self.exchanges {
            let state = inspector.exchange(name).await?;
            items.push(Item { kind: "exchange", name: name.clone(), state });
        }
        for queue in &self.queues {
            let state = inspector.queue(queue).await?;
            items.push(Item { kind: "queue", name: queue.name.clone(), state });
        }
        inspector.finish().await?;
        Ok(items)
    }

    /// Deletes all of it with everything inside: for tests and the demo, which own their prefix.
    ///
    /// # Errors
    /// See [`Error`]. What does not exist is no error.
    pub async fn delete(&self, settings: &config::Broker) -> Result<(), Error> {
        let connection = connection::open(settings, "topology").await?;
        let channel = within(self.limit, "opening a channel", connection.create_channel()).await?;
        for queue in &self.queues {
            let deleting = channel.queue_delete(headers::short(&queue.name), QueueDeleteOptions::default());
            within(self.limit, "deleting a queue", deleting).await?;
        }
        for name in &self.exchanges {
            let deleting = channel.exchange_delete(headers::short(name), ExchangeDeleteOptions::default());
            within(self.limit, "deleting an exchange", deleting).await?;
        }
        within(self.limit, "closing a channel", channel.close(200, "done".into())).await?;
        within(self.limit, "closing", connection.close(200, "done".into())).await
    }
}

/// What is wrong and how to mend it, a line for what is missing and one for each that differs; `None` when all is well.
#[must_use]
pub fn problems(items: &[Item]) -> Option<String> {
    let mut lines = Vec::new();
    let missing = items.iter().filter(|item| item.state == State::Missing);
    let missing: Vec<String> = missing.map(|Item { kind, name, .. }| format!("{kind} {name}")).collect();
    if !missing.is_empty() {
        lines.push(format!(
            "missing on the broker: {}. To mend: run `lastunit topology` with broker.declare = true as a user who may \
             configure them",
            missing.join(", ")
        ));
    }
    for Item { kind, name, state } in items {
        if let State::Differs(told) = state {
            lines.push(format!(
                "{kind} {name} is not as the settings want it: {told}. To mend: set broker.delivery_limit back to what \
                 it was, or take another broker.name_prefix, or, once it is empty and unused, delete it \
                 (`rabbitmqctl delete_queue {name}` for a queue) and run `lastunit topology`"
            ));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The queue that workers consume. It dead-letters at least once, which needs `reject-publish`.
fn orders(names: &Names, delivery_limit: u32) -> Queue {
    let mut arguments = quorum(u64::from(delivery_limit));
    dead_letters_to(&mut arguments, &names.dead(), "failed.delivery-limit");
    Queue { name: names.orders(), arguments, binding: Some((names.orders(), "#".into())) }
}

/// A queue that gives its messages back to the orders queue after a while. One queue per delay: a TTL per message would
/// block at the head.
fn delay(names: &Names, delay_ms: u64) -> Queue {
    let mut arguments = quorum(UNBOUNDED_DELIVERIES);
    dead_letters_to(&mut arguments, "", &names.orders());
    arguments.insert("x-message-ttl".into(), headers::integer(delay_ms));
    Queue { name: names.retry(delay_ms), arguments, binding: None }
}

fn dead(names: &Names, queue: DeadQueue) -> Queue {
    let binding = (names.dead(), format!("{}.#", queue.as_str()));
    Queue { name: names.dead_queue(queue), arguments: quorum(UNBOUNDED_DELIVERIES), binding: Some(binding) }
}

fn quorum(delivery_limit: u64) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), headers::text("quorum"));
    arguments.insert("x-delivery-limit".into(), headers::integer(delivery_limit));
    arguments
}

fn dead_letters_to(arguments: &mut FieldTable, exchange: &str, routing_key: &str) {
    let pairs: [(&str, AMQPValue); 4] = [
        ("x-dead-letter-exchange", headers::text(exchange)),
        ("x-dead-letter-routing-key", headers::text(routing_key)),
        ("x-dead-letter-strategy", headers::text("at-least-once")),
        ("x-overflow", headers::text("reject-publish")),
    ];
    for (key, value) in pairs {
        arguments.insert(key.into(), value);
    }
}
