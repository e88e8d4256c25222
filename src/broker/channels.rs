//! Confirming channels on one connection that is replaced when it is lost.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, Connection};
use tokio::time::{Instant, timeout_at};

use super::Error;
use super::connection::{self, within};
use crate::config;
use crate::retry::Backoff;

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// Lends channels, each to one batch at a time: returned messages and confirms of two batches would mix.
#[derive(Debug)]
pub(super) struct Channels {
    settings: config::Broker,
    idle: Mutex<Vec<Channel>>,
    /// Locked while connecting, so that all who wait for a connection wait for the same one.
    connection: tokio::sync::Mutex<Option<Connection>>,
}

impl Channels {
    pub(super) async fn connect(settings: &config::Broker) -> Result<Self, Error> {
        let connection = connection::open(settings, "publisher").await?;
        Ok(Self {
            settings: settings.clone(),
            idle: Mutex::default(),
            connection: tokio::sync::Mutex::new(Some(connection)),
        })
    }

    /// A channel in confirm mode; tries until the deadline. What the broker refuses now (a password that is being
    /// changed) it may allow then, so that nothing is final here.
    pub(super) async fn take(&self, deadline: Instant) -> Result<Channel, Error> {
        let mut backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY);
        let mut cause = "no connection in time".to_owned();
        loop {
            if let Some(channel) = self.take_idle() {
                return Ok(channel);
            }
            match timeout_at(deadline, self.open()).await {
                Ok(Ok(channel)) => return Ok(channel),
                Ok(Err(fault)) => cause = fault.to_string(),
                Err(_) => return Err(Error::Unavailable(cause)),
            }
            if timeout_at(deadline, backoff.wait()).await.is_err() {
                return Err(Error::Unavailable(cause));
            }
        }
    }

    /// Takes a channel back. One that failed must not come here: it is dropped, which closes it.
    pub(super) fn give_back(&self, channel: Channel) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(channel);
    }

    fn take_idle(&self) -> Option<Channel> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|channel| channel.status().connected());
        idle.pop()
    }

    async fn open(&self) -> Result<Channel, Error> {
        let limit = self.settings.call_timeout_ms.duration();
        let mut connection = self.connection.lock().await;
        let usable = connection.take().filter(|connection| connection.status().connected());
        let usable = match usable {
            Some(usable) => usable,
            None => connection::open(&self.settings, "publisher").await?,
        };
        let usable = connection.insert(usable);
        let channel = within(limit, "opening a channel", usable.create_channel()).await?;
        within(limit, "asking for confirms", channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(channel)
    }
}
