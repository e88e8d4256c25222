//! An AMQP client that knows nothing of the project's own: what a shop would send, and what it would see.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeleteOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use serde_json::Value;

use super::{SOON, eventually};

const PERSISTENT: u8 = 2;
/// Published before their confirms are awaited.
const WINDOW: usize = 1_000;
/// For a message to come out of a long queue.
const EACH: Duration = Duration::from_millis(2);

/// A message as it lay in a queue.
#[derive(Clone, Debug)]
pub struct Message {
    pub routing_key: String,
    pub body: Vec<u8>,
    pub properties: BasicProperties,
}

impl Message {
    /// Its body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|fault| panic!("{fault}: {:?}", self.body))
    }

    /// The order that an event is about.
    pub fn order_id(&self) -> String {
        self.json()["data"]["order_id"].as_str().expect("an event's order_id").to_owned()
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<String> {
        match self.properties.headers().as_ref()?.inner().get(name)? {
            AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
            other => Some(format!("{other:?}")),
        }
    }
}

/// A connection, and the prefix under which a test's exchanges and queues live.
pub struct Rabbit {
    connection: Connection,
    prefix: String,
}

impl Rabbit {
    /// Connects.
    pub async fn connect(url: &str, prefix: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("RabbitMQ");
        Self { connection, prefix: prefix.to_owned() }
    }

    /// `name` under the test's prefix.
    pub fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// Publishes order messages as a shop would, and waits for the broker's confirms.
    pub async fn send<B: AsRef<[u8]>>(&self, bodies: impl IntoIterator<Item = B>) {
        self.publish(bodies.into_iter().map(|body| (body, BasicProperties::default()))).await;
    }

    /// The same, where the broker may refuse; some of it may have been taken then.
    pub async fn try_send(&self, bodies: &[String]) -> Result<(), String> {
        self.try_publish(bodies.iter().map(|body| (body, BasicProperties::default()))).await
    }

    /// The same with properties of one's own.
    pub async fn publish<B: AsRef<[u8]>>(&self, messages: impl IntoIterator<Item = (B, BasicProperties)>) {
        self.try_publish(messages).await.expect("taken by a queue");
    }

    async fn try_publish<B: AsRef<[u8]>>(
        &self,
        messages: impl IntoIterator<Item = (B, BasicProperties)>,
    ) -> Result<(), String> {
        let channel = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let mut pending = Vec::with_capacity(WINDOW);
        for (body, properties) in messages {
            let properties = properties.with_delivery_mode(PERSISTENT);
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let exchange = self.name("orders").into();
            let sent = channel.basic_publish(exchange, "shop.order".into(), options, body.as_ref(), properties).await;
            pending.push(sent.expect("published"));
            if pending.len() == WINDOW {
                confirmed(&mut pending).await?;
            }
        }
        confirmed(&mut pending).await
    }

