//! Messages to be published: events, dead letters, retries, and orders.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use uuid::Uuid;

use super::incoming::Delivery;
use super::names::Names;
use super::{detail, headers};

/// AMQP's delivery mode of messages that survive a restart.
const PERSISTENT: u8 = 2;
/// Publishing with this `reply_to` is an error on a channel that does not consume replies.
const DIRECT_REPLY: &str = "amq.rabbitmq.reply-to";

/// A message to be published.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub(super) exchange: String,
    pub(super) routing_key: String,
    /// Set on mandatory messages: a returned one is recognised by it.
    pub(super) publish_id: Option<String>,
    content: Content,
}

/// What it is made of. Its properties are written when it is sent: they are large, and many messages wait for that.
#[derive(Clone, Debug)]
enum Content {
    Event { id: String, trace: FieldTable, body: Bytes },
    Order { message_id: Option<String>, body: Bytes },
    DeadLetter { detail: String, died_at: DateTime<Utc>, original: Arc<Delivery> },
    Retry { original: Arc<Delivery> },
}

impl Outgoing {
    /// An outcome event: exchange `outcomes`, routing key = type. Carries the delivery's trace context. Not mandatory:
    /// nobody need listen.
    #[must_use]
    pub fn event(names: &Names, kind: &str, event_id: &str, body: Bytes, cause: &Delivery) -> Self {
        let mut trace = FieldTable::default();
        for (name, value) in cause.trace_context() {
            trace.insert(headers::short(name), value.clone());
        }
        let content = Content::Event { id: event_id.to_owned(), trace, body };
        Self { exchange: names.outcomes(), routing_key: kind.to_owned(), publish_id: None, content }
    }

    /// A dead letter: the original body and properties plus `lastunit-*` headers; mandatory.
    #[must_use]
    pub fn dead_letter(names: &Names, reason: &str, detail: &serde_json::Value, original: &Arc<Delivery>) -> Self {
        let (detail, died_at, original) = (detail::write(detail), Utc::now(), Arc::clone(original));
        Self::mandatory(names.dead(), reason.to_owned(), Content::DeadLetter { detail, died_at, original })
    }

    /// The original once more, through the delay queue of `delay_ms`, with its attempt count raised by one; mandatory.
    #[must_use]
    pub fn retry(names: &Names, delay_ms: u64, original: &Arc<Delivery>) -> Self {
        Self::mandatory(String::new(), names.retry(delay_ms), Content::Retry { original: Arc::clone(original) })
    }

    /// An order as a shop would send it; mandatory. `message_id` is advisory.
    #[must_use]
    pub fn order(names: &Names, message_id: Option<&str>, body: Bytes) -> Self {
        let message_id = message_id.map(str::to_owned);
        Self::mandatory(names.orders(), "order".to_owned(), Content::Order { message_id, body })
    }

    fn mandatory(exchange: String, routing_key: String, content: Content) -> Self {
        Self { exchange, routing_key, publish_id: Some(Uuid::new_v4().to_string()), content }
    }

    /// The body; shared, not copied.
    pub(super) fn body(&self) -> &[u8] {
        match &self.content {
            Content::Event { body, .. } | Content::Order { body, .. } => body,
            Content::DeadLetter { original, .. } | Content::Retry { original } => &original.body,
        }
    }

    /// The properties with which it is sent.
    pub(super) fn properties(&self) -> BasicProperties {
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let mut ours: Vec<_> =
            self.publish_id.iter().map(|id| (headers::PUBLISH_ID, headers::text(id.as_str()))).collect();
        match &self.content {
            Content::Event { id, trace, body: _ } => properties
                .with_content_type("application/cloudevents+json".into())
                .with_message_id(headers::short(id))
                .with_headers(trace.clone()),
            Content::Order { message_id, body: _ } => {
                let properties = properties
                    .with_content_type("application/json".into())
                    .with_type("reserve-last-unit".into())
                    .with_headers(headers::carry_over(None, ours));
                match message_id {
                    Some(id) => properties.with_message_id(headers::short(id)),
                    None => properties,
                }
            }
            Content::DeadLetter { detail, died_at, original } => {
                ours.extend([
                    (headers::REASON, headers::text(self.routing_key.as_str())),
                    (headers::DETAIL, headers::text(detail.as_str())),
                    (headers::DIED_AT, headers::text(died_at.to_rfc3339_opts(SecondsFormat::Millis, true))),
                ]);
                again(properties, original, original.attempts, ours)
            }
            Content::Retry { original } => again(properties, original, original.attempts.saturating_add(1), ours),
        }
    }

    /// For the log and for errors.
    pub(super) fn target(&self) -> String {
        match self.exchange.as_str() {
            "" => format!("messages for queue {}", self.routing_key),
            exchange => format!("{} of exchange {exchange}", self.routing_key),
        }
    }
}

/// A message's own properties and headers, with ours.
fn again(
    properties: BasicProperties,
    original: &Delivery,
    attempts: u32,
    mut ours: Vec<(&'static str, AMQPValue)>,
) -> BasicProperties {
    ours.extend([
        (headers::ATTEMPTS, headers::integer(attempts.into())),
        (headers::EXCHANGE, headers::text(original.exchange.as_str())),
        (headers::ROUTING_KEY, headers::text(original.routing_key.as_str())),
    ]);
    carry_over(&original.properties, properties).with_headers(headers::carry_over(original.headers(), ours))
}

/// The properties but for headers, `expiration` and `user_id`: the broker closes the channel on a `user_id` that is not
/// ours and on an `expiration` that is no number, and a numeric one would let a dead letter vanish.
fn carry_over(from: &BasicProperties, mut to: BasicProperties) -> BasicProperties {
    macro_rules! keep {
        ($($get:ident => $set:ident),*) => {
            $(if let Some(value) = from.$get() {
                to = to.$set(value.clone());
            })*
        };
    }
    keep!(
        content_type => with_content_type, content_encoding => with_content_encoding, priority => with_priority,
        correlation_id => with_correlation_id, message_id => with_message_id, timestamp => with_timestamp,
        kind => with_type, app_id => with_app_id, cluster_id => with_cluster_id
    );
    if let Some(reply_to) = from.reply_to().as_ref().filter(|reply_to| reply_to.as_str() != DIRECT_REPLY) {
        to = to.with_reply_to(reply_to.clone());
    }
    to
}
