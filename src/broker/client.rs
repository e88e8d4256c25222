//! What senders and onlookers need: publishing orders, counting, looking at dead letters, listening to an exchange.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::{Stream, StreamExt};
use lapin::options::{BasicConsumeOptions, QueueBindOptions, QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, Queue};
use serde::Serialize;
use serde::ser::SerializeMap as _;

use super::connection::{self, within};
use super::look::look;
use super::names::{DeadQueue, Names};
use super::outgoing::Outgoing;
use super::publisher::Publisher;
use super::{Error, headers};
use crate::config;

/// Orders in one batch of [`publish_orders`].
const BATCH: usize = 500;
/// Batches of [`publish_orders`] that wait for their confirms at the same time.
const WINDOW: usize = 4;

/// Sends orders, each an optional message id with its body, and waits for all confirms. `confirmed` is told the number
/// of orders with each batch. Returns how many were confirmed.
///
/// # Errors
/// The first order that was not taken ends it; those whose confirms had come were counted by `confirmed`, others may
/// have been taken too: sending all again is safe, because an order id is decided once.
pub async fn publish_orders(
    publisher: &Publisher,
    names: &Names,
    orders: impl Stream<Item = (Option<String>, Vec<u8>)>,
    mut confirmed: impl FnMut(u64),
) -> Result<u64, Error> {
    let batches = orders.map(|(id, body)| Outgoing::order(names, id.as_deref(), body.into())).chunks(BATCH);
    let mut results = std::pin::pin!(batches.map(async |batch| publisher.publish(&batch).await).buffered(WINDOW));
    let mut total = 0;
    while let Some(batch) = results.next().await {
        let taken = batch.iter().filter(|result| result.is_ok()).count() as u64;
        total += taken;
        confirmed(taken);
        batch.into_iter().collect::<Result<(), Error>>()?;
    }
    Ok(total)
}

/// A look at queues and exchanges, on a connection of its own.
#[derive(Debug)]
pub struct Observer {
    connection: Connection,
    settings: config::Broker,
}

/// The most dead letters that can be looked at in one go: what a prefetch can be.
pub const MOST_LETTERS: u16 = u16::MAX;

/// A dead letter as it lies in its queue.
#[derive(Clone, Debug, Serialize)]
pub struct DeadLetter {
    /// `QUEUE/POSITION`, counted from 1. Changes as others take or add dead letters.
    pub position: String,
    /// Why it died.
    pub reason: String,
    /// From the body, where that can be read.
    pub order_id: Option<String>,
    /// Passes through the delay queues.
    pub attempts: u32,
    /// RFC 3339; `None` when the broker put it there.
    pub died_at: Option<String>,
    /// Names it beyond its position; `None` when the broker put it there.
    pub publish_id: Option<String>,
    /// The properties but for the headers.
    pub properties: serde_json::Value,
    /// The headers, but for the broker's count of looks at it in this queue.
    pub headers: serde_json::Value,
    /// The body as it came in. As JSON: `body`, null when it is no text, and `body_base64`.
    #[serde(flatten, serialize_with = "as_text_and_bytes")]
    pub body: Vec<u8>,
}

impl Observer {
    /// Connects.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn connect(settings: &config::Broker) -> Result<Self, Error> {
        let connection = connection::open(settings, "observer").await?;
        Ok(Self { connection, settings: settings.clone() })
    }

    /// How many messages wait in a queue, those in work not counted.
    ///
    /// # Errors
    /// [`Error::Topology`] when there is no such queue.
    pub async fn count(&self, queue: &str) -> Result<u64, Error> {
        Ok(self.look_at(queue).await?.message_count().into())
    }

    /// How many consumers a queue has.
    ///
    /// # Errors
    /// [`Error::Topology`] when there is no such queue.
    pub async fn consumers(&self, queue: &str) -> Result<u64, Error> {
        Ok(self.look_at(queue).await?.consumer_count().into())
    }

    async fn look_at(&self, queue: &str) -> Result<Queue, Error> {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let channel = self.channel().await?;
        let asking = channel.queue_declare(headers::short(queue), options, FieldTable::default());
        within(self.settings.call_timeout_ms.duration(), &format!("counting {queue}"), asking).await
    }

    /// Deletes what waits in a queue, and says how many that was.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn purge(&self, queue: &str) -> Result<u64, Error> {
        let channel = self.channel().await?;
        let purging = channel.queue_purge(headers::short(queue), QueuePurgeOptions::default());
        let limit = self.settings.call_timeout_ms.duration();
        within(limit, &format!("purging {queue}"), purging).await.map(u64::from)
    }

    /// Looks at the first dead letters of a queue, at most [`MOST_LETTERS`], and gives them back. Each look counts as a
    /// delivery, which is why these queues have a limit that nothing reaches; and what was looked at may come back in other
    /// places. Nobody else sees them meanwhile.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn dead_letters(&self, queue: DeadQueue, most: u16) -> Result<Vec<DeadLetter>, Error> {
        let limit = self.settings.call_timeout_ms.duration();
        let name = Names::new(&self.settings.name_prefix).dead_queue(queue);
        let messages = look(&self.channel().await?, &name, most, limit).await?;
        Ok((1..).zip(messages).map(|(position, message)| DeadLetter::new(queue, position, message)).collect())
    }

    /// Copies of what is published to an exchange from now on, as far as its routing key fits the pattern.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn listen(&self, exchange: &str, pattern: &str) -> Result<Listener, Error> {
        let limit = self.settings.call_timeout_ms.duration();
        let channel = self.channel().await?;
        let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..Default::default() };
        let declaring = channel.queue_declare("".into(), options, FieldTable::default());
        let queue = within(limit, "declaring a listener's queue", declaring).await?.name().clone();
        let (from, key) = (headers::short(exchange), headers::short(pattern));
        let binding = channel.queue_bind(queue.clone(), from, key, QueueBindOptions::default(), FieldTable::default());
        within(limit, "binding a listener's queue", binding).await?;
        let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
        let consuming = channel.basic_consume(queue, "".into(), options, FieldTable::default());
        Ok(Listener { stream: within(limit, "listening", consuming).await?, _channel: channel })
    }

    async fn channel(&self) -> Result<Channel, Error> {
        let opening = self.connection.create_channel();
        within(self.settings.call_timeout_ms.duration(), "opening a channel", opening).await
    }
}

