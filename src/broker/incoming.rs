//! A message that came in.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use super::{headers, trace};

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
    /// The exchange it was first sent to; kept over the delay queues.
    pub exchange: String,
    /// The routing key it was first sent with; kept over the delay queues.
    pub routing_key: String,
    /// For publishing it again. Boxed, because there are many and most are empty.
    pub(super) properties: Box<BasicProperties>,
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

impl Delivery {
    /// A first delivery without any property, as a test or a benchmark may want one.
    #[must_use]
    pub fn bare(tag: Tag, body: Vec<u8>) -> Self {
        Self {
            tag,
            body,
            kind: None,
            content_encoding: None,
            redelivered: false,
            attempts: 0,
            exchange: String::new(),
            routing_key: String::new(),
            properties: Box::default(),
        }
    }

    /// The AMQP `message_id`: advisory, of the sender's making.
    #[must_use]
    pub fn message_id(&self) -> Option<&str> {
        self.properties.message_id().as_ref().map(|id| id.as_str())
    }

    pub(super) fn new(session: u64, message: lapin::message::Delivery) -> Self {
        let properties = message.properties;
        let attempts = header(&properties, headers::ATTEMPTS).map_or(0, headers::as_count);
        let (exchange, routing_key) = origin(&properties, attempts)
            .unwrap_or_else(|| (message.exchange.to_string(), message.routing_key.to_string()));
        Self {
            tag: Tag { session, delivery: message.delivery_tag },
            body: message.data,
            kind: properties.kind().as_ref().map(ToString::to_string),
            content_encoding: properties.content_encoding().as_ref().map(ToString::to_string),
            redelivered: message.redelivered,
            attempts,
            exchange,
            routing_key,
            properties: Box::new(properties),
        }
    }

    /// How often the broker gave this message to somebody who did not settle it; 0 on a first delivery, whatever a
    /// sender wrote into the header that the broker uses for this.
    pub(super) fn returns(&self) -> u32 {
        if self.redelivered {
            header(&self.properties, headers::DELIVERY_COUNT).map_or(0, headers::as_count)
        } else {
            0
        }
    }

    /// The W3C trace context that came with it, if it is one.
    pub(super) fn trace_context(&self) -> impl Iterator<Item = (&'static str, &AMQPValue)> {
        let valid = |name, is_valid: fn(&str) -> bool| {
            let value = header(&self.properties, name)?;
            headers::as_text(value).is_some_and(is_valid).then_some((name, value))
        };
        let parent = valid(headers::TRACE_PARENT, trace::is_parent);
        let state = parent.and_then(|_| valid(headers::TRACE_STATE, trace::is_state));
        parent.into_iter().chain(state)
    }

    pub(super) fn headers(&self) -> Option<&FieldTable> {
        self.properties.headers().as_ref()
    }
}

/// Where a message that comes from a delay queue was first sent. Only believed of one that was there: the broker itself
/// sent it on through the default exchange, which says nothing.
fn origin(properties: &BasicProperties, attempts: u32) -> Option<(String, String)> {
    let text =
        |name| header(properties, name).and_then(headers::as_text).filter(|text| text.len() <= headers::MAX_SHORT);
    if attempts == 0 {
        return None;
    }
    Some((text(headers::EXCHANGE)?.to_owned(), text(headers::ROUTING_KEY)?.to_owned()))
}

fn header<'a>(properties: &'a BasicProperties, name: &str) -> Option<&'a AMQPValue> {
    properties.headers().as_ref()?.inner().get(name)
}
