//! Publishing batches, each message confirmed or accounted for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::maybe_done;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::channels::Channels;
use super::outgoing::Outgoing;
use super::{Error, connection, headers};
use crate::config;

/// Batches on their way at once; more wait. The broker allows 2,047 channels, and so many never help.
const MAX_CHANNELS: usize = 64;

/// Publishes on a connection of its own, reconnecting as needed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher {
    channels: Arc<Channels>,
    slots: Arc<Semaphore>,
    limit: Duration,
}

impl Publisher {
    /// Connects.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn connect(settings: &config::Broker) -> Result<Self, Error> {
        Ok(Self {
            channels: Arc::new(Channels::connect(settings).await?),
            slots: Arc::new(Semaphore::new(MAX_CHANNELS)),
            limit: settings.call_timeout_ms.duration(),
        })
    }

    /// Publishes all messages and waits for the broker's confirms; results stand in the messages' sequence. `Ok` means
    /// confirmed and, where mandatory, not returned. Takes at most `broker.call_timeout_ms`, a new connection included.
    ///
    /// A message whose result is an error may have been published all the same: publish it again.
    pub async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<(), Error>> {
        let deadline = Instant::now() + self.limit;
        let mut results = self.publish_once(messages, deadline).await;
        if messages.len() == 1 {
            return results;
        }
        // The broker refuses one message by closing the channel, with everything on it. Alone, each shows its own fault.
        for (result, message) in results.iter_mut().zip(messages) {
            if matches!(result, Err(Error::Refused(_) | Error::Topology(_))) {
                let alone = self.publish_once(std::slice::from_ref(message), deadline).await;
                *result = alone.into_iter().collect();
            }
        }
        results
    }

    async fn publish_once(&self, messages: &[Outgoing], deadline: Instant) -> Vec<Result<(), Error>> {
        if messages.is_empty() {
            return Vec::new();
        }
        let Ok(Ok(_slot)) = timeout_at(deadline, self.slots.acquire()).await else {
            return vec![Err(Error::Unavailable("all channels were busy".into())); messages.len()];
        };
        let channel = match self.channels.take(deadline).await {
            Ok(channel) => channel,
            Err(fault) => return vec![Err(fault); messages.len()],
        };
        let (results, intact) = Batch::new(messages).run(&channel, deadline).await;
        if intact {
            self.channels.give_back(channel);
        }
        results
    }
}

/// What became of the messages of one batch so far.
struct Batch<'a> {
    messages: &'a [Outgoing],
    results: Vec<Option<Result<(), Error>>>,
    /// Where each mandatory message stands.
    mandatory: HashMap<&'a str, usize>,
    returned: Vec<BasicReturnMessage>,
    /// The channel has failed nobody yet.
    intact: bool,
    /// Something was refused. A queue that has lost its leader may go on refusing on this channel, when others work.
    refused: bool,
}

impl<'a> Batch<'a> {
    fn new(messages: &'a [Outgoing]) -> Self {
        let mandatory = messages
            .iter()
            .enumerate()
            .filter_map(|(index, message)| message.publish_id.as_deref().map(|id| (id, index)));
        let (results, mandatory) = (vec![None; messages.len()], mandatory.collect());
        Self { messages, results, mandatory, returned: Vec::new(), intact: true, refused: false }
    }

    /// Publishes all at once, then collects confirms. Also tells whether the channel can be used again.
    async fn run(mut self, channel: &Channel, deadline: Instant) -> (Vec<Result<(), Error>>, bool) {
        let mut sent: Vec<_> =
            self.messages.iter().map(|message| Box::pin(maybe_done(send(channel, message)))).collect();
        // Sets all out on their way, and wants to be awakened by none.
        for sent in &mut sent {
            sent.now_or_never();
        }
        // The last first: most confirms come in sequence, so that one awakening is enough for all.
        let confirmed = async {
            for sent in sent.iter_mut().rev() {
                sent.await;
            }
        };
        let in_time = timeout_at(deadline, confirmed).await.is_ok();
        for (index, mut sent) in sent.into_iter().enumerate() {
            // Out of time: the confirms of others may have come all the same.
            (&mut sent).now_or_never();
            if let Some(confirmation) = sent.as_mut().take_output() {
                self.record(index, confirmation);
            }
        }
        let (complete, refused) = (in_time && self.intact, self.refused);
        (self.finish(complete), complete && !refused)
    }

    fn record(&mut self, index: usize, confirmation: lapin::Result<Confirmation>) {
        self.results[index] = Some(match &confirmation {
            Ok(Confirmation::Ack(_)) => Ok(()),
            Ok(Confirmation::Nack(_)) => {
                Err(Error::Unavailable("the broker did not take responsibility (nack)".into()))
            }
            Ok(Confirmation::NotRequested) => Err(Error::Unavailable("the channel does not confirm".into())),
            Err(fault) => Err(connection::classify("publishing", fault)),
        });
        self.intact &= confirmation.is_ok();
        self.refused |= matches!(confirmation, Ok(Confirmation::Nack(_)));
        self.returned.extend(confirmation.ok().and_then(Confirmation::take_message));
    }

    /// With several mandatory messages in flight the client library hands a returned one over with whichever confirm
    /// comes next. All confirms together carry all returns, so only then is it certain who was returned.
    fn finish(mut self, complete: bool) -> Vec<Result<(), Error>> {
        if !complete {
            for &index in self.mandatory.values() {
                if matches!(self.results[index], Some(Ok(()))) {
                    let unknown = format!("it is not certain that {} were routed", self.messages[index].target());
                    self.results[index] = Some(Err(Error::Unavailable(unknown)));
                }
            }
        }
        for message in &self.returned {
            match publish_id(message).and_then(|id| self.mandatory.get(id)) {
                Some(&index) => {
                    let target = self.messages[index].target();
                    let text = format!("{target} ({} {})", message.reply_code, message.reply_text);
                    self.results[index] = Some(Err(Error::Returned(text)));
                }
                None => tracing::error!("the broker returned a message that was not sent"),
            }
        }
        let unanswered = || Err(Error::Unavailable("no confirm in time".into()));
        self.results.into_iter().map(|result| result.unwrap_or_else(unanswered)).collect()
    }
}

async fn send(channel: &Channel, message: &Outgoing) -> lapin::Result<Confirmation> {
    let options = BasicPublishOptions { mandatory: message.publish_id.is_some(), immediate: false };
    let (exchange, routing_key) = (headers::short(&message.exchange), headers::short(&message.routing_key));
    channel.basic_publish(exchange, routing_key, options, message.body(), message.properties()).await?.await
}

fn publish_id(message: &BasicReturnMessage) -> Option<&str> {
    message.properties.headers().as_ref()?.inner().get(headers::PUBLISH_ID).and_then(headers::as_text)
}