/// Hears what is published to an exchange, for as long as it lives.
#[derive(Debug)]
pub struct Listener {
    stream: lapin::Consumer,
    /// Dropping it would close it.
    _channel: Channel,
}

/// What a [`Listener`] heard.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The routing key it was published with.
    pub routing_key: String,
    /// The AMQP message id.
    pub message_id: Option<String>,
    /// The headers.
    pub headers: serde_json::Value,
    /// The body.
    pub body: Vec<u8>,
}

impl Listener {
    /// The next message.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the connection is lost; what is published from then on is not heard.
    pub async fn next(&mut self) -> Result<Heard, Error> {
        match self.stream.next().await {
            Some(Ok(message)) => Ok(Heard {
                routing_key: message.routing_key.to_string(),
                message_id: message.properties.message_id().as_ref().map(ToString::to_string),
                headers: message.properties.headers().as_ref().map(headers::to_json).unwrap_or_default(),
                body: message.data,
            }),
            Some(Err(fault)) => Err(connection::classify("listening", &fault)),
            None => Err(Error::Unavailable("the broker cancelled the subscription".into())),
        }
    }
}

impl DeadLetter {
    fn new(queue: DeadQueue, position: usize, message: lapin::message::Delivery) -> Self {
        let mut table = message.properties.headers().clone().unwrap_or_default().inner().clone();
        // Every look counts; it would be taken for a count of what happened to the order.
        table.remove(headers::DELIVERY_COUNT);
        let table = FieldTable::from(table);
        let header = |name| table.inner().get(name);
        let text = |name| header(name).and_then(headers::as_text).map(str::to_owned);
        let body: Option<serde_json::Value> = serde_json::from_slice(&message.data).ok();
        Self {
            position: format!("{}/{position}", queue.as_str()),
            reason: text(headers::REASON).unwrap_or_else(|| message.routing_key.to_string()),
            order_id: body.and_then(|body| body.get("order_id")?.as_str().map(str::to_owned)),
            attempts: header(headers::ATTEMPTS).map_or(0, headers::as_count),
            died_at: text(headers::DIED_AT),
            publish_id: text(headers::PUBLISH_ID),
            properties: properties(&message.properties),
            headers: headers::to_json(&table),
            body: message.data,
        }
    }
}

fn properties(from: &BasicProperties) -> serde_json::Value {
    let mut fields = serde_json::Map::new();
    let texts = [
        ("content_type", from.content_type()),
        ("content_encoding", from.content_encoding()),
        ("correlation_id", from.correlation_id()),
        ("reply_to", from.reply_to()),
        ("message_id", from.message_id()),
        ("type", from.kind()),
        ("app_id", from.app_id()),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value.as_str().into());
        }
    }
    if let Some(seconds) = from.timestamp() {
        fields.insert("timestamp".to_owned(), (*seconds).into());
    }
    if let Some(priority) = from.priority() {
        fields.insert("priority".to_owned(), (*priority).into());
    }
    fields.into()
}

fn as_text_and_bytes<S: serde::Serializer>(body: &[u8], to: S) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_map(Some(2))?;
    fields.serialize_entry("body", &std::str::from_utf8(body).ok())?;
    fields.serialize_entry("body_base64", &BASE64_STANDARD.encode(body))?;
    fields.end()
}
