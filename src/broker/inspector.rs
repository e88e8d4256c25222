//! Asks the broker about exchanges and queues, and declares them.

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ExchangeKind};

use super::connection::{self, within};
use super::topology::{Queue, State};
use super::{Error, headers};

/// Asks and declares. An answer that is an error closes the channel: the next question takes a new one.
pub(super) struct Inspector<'a> {
    pub(super) connection: &'a Connection,
    pub(super) channel: Option<Channel>,
    pub(super) limit: Duration,
    pub(super) declare: bool,
    /// Ask whether it is there before declaring it.
    pub(super) look: bool,
}

impl Inspector<'_> {
    pub(super) async fn exchange(&mut self, name: &str) -> Result<State, Error> {
        let found = if self.look { Some(self.declare_exchange(name, true).await?) } else { None };
        if !self.declare {
            return Ok(found.unwrap_or(State::Missing));
        }
        let declared = self.declare_exchange(name, false).await?;
        Ok(compare(found.as_ref(), declared))
    }

    pub(super) async fn queue(&mut self, queue: &Queue) -> Result<State, Error> {
        let found = if self.look { Some(self.declare_queue(queue, true).await?) } else { None };
        if !self.declare {
            return Ok(found.unwrap_or(State::Missing));
        }
        let declared = self.declare_queue(queue, false).await?;
        Ok(compare(found.as_ref(), declared))
    }

    pub(super) async fn finish(self) -> Result<(), Error> {
        match self.channel {
            Some(channel) => within(self.limit, "closing a channel", channel.close(200, "done".into())).await,
            None => Ok(()),
        }
    }

    async fn declare_exchange(&mut self, name: &str, passive: bool) -> Result<State, Error> {
        let channel = self.channel().await?;
        let options = ExchangeDeclareOptions { passive, durable: true, ..Default::default() };
        let declaring =
            channel.exchange_declare(headers::short(name), ExchangeKind::Topic, options, FieldTable::default());
        self.told(&format!("declaring exchange {name}"), tokio::time::timeout(self.limit, declaring).await)
    }

    async fn declare_queue(&mut self, queue: &Queue, passive: bool) -> Result<State, Error> {
        let channel = self.channel().await?;
        let options = QueueDeclareOptions { passive, durable: true, ..Default::default() };
        let declaring = channel.queue_declare(headers::short(&queue.name), options, queue.arguments.clone());
        let declared = tokio::time::timeout(self.limit, declaring).await.map(|answer| answer.map(drop));
        let state = self.told(&format!("declaring queue {}", queue.name), declared)?;
        if let (State::Present, false, Some((exchange, key))) = (&state, passive, &queue.binding) {
            let binding = channel.queue_bind(
                headers::short(&queue.name),
                headers::short(exchange),
                headers::short(key),
                QueueBindOptions::default(),
                FieldTable::default(),
            );
            within(self.limit, &format!("binding queue {}", queue.name), binding).await?;
        }
        Ok(state)
    }

    async fn channel(&mut self) -> Result<Channel, Error> {
        if let Some(channel) = &self.channel {
            return Ok(channel.clone());
        }
        let channel = within(self.limit, "opening a channel", self.connection.create_channel()).await?;
        self.channel = Some(channel.clone());
        Ok(channel)
    }

    fn told(
        &mut self,
        doing: &str,
        answer: Result<lapin::Result<()>, tokio::time::error::Elapsed>,
    ) -> Result<State, Error> {
        let fault = match answer {
            Ok(Ok(())) => return Ok(State::Present),
            Ok(Err(fault)) => fault,
            Err(_) => return Err(Error::Unavailable(format!("{doing}: no answer in time"))),
        };
        self.channel = None;
        if connection::is_missing(&fault) {
            Ok(State::Missing)
        } else if connection::is_different(&fault) {
            Ok(State::Differs(connection::text(&fault)))
        } else {
            Err(connection::classify(doing, &fault))
        }
    }
}

/// A declaration that went well where there was nothing before has created it.
fn compare(found: Option<&State>, declared: State) -> State {
    match (found, declared) {
        (Some(State::Missing), State::Present) => State::Created,
        (_, declared) => declared,
    }
}
