//! A baseline's ends at the broker: a connection to consume on, one to publish on.

use chrono::{SecondsFormat, Utc};
use futures_util::future::try_join;
use lapin::message::Delivery;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, Consumer, PublisherConfirm};
use uuid::Uuid;

use super::super::Error;
use crate::broker::{Names, connection, headers};
use crate::config;
use crate::order::OrderId;
use crate::outcome::{dead_letter_reason, event_id};
use crate::plan::Reason;

const PERSISTENT: u8 = 2;

/// Where a baseline publishes. Cheap to clone.
#[derive(Clone)]
pub(super) struct Outbox {
    channel: Channel,
    outcomes: String,
    dead: String,
}

/// The end of an order that lost the race.
pub(super) struct DeadLetter<'a> {
    pub(super) order: &'a Delivery,
    /// What it was short of, as JSON.
    pub(super) detail: String,
}

/// What was published for one order, and is not confirmed yet.
pub(super) struct Sent {
    event: PublisherConfirm,
    dead: Option<PublisherConfirm>,
}

/// A baseline's connections.
pub(super) struct Link {
    pub(super) consumer: Consumer,
    pub(super) outbox: Outbox,
    consuming: (Connection, Channel),
    publishing: Connection,
}

impl Link {
    /// Consumes the orders queue with this prefetch.
    pub(super) async fn open(settings: &config::Broker, prefetch: u16) -> Result<Self, Error> {
        let names = Names::new(&settings.name_prefix);
        let publishing = connection::open(settings, "baseline publisher").await?;
        let channel = publishing.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let outbox = Outbox { channel, outcomes: names.outcomes(), dead: names.dead() };
        let consuming = connection::open(settings, "baseline consumer").await?;
        let channel = consuming.create_channel().await?;
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = channel.basic_consume(names.orders().into(), "".into(), options, none).await?;
        Ok(Self { consumer, outbox, consuming: (consuming, channel), publishing })
    }

    /// Takes nothing new: the consumer's stream ends after what is on its way.
    pub(super) async fn stop(&self) -> Result<(), Error> {
        let cancelling = self.consuming.1.basic_cancel(self.consumer.tag(), BasicCancelOptions::default());
        Ok(cancelling.await?)
    }

    /// Closes in good order: acknowledgements that are on their way arrive.
    pub(super) async fn close(self) -> Result<(), Error> {
        self.consuming.1.close(200, "done".into()).await?;
        self.consuming.0.close(200, "done".into()).await?;
        Ok(self.publishing.close(200, "done".into()).await?)
    }
}

impl DeadLetter<'_> {
    /// The order's own, with the worker's headers.
    fn properties(&self, reason: &str) -> BasicProperties {
        let text = |text: &str| AMQPValue::LongString(text.into());
        let mut table = FieldTable::default();
        table.insert(headers::REASON.into(), text(reason));
        table.insert(headers::DETAIL.into(), text(&self.detail));
        table.insert(headers::DIED_AT.into(), text(&Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true)));
        table.insert(headers::ATTEMPTS.into(), AMQPValue::LongLongInt(0));
        table.insert(headers::EXCHANGE.into(), text(self.order.exchange.as_str()));
        table.insert(headers::ROUTING_KEY.into(), text(self.order.routing_key.as_str()));
        table.insert(headers::PUBLISH_ID.into(), text(&Uuid::new_v4().to_string()));
        self.order.properties.clone().with_delivery_mode(PERSISTENT).with_headers(table)
    }
}

impl Outbox {
    /// Publishes an event, and a dead letter where there is one. The broker gets messages like the worker's: the same
    /// properties and headers.
    pub(super) async fn publish(
        &self,
        kind: &'static str,
        order: &OrderId,
        event: &[u8],
        dead: Option<DeadLetter<'_>>,
    ) -> Result<Sent, Error> {
        let properties = BasicProperties::default()
            .with_content_type("application/cloudevents+json".into())
            .with_delivery_mode(PERSISTENT)
            .with_message_id(event_id(order, 0, kind).to_string().into());
        let event = self.send(&self.outcomes, kind, event, false, properties);
        let Some(dead) = dead else { return Ok(Sent { event: event.await?, dead: None }) };
        let reason = dead_letter_reason(Reason::SoldOut);
        let dead = self.send(&self.dead, reason, &dead.order.data, true, dead.properties(reason));
        let (event, dead) = try_join(event, dead).await?;
        Ok(Sent { event, dead: Some(dead) })
    }

    async fn send(
        &self,
        exchange: &str,
        key: &str,
        body: &[u8],
        mandatory: bool,
        properties: BasicProperties,
    ) -> lapin::Result<PublisherConfirm> {
        let options = BasicPublishOptions { mandatory, immediate: false };
        self.channel.basic_publish(exchange.into(), key.into(), options, body, properties).await
    }
}

impl Sent {
    /// Waits for the confirms, the last first.
    pub(super) async fn confirmed(self) -> Result<(), Error> {
        for sent in self.dead.into_iter().chain([self.event]) {
            match sent.await? {
                Confirmation::Ack(None) => {}
                Confirmation::Ack(Some(_)) | Confirmation::Nack(_) | Confirmation::NotRequested => {
                    return Err(Error::Unconfirmed);
                }
            }
        }
        Ok(())
    }
}
