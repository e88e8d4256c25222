//! Messages to be published: events, dead letters, retries, and orders.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{SecondsFormat, Utc};
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
    pub(super) properties: BasicProperties,
    pub(super) body: Body,
    /// Set on mandatory messages: a returned one is recognised by it.
    pub(super) publish_id: Option<String>,
}

/// A body; shared, not copied.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Own(Bytes),
    Original(Arc<Delivery>),
}

impl Body {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(body) => body,
            Self::Original(delivery) => &delivery.body,
        }
    }
}

impl Outgoing {
    /// An outcome event: exchange `outcomes`, routing key = type. Carries the delivery's trace context. Not mandatory:
    /// nobody need listen.
    #[must_use]
    pub fn event(names: &Names, kind: &str, event_id: &str, body: Bytes, cause: &Delivery) -> Self {
        let mut table = FieldTable::default();
        for (name, value) in cause.trace_context() {
            table.insert(headers::short(name), value.clone());
        }
        let properties = BasicProperties::default()
            .with_content_type("application/cloudevents+json".into())
            .with_delivery_mode(PERSISTENT)
            .with_message_id(headers::short(event_id))
            .with_headers(table);
        let (exchange, routing_key) = (names.outcomes(), kind.to_owned());
        Self { exchange, routing_key, properties, body: Body::Own(body), publish_id: None }
    }

    /// A dead letter: the original body and properties plus `lastunit-*` headers; mandatory.
    #[must_use]
    pub fn dead_letter(names: &Names, reason: &str, detail: &serde_json::Value, original: &Arc<Delivery>) -> Self {
        let died_at = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
        let ours = vec![
            (headers::REASON, headers::text(reason)),
            (headers::DETAIL, headers::text(detail::write(detail))),
            (headers::DIED_AT, headers::text(died_at)),
        ];
        Self::again(names.dead(), reason.to_owned(), original.attempts, ours, original)
    }

    /// The original once more, through the delay queue of `delay_ms`, with its attempt count raised by one; mandatory.
    #[must_use]
    pub fn retry(names: &Names, delay_ms: u64, original: &Arc<Delivery>) -> Self {
        Self::again(String::new(), names.retry(delay_ms), original.attempts.saturating_add(1), Vec::new(), original)
    }

    /// An order as a shop would send it; mandatory. `message_id` is advisory.
    #[must_use]
    pub fn order(names: &Names, message_id: Option<&str>, body: Bytes) -> Self {
        let publish_id = Uuid::new_v4().to_string();
        let mut table = FieldTable::default();
        table.insert(headers::PUBLISH_ID.into(), headers::text(publish_id.as_str()));
        let mut properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(PERSISTENT)
            .with_type("reserve-last-unit".into())
            .with_headers(table);
        if let Some(id) = message_id {
            properties = properties.with_message_id(headers::short(id));
        }
        let (exchange, routing_key) = (names.orders(), "order".to_owned());
        Self { exchange, routing_key, properties, body: Body::Own(body), publish_id: Some(publish_id) }
    }

    fn again(
        exchange: String,
        routing_key: String,
        attempts: u32,
        mut ours: Vec<(&'static str, AMQPValue)>,
        original: &Arc<Delivery>,
    ) -> Self {
        let publish_id = Uuid::new_v4().to_string();
        ours.extend([
            (headers::ATTEMPTS, headers::integer(attempts.into())),
            (headers::EXCHANGE, headers::text(original.exchange.as_str())),
            (headers::ROUTING_KEY, headers::text(original.routing_key.as_str())),
            (headers::PUBLISH_ID, headers::text(publish_id.as_str())),
        ]);
        let table = headers::carry_over(original.headers(), ours);
        let properties = carry_over(&original.properties).with_headers(table);
        Self {
            exchange,
            routing_key,
            properties,
            body: Body::Original(Arc::clone(original)),
            publish_id: Some(publish_id),
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

/// The properties but for headers, `expiration` and `user_id`: the broker closes the channel on a `user_id` that is not
/// ours and on an `expiration` that is no number, and a numeric one would let a dead letter vanish.
fn carry_over(from: &BasicProperties) -> BasicProperties {
    let mut to = BasicProperties::default().with_delivery_mode(PERSISTENT);
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