    /// Collects every outcome event from now on.
    pub async fn listen(&self) -> Listener {
        let channel = self.channel().await;
        let queue = self.name(&format!("test.{}", uuid::Uuid::new_v4().simple()));
        let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.as_str().into(), options, FieldTable::default()).await.expect("a queue");
        let bind = QueueBindOptions::default();
        let exchange = self.name("outcomes").into();
        let bound = channel.queue_bind(queue.as_str().into(), exchange, "#".into(), bind, FieldTable::default());
        bound.await.expect("bound to the outcomes");
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let consuming = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
        let mut consumer = consuming.await.expect("consuming");
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&received);
        tokio::spawn(async move {
            // The channel lives as long as its consumer is read.
            let _channel = channel;
            while let Some(Ok(delivery)) = consumer.next().await {
                let routing_key = delivery.routing_key.to_string();
                let message = Message { routing_key, body: delivery.data, properties: delivery.properties };
                sink.lock().expect("no panic in here").push(message);
            }
        });
        Listener { received }
    }

    /// Keeps every outcome event from now on in a queue that outlives connections and the broker itself.
    pub async fn keep_events(&self, queue: &str) {
        let channel = self.channel().await;
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        channel.queue_declare(self.name(queue).into(), options, arguments).await.expect("a queue");
        let bind = QueueBindOptions::default();
        let exchange = self.name("outcomes").into();
        let bound = channel.queue_bind(self.name(queue).into(), exchange, "#".into(), bind, FieldTable::default());
        bound.await.expect("bound to the outcomes");
    }

    /// Takes everything out of a queue, in its sequence.
    pub async fn drain(&self, queue: &str) -> Vec<Message> {
        let ready = self.count(queue).await as usize;
        if ready == 0 {
            return Vec::new();
        }
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let channel = self.channel().await;
        let consuming = channel.basic_consume(self.name(queue).into(), "".into(), options, FieldTable::default());
        let consumer = consuming.await.expect("a queue to read");
        let taken = consumer.take(ready).map(|delivery| {
            let delivery = delivery.expect("a message");
            let routing_key = delivery.routing_key.to_string();
            Message { routing_key, body: delivery.data, properties: delivery.properties }
        });
        let limit = SOON + EACH * ready as u32;
        tokio::time::timeout(limit, taken.collect()).await.expect("all that was ready")
    }

    /// Messages ready in a queue: none of them is with a consumer.
    pub async fn count(&self, queue: &str) -> u32 {
        self.inspect(queue).await.0
    }

    /// Consumers of a queue.
    pub async fn consumers(&self, queue: &str) -> u32 {
        self.inspect(queue).await.1
    }

    /// Whether there is such a queue.
    pub async fn exists(&self, queue: &str) -> bool {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let channel = self.channel().await;
        channel.queue_declare(self.name(queue).into(), options, FieldTable::default()).await.is_ok()
    }

    /// Declares a queue as the program would not.
    pub async fn declare_otherwise(&self, queue: &str) {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let declared =
            self.channel().await.queue_declare(self.name(queue).into(), options, FieldTable::default()).await;
        declared.expect("a queue of the classic type");
    }

    /// Deletes exchanges and queues. What is not there counts as deleted.
    pub async fn delete(&self, exchanges: &[&str], queues: &[String]) -> lapin::Result<()> {
        for queue in queues {
            let options = QueueDeleteOptions::default();
            self.channel().await.queue_delete(self.name(queue).into(), options).await?;
        }
        for exchange in exchanges {
            let options = ExchangeDeleteOptions::default();
            self.channel().await.exchange_delete(self.name(exchange).into(), options).await?;
        }
        Ok(())
    }

    async fn inspect(&self, queue: &str) -> (u32, u32) {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared =
            self.channel().await.queue_declare(self.name(queue).into(), options, FieldTable::default()).await;
        let declared = declared.unwrap_or_else(|fault| panic!("{}: {fault}", self.name(queue)));
        (declared.message_count(), declared.consumer_count())
    }

    /// A refusal closes the channel it came on: each piece of work has its own.
    async fn channel(&self) -> Channel {
        self.connection.create_channel().await.expect("a channel")
    }
}

async fn confirmed(pending: &mut Vec<lapin::PublisherConfirm>) -> Result<(), String> {
    let mut refused = Ok(());
    for confirm in pending.drain(..) {
        match confirm.await.expect("the broker's answer") {
            Confirmation::Ack(None) => {}
            other => refused = Err(format!("not taken by a queue: {other:?}")),
        }
    }
    refused
}

/// Outcome events as they come in.
pub struct Listener {
    received: Arc<Mutex<Vec<Message>>>,
}

impl Listener {
    /// What has come so far.
    pub fn events(&self) -> Vec<Message> {
        self.received.lock().expect("no panic in there").clone()
    }

    /// How many have come so far.
    pub fn len(&self) -> usize {
        self.received.lock().expect("no panic in there").len()
    }

    /// Waits until so many have come, repetitions included.
    pub async fn wait_for(&self, events: usize, deadline: Duration) -> Vec<Message> {
        eventually(&format!("{events} outcome events"), deadline, async || {
            if self.len() < events { Err(format!("{} events", self.len())) } else { Ok(self.events()) }
        })
        .await
    }
}
