//! The shop: sends its orders at a steady rate, again when a confirm does not come, whatever happens to the broker.

use std::time::{Duration, Instant};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::amqp::{Link, within};
use super::orders::message;

/// Messages a second.
pub const RATE: u64 = 70;
/// Sent before their confirms are awaited.
const WINDOW: u64 = 500;
const PERSISTENT: u8 = 2;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// All messages with a number below this one were confirmed.
    pub messages: u64,
    /// Messages that were sent again because no confirm came.
    pub again: u64,
}

/// A shop that sends.
pub struct Load {
    stop: watch::Sender<bool>,
    task: JoinHandle<Sent>,
}

impl Load {
    /// Begins to send to an exchange.
    pub fn start(url: &str, exchange: String, seed: u64) -> Self {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(send_all(Link::to(url), exchange, seed, stopped));
        Self { stop, task }
    }

    /// Sends nothing new.
    pub async fn end(self) -> Sent {
        self.stop.send(true).expect("it runs");
        self.task.await.expect("no panic")
    }
}

async fn send_all(mut link: Link, exchange: String, seed: u64, stopped: watch::Receiver<bool>) -> Sent {
    let (start, mut sent) = (Instant::now(), Sent { messages: 0, again: 0 });
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut channel: Option<Channel> = None;
    while !*stopped.borrow() {
        look.tick().await;
        let due = start.elapsed().as_millis() as u64 * RATE / 1000;
        let window = sent.messages..due.min(sent.messages + WINDOW);
        if window.is_empty() {
            continue;
        }
        let usable = match channel.take() {
            Some(channel) => Ok(channel),
            None => confirming(&mut link).await,
        };
        let Ok(usable) = usable else { continue };
        match send(&usable, &exchange, seed, window.clone()).await {
            Ok(()) => {
                sent.messages = window.end;
                channel = Some(usable);
            }
            Err(_lost) => sent.again += window.end - window.start,
        }
    }
    sent
}

async fn confirming(link: &mut Link) -> Result<Channel, String> {
    let channel = link.channel().await?;
    within(channel.confirm_select(ConfirmSelectOptions::default())).await?;
    Ok(channel)
}

async fn send(channel: &Channel, exchange: &str, seed: u64, window: std::ops::Range<u64>) -> Result<(), String> {
    let mut confirms = Vec::new();
    for number in window {
        let body = message(seed, number).body;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let sending = channel.basic_publish(exchange.into(), "shop.order".into(), options, body.as_bytes(), properties);
        confirms.push(within(sending).await?);
    }
    for confirm in confirms {
        match within(confirm).await? {
            Confirmation::Ack(None) => {}
            other => return Err(format!("{other:?}")),
        }
    }
    Ok(())
}
