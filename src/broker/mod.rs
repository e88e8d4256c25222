//! RabbitMQ: topology, consuming, publishing with confirms.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::config;

/// Why the broker could not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached or does not answer in time; try again later.
    #[error("the broker is unavailable: {0}")]
    Unavailable(String),
    /// Exchanges or queues are not as they should be; the text says what differs and how to mend it. Exit code 78.
    #[error("{0}")]
    Topology(String),
    /// It refused, and would refuse again.
    #[error("the broker refused: {0}")]
    Refused(String),
    /// A mandatory message came back: no queue takes it. Nothing may be acknowledged on its account.
    #[error("no queue takes {0}")]
    Returned(String),
}

/// Names a delivery for its acknowledgement: tags of an ended session mean nothing.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tag {
    /// Counts the channels on which this worker consumed.
    pub session: u64,
    /// The broker's delivery tag on that channel.
    pub delivery: u64,
}

/// A message that came in. Its AMQP properties stay inside, for publishing it again.
#[derive(Debug)]
pub struct Delivery {
    /// For its acknowledgement.
    pub tag: Tag,
    /// The body as it came.
    pub body: Vec<u8>,
    /// The AMQP `type`; `None` when absent.
    pub kind: Option<String>,
    /// The AMQP `content_encoding`; `None` when absent.
    pub content_encoding: Option<String>,
    /// Delivered before, by the broker's word.
    pub redelivered: bool,
    /// Passes through the delay queues, by our own header; 0 the first time.
    pub attempts: u32,
}

#[cfg(test)]
impl Delivery {
    pub(crate) fn example(body: Vec<u8>) -> Self {
        let tag = Tag { session: 1, delivery: 1 };
        Self { tag, body, kind: None, content_encoding: None, redelivered: false, attempts: 0 }
    }
}

/// What a consumer reports.
#[derive(Debug)]
pub enum Event {
    /// A message.
    Delivery(Delivery),
    /// A session ended: its deliveries come again, on the next one. Drop what has not been worked on.
    Lost {
        /// All tags of it mean nothing any more.
        session: u64,
    },
}

/// A message to be published.
#[derive(Clone, Debug)]
pub struct Outgoing {}

impl Outgoing {
    /// An outcome event: exchange `outcomes`, routing key = type. Carries the delivery's trace context.
    #[must_use]
    pub fn event(names: &Names, kind: &str, event_id: &str, body: Vec<u8>, cause: &Delivery) -> Self {
        todo!("{names:?} {kind} {event_id} {body:?} {cause:?}")
    }

    /// A dead letter: the original body and properties plus `lastunit-*` headers; mandatory.
    #[must_use]
    pub fn dead_letter(names: &Names, reason: &str, detail: &serde_json::Value, original: &Arc<Delivery>) -> Self {
        todo!("{names:?} {reason} {detail} {original:?}")
    }

    /// The original once more, through the delay queue of `delay_ms`, with its attempt count raised by one; mandatory.
    #[must_use]
    pub fn retry(names: &Names, delay_ms: u64, original: &Arc<Delivery>) -> Self {
        todo!("{names:?} {delay_ms} {original:?}")
    }
}

/// The names of exchanges and queues under one prefix.
#[derive(Clone, Debug)]
pub struct Names {}

impl Names {
    /// All names begin with `prefix`.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        todo!("{prefix}")
    }
}

/// Consumes the orders queue on a connection of its own and keeps doing so: any end of connection, channel or consumer
/// leads to a fresh one.
#[derive(Debug)]
pub struct Consumer {
    /// Deliveries, and sessions lost; ends only after [`Control::close`].
    pub events: mpsc::UnboundedReceiver<Event>,
    /// Acknowledges and steers.
    pub control: Control,
}

/// Steers a [`Consumer`] from any task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Control {}

impl Consumer {
    /// Connects, verifies the topology and begins to consume.
    ///
    /// # Errors
    /// See [`Error`]: only the first connection can fail; later ones are tried for ever.
    pub async fn start(settings: &config::Broker) -> Result<Self, Error> {
        todo!("{settings:?}")
    }
}

impl Control {
    /// Acknowledges settled deliveries. Tags of ended sessions are dropped: their messages come again.
    pub fn ack(&self, tags: Vec<Tag>) {
        todo!("{tags:?}")
    }

    /// Gives everything back that is not acknowledged, and takes nothing until [`Control::resume`].
    pub fn pause(&self) {
        todo!()
    }

    /// Takes messages again.
    pub fn resume(&self) {
        todo!()
    }

    /// Takes nothing new; what was delivered can still be acknowledged.
    pub async fn stop(&self) {
        todo!()
    }

    /// Gives back what is not acknowledged and closes the connection, after all acknowledgements before it were sent.
    pub async fn close(&self) {
        todo!()
    }
}

/// Publishes on a connection of its own, reconnecting as needed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher {}

impl Publisher {
    /// Connects.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn connect(settings: &config::Broker) -> Result<Self, Error> {
        todo!("{settings:?}")
    }

    /// Publishes all messages and waits for the broker's confirms; results stand in the messages' sequence. `Ok` means
    /// confirmed and, where mandatory, not returned.
    pub async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<(), Error>> {
        todo!("{messages:?}")
    }
}
