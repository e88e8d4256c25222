//! A message that came in.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use super::names::{ORDERS, RETRY};
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
    /// Passes through the delay queues; 0 the first time. By our own header, which is only believed of a message that the
    /// broker itself put here from a delay queue.
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
        let (exchange, routing_key) = (message.exchange.as_str(), message.routing_key.as_str());
        let delayed = is_delayed(exchange, routing_key, &properties);
        // One that was delayed was so once at least, whatever its header says.
        let attempts = header(&properties, headers::ATTEMPTS).map_or(0, headers::as_count).max(1);
        let attempts = if delayed { attempts } else { 0 };
        let origin = if delayed { origin(&properties) } else { None };
        let (exchange, routing_key) = origin.unwrap_or_else(|| (exchange.to_owned(), routing_key.to_owned()));
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

    /// The W3C trace context that came with it, if it is one: `traceparent`, and `tracestate` where there is one.
    #[must_use]
    pub fn trace(&self) -> Option<(&str, Option<&str>)> {
        let mut fields = self.trace_context().filter_map(|(_, value)| headers::as_text(value));
        Some((fields.next()?, fields.next()))
    }

    /// The same, to be carried on.
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

/// Whether the broker put a message here from one of our delay queues: it then comes through the default exchange, which is
/// the broker's word and not the sender's, and the newest death in its `x-death` is the expiry in that queue.
///
/// A sender can only look like this with the right to write to the default exchange (`amq.default`), which an order needs
/// not: by sending into a delay queue, or on a broker that keeps a client's `x-death`, with a false one.
fn is_delayed(exchange: &str, routing_key: &str, properties: &BasicProperties) -> bool {
    // Without an exchange the routing key is the name of the queue that we consume.
    let Some(prefix) = routing_key.strip_suffix(ORDERS).filter(|_| exchange.is_empty()) else { return false };
    let Some(AMQPValue::FieldArray(deaths)) = header(properties, headers::DEATHS) else { return false };
    let Some(AMQPValue::FieldTable(newest)) = deaths.as_slice().first() else { return false };
    let text = |name| newest.inner().get(name).and_then(headers::as_text);
    let delay = text("queue").and_then(|queue| queue.strip_prefix(prefix)?.strip_prefix(RETRY));
    text("reason") == Some("expired") && delay.is_some_and(|delay| delay.parse::<u64>().is_ok())
}

/// Where a delayed message was first sent: the default exchange, through which it came back, says nothing.
fn origin(properties: &BasicProperties) -> Option<(String, String)> {
    let text =
        |name| header(properties, name).and_then(headers::as_text).filter(|text| text.len() <= headers::MAX_SHORT);
    Some((text(headers::EXCHANGE)?.to_owned(), text(headers::ROUTING_KEY)?.to_owned()))
}

fn header<'a>(properties: &'a BasicProperties, name: &str) -> Option<&'a AMQPValue> {
    properties.headers().as_ref()?.inner().get(name)
}

#[cfg(test)]
mod tests {
    use lapin::types::FieldArray;

    use super::*;

    fn deaths(newest: &[(&str, &str)]) -> BasicProperties {
        let mut death = FieldTable::default();
        for (name, value) in newest {
            death.insert((*name).into(), headers::text(*value));
        }
        let mut table = FieldTable::default();
        table.insert(
            headers::DEATHS.into(),
            AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::FieldTable(death)])),
        );
        BasicProperties::default().with_headers(table)
    }

    #[test]
    fn only_what_the_broker_sent_back_from_our_delay_queue_was_delayed() {
        let expired = deaths(&[("reason", "expired"), ("queue", "shop.retry.1000")]);
        assert!(is_delayed("", "shop.orders", &expired));
        assert!(!is_delayed("shop.orders", "shop.orders", &expired), "sent by a client");
        assert!(!is_delayed("", "shop.orders", &BasicProperties::default()), "sent to the queue, or moved there");
        for other in [
            deaths(&[("reason", "rejected"), ("queue", "shop.retry.1000")]),
            deaths(&[("reason", "expired"), ("queue", "shop.orders")]),
            deaths(&[("reason", "expired"), ("queue", "shop.retry.")]),
            deaths(&[("reason", "expired"), ("queue", "other.retry.1000")]),
            deaths(&[("reason", "expired")]),
        ] {
            assert!(!is_delayed("", "shop.orders", &other), "{other:?}");
        }
    }
}
