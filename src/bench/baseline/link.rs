//! A baseline's ends at the broker: a connection to consume on, one to publish on.

use futures_util::future::try_join_all;
use lapin::message::Delivery;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, Consumer};

use super::super::Error;
use crate::broker::{Names, connection};
use crate::config;

const PERSISTENT: u8 = 2;

/// Where a baseline publishes. Cheap to clone.
#[derive(Clone)]
pub(super) struct Outbox {
    channel: Channel,
    outcomes: String,
    dead: String,
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

impl Outbox {
    /// Publishes an event, and a dead letter with the order's own body where there is one; waits for both confirms.
    pub(super) async fn publish(
        &self,
        kind: &'static str,
        event: &[u8],
        dead: Option<(&Delivery, &'static str)>,
    ) -> Result<(), Error> {
        let properties = BasicProperties::default()
            .with_content_type("application/cloudevents+json".into())
            .with_delivery_mode(PERSISTENT);
        let mut publishing = vec![self.send(&self.outcomes, kind, event, false, properties)];
        if let Some((order, reason)) = dead {
            let mut headers = FieldTable::default();
            headers.insert("lastunit-reason".into(), AMQPValue::LongString(reason.into()));
            let properties = order.properties.clone().with_delivery_mode(PERSISTENT).with_headers(headers);
            publishing.push(self.send(&self.dead, reason, &order.data, true, properties));
        }
        try_join_all(publishing).await?;
        Ok(())
    }

    async fn send(
        &self,
        exchange: &str,
        key: &str,
        body: &[u8],
        mandatory: bool,
        properties: BasicProperties,
    ) -> Result<(), Error> {
        let options = BasicPublishOptions { mandatory, immediate: false };
        let sent = self.channel.basic_publish(exchange.into(), key.into(), options, body, properties).await?;
        match sent.await? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(_)) | Confirmation::Nack(_) | Confirmation::NotRequested => Err(Error::Unconfirmed),
        }
    }
}
