//! Hears outcome events as cheaply as the client library allows: the measuring must not take the contenders' time.

use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection};

use super::Error;
use crate::broker::{self, Names, connection};
use crate::config;

/// See the module. What it listens with goes when it is dropped.
pub struct Listener {
    stream: lapin::Consumer,
    _channel: Channel,
    _connection: Connection,
}

impl Listener {
    /// Hears all events from now on.
    ///
    /// # Errors
    /// The broker's.
    pub async fn open(settings: &config::Broker) -> Result<Self, Error> {
        let connection = connection::open(settings, "bench listener").await?;
        let channel = connection.create_channel().await?;
        let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..Default::default() };
        let queue = channel.queue_declare("".into(), options, FieldTable::default()).await?.name().clone();
        let exchange = Names::new(&settings.name_prefix).outcomes();
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        channel.queue_bind(queue.clone(), exchange.into(), "#".into(), options, none).await?;
        let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
        let stream = channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
        Ok(Self { stream, _channel: channel, _connection: connection })
    }

    /// The body of the next event.
    ///
    /// # Errors
    /// The broker's.
    pub async fn next(&mut self) -> Result<Vec<u8>, Error> {
        match self.stream.next().await {
            Some(event) => Ok(event?.data),
            None => Err(broker::Error::Unavailable("the broker cancelled the bench's subscription".into()).into()),
        }
    }
}
