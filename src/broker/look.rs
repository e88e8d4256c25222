//! Looking at the messages of a queue without taking them.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};

use super::connection::{self, within};
use super::{Error, headers};

/// A pause after which the broker is asked whether anything is left.
const PAUSE: Duration = Duration::from_millis(100);

/// The first messages of a queue, at most so many. Closes the channel; everything is back in the queue then. By subscription,
/// because a quorum queue takes milliseconds for each single request: thousands of messages take a fraction of a second.
pub(super) async fn look(channel: &Channel, queue: &str, most: u16, limit: Duration) -> Result<Vec<Delivery>, Error> {
    let mut messages = Vec::new();
    // A prefetch of 0 would mean all of them.
    if most == 0 {
        return Ok(messages);
    }
    within(limit, "setting the prefetch", channel.basic_qos(most, BasicQosOptions::default())).await?;
    let (name, options) = (headers::short(queue), BasicConsumeOptions::default());
    let consuming = channel.basic_consume(name, "".into(), options, FieldTable::default());
    let mut stream = within(limit, &format!("looking into {queue}"), consuming).await?;
    while messages.len() < usize::from(most) {
        match tokio::time::timeout(PAUSE, stream.next()).await {
            Ok(message) => messages.push(taken(message)?),
            Err(_) => {
                if ready(channel, queue, limit).await? == 0 {
                    rest(channel, queue, &mut stream, &mut messages, limit).await?;
                    break;
                }
            }
        }
    }
    let cancelling = channel.basic_cancel(stream.tag(), BasicCancelOptions::default());
    within(limit, "cancelling a subscription", cancelling).await?;
    let all = BasicNackOptions { multiple: true, requeue: true };
    within(limit, "putting messages back", channel.basic_nack(0, all)).await?;
    within(limit, "closing a channel", channel.close(200, "done".into())).await?;
    Ok(messages)
}

/// Nothing is left in the queue: what is for us has left it, and arrives before the answer to one more question does.
async fn rest(
    channel: &Channel,
    queue: &str,
    stream: &mut Consumer,
    messages: &mut Vec<Delivery>,
    limit: Duration,
) -> Result<(), Error> {
    ready(channel, queue, limit).await?;
    while let Some(message) = stream.next().now_or_never() {
        messages.push(taken(message)?);
    }
    Ok(())
}

fn taken(message: Option<lapin::Result<Delivery>>) -> Result<Delivery, Error> {
    match message {
        Some(Ok(message)) => Ok(message),
        Some(Err(fault)) => Err(connection::classify("looking at a message", &fault)),
        None => Err(Error::Unavailable("the broker cancelled the subscription".into())),
    }
}

/// Messages that are with nobody.
async fn ready(channel: &Channel, queue: &str, limit: Duration) -> Result<u32, Error> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let asking = channel.queue_declare(headers::short(queue), options, FieldTable::default());
    Ok(within(limit, &format!("counting {queue}"), asking).await?.message_count())
}
