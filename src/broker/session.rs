//! The life of one consuming channel, on a connection of its own, from subscription to its end.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt, future};
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection};
use tokio::sync::{mpsc, oneshot};

use super::Error;
use super::acks::{Plan, Unacked};
use super::budget::Budget;
use super::caution::{Caution, SUSPECT_RETURNS};
use super::command::{Command, gather};
use super::connection::{self, within};
use super::headers;
use super::incoming::{Delivery, Event, Tag};
use super::names::Names;
use super::suspects::{Suspects, Turn};
use super::topology::Topology;
use crate::config;

/// How long saying goodbye may take. Hanging up without it does the same.
const POLITENESS: Duration = Duration::from_secs(2);

/// Why a session ended. Everything unacknowledged comes again.
#[derive(Debug)]
pub(super) enum End {
    /// As asked.
    Paused,
    /// As asked; tell when it is done. `None`: nobody holds the consumer any more.
    Closed(Option<oneshot::Sender<()>>),
    /// A message that may kill workers stood among others.
    Suspect,
    /// The client library gave up the connection over a message that it cannot read.
    Unreadable(Error),
    /// Connection, channel or subscription are gone.
    Lost(Error),
}

/// How many messages are taken at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Width {
    /// One, so that a killer dies alone.
    One,
    /// The whole prefetch.
    Many,
}

/// Why nothing new is taken for now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Quiet {
    /// Messages that keep coming back are worked on one at a time, with nobody beside them.
    ForSuspects,
    /// Bodies fill the memory meant for them.
    ForRoom,
}

/// One channel that consumes the orders queue.
pub(super) struct Session {
    pub(super) number: u64,
    connection: Connection,
    channel: Channel,
    stream: lapin::Consumer,
    queue: String,
    prefetch: u16,
    limit: Duration,
    width: Width,
    /// Messages asked for, once many are.
    window: u16,
    budget: Budget,
    unacked: Unacked,
    /// Whether the message that was taken alone is suspect.
    suspect: bool,
    /// Those that turned up among many. While there are any, nothing new is taken.
    suspects: Suspects,
    /// Nothing new is taken for now: the subscription is cancelled.
    quiet: Option<Quiet>,
    /// Deliveries that came too late to be looked at.
    dropped: usize,
    stopped: bool,
    /// Something was acknowledged: the session works, so that back-off may start over.
    pub(super) proved: bool,
}

impl Session {
    /// Connects, verifies the topology and subscribes, for one message at first.
    pub(super) async fn open(settings: &config::Broker, topology: &Topology, number: u64) -> Result<Self, Error> {
        let limit = settings.call_timeout_ms.duration();
        let connection = connection::open(settings, "consumer").await?;
        topology.require(&connection).await?;
        let channel = within(limit, "opening a channel", connection.create_channel()).await?;
        let queue = Names::new(&settings.name_prefix).orders();
        let stream = subscribe(&channel, &queue, 1, limit).await?;
        Ok(Self {
            number,
            connection,
            channel,
            stream,
            queue,
            prefetch: settings.prefetch,
            limit,
            width: if settings.prefetch > 1 { Width::One } else { Width::Many },
            window: settings.prefetch,
            budget: Budget::new(settings.prefetch_bytes, settings.prefetch),
            unacked: Unacked::default(),
            suspect: false,
            suspects: Suspects::new(settings.delivery_limit),
            quiet: None,
            dropped: 0,
            stopped: false,
            proved: false,
        })
    }

    /// Delivers and acknowledges until the end.
    pub(super) async fn run(
        &mut self,
        commands: &mut mpsc::UnboundedReceiver<Command>,
        events: &mpsc::UnboundedSender<Event>,
        caution: &mut Caution,
    ) -> End {
        loop {
            let step = tokio::select! {
                biased;
                command = commands.recv() => self.obey(command, commands, events, caution).await,
                message = self.stream.next(), if !self.stopped && self.quiet.is_none() => self.take(message, events, caution),
            };
            let step = match step {
                Ok(()) => self.tend(events, caution).await,
                Err(end) => Err(end),
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// Whether it was told to take nothing new, for good.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Gives back what is not acknowledged and hangs up. Failures do not matter: a lost connection does the same.
    pub(super) async fn hang_up(self) {
        let all = BasicNackOptions { multiple: true, requeue: true };
        let closing = async {
            // Still subscribed, we would get at once what we give back.
            if !self.stopped {
                self.cancel().await?;
            }
            // RabbitMQ 4.3 does not count a message given back like this as one more delivery.
            within(self.limit, "giving messages back", self.channel.basic_nack(0, all)).await?;
            within(self.limit, "closing a channel", self.channel.close(200, "done".into())).await?;
            within(self.limit, "closing", self.connection.close(200, "done".into())).await
        };
        match tokio::time::timeout(self.limit.min(POLITENESS), closing).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => tracing::debug!(session = self.number, %fault, "the session did not end cleanly"),
            Err(_) => tracing::debug!(session = self.number, "the broker does not answer a goodbye"),
        }
    }

    async fn obey(
        &mut self,
        command: Option<Command>,
        commands: &mut mpsc::UnboundedReceiver<Command>,
        events: &mpsc::UnboundedSender<Event>,
        caution: &mut Caution,
    ) -> Result<(), End> {
        let (settled, next) = gather(command.ok_or(End::Closed(None))?, commands);
        if !settled.is_empty() {
            self.acknowledge(settled, events, caution).await?;
        }
        match next {
            None | Some(Command::Ack(_) | Command::Resume) => Ok(()),
            Some(Command::Survived) => self.widen_beside_one(events, caution).await,
            Some(Command::Pause) => Err(End::Paused),
            Some(Command::Close(done)) => Err(End::Closed(Some(done))),
            Some(Command::Stop(done)) => {
                self.stop().await?;
                if done.send(()).is_err() {
                    tracing::trace!(session = self.number, "who asked did not wait for it");
                }
                Ok(())
            }
        }
    }

    /// Sends acknowledgements, and opens the window once a message that was taken alone proved harmless. The old subscription
    /// ends before the acknowledgement that would bring its next message: that would not count for the new one's prefetch.
    async fn acknowledge(
        &mut self,
        tags: Vec<Tag>,
        events: &mpsc::UnboundedSender<Event>,
        caution: &mut Caution,
    ) -> Result<(), End> {
        let current = tags.into_iter().filter(|tag| tag.session == self.number).map(|tag| tag.delivery);
        let plan = self.unacked.settle(current.collect());
        if plan == Plan::default() {
            return Ok(());
        }
        let alone = self.width == Width::One && !self.stopped && self.unacked.outstanding() == 0;
        let widens = alone && caution.settled(self.suspect);
        if widens {
            self.width = Width::Many;
            self.end_subscription(events, caution).await?;
        }
        self.send(plan, caution).await?;
        self.proved = true;
        if widens { self.subscribe_to_many().await } else { Ok(()) }
    }

    /// The message that was taken alone has been worked on and killed nobody; it is not settled only because it waits. As long
    /// as it does, it is one more than the new subscription's prefetch.
    async fn widen_beside_one(
        &mut self,
        events: &mpsc::UnboundedSender<Event>,
        caution: &mut Caution,
    ) -> Result<(), End> {
        if self.width == Width::Many || self.stopped || self.suspect || !caution.is_over() {
            return Ok(());
        }
        self.width = Width::Many;
        self.end_subscription(events, caution).await?;
        self.subscribe_to_many().await
    }

    async fn send(&mut self, plan: Plan, caution: &mut Caution) -> Result<(), End> {
        let bulk = plan.up_to.map(|tag| (tag, true));
        let alone = plan.singly.into_iter().map(|tag| (tag, false));
        let sending = bulk.into_iter().chain(alone);
        let sending = sending.map(|(tag, multiple)| self.channel.basic_ack(tag, BasicAckOptions { multiple }));
        match tokio::time::timeout(self.limit, future::try_join_all(sending)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(fault)) => Err(self.fault("acknowledging", &fault, caution)),
            Err(_) => Err(End::Lost(Error::Unavailable("acknowledging: no answer in time".into()))),
        }
    }

    /// Judges an error that ended the session. One message that cannot be read ends it for all: it stands behind
    /// everything that came, looked at or not.
    fn fault(&mut self, doing: &str, fault: &lapin::Error, caution: &mut Caution) -> End {
        let told = connection::classify(doing, fault);
        if !connection::is_unreadable(fault) {
            return End::Lost(told);
        }
        while let Some(Some(Ok(_))) = self.stream.next().now_or_never() {
            self.dropped += 1;
        }
        caution.alarm(self.unacked.outstanding() + self.dropped + 1);
        End::Unreadable(told)
    }

    /// A quorum queue takes a new prefetch only for a new subscription, on the same channel. What is unacknowledged stays so.
    async fn subscribe_to_many(&mut self) -> Result<(), End> {
        self.window = self.budget.window();
        self.stream = subscribe(&self.channel, &self.queue, self.window, self.limit).await.map_err(End::Lost)?;
        tracing::debug!(session = self.number, prefetch = self.window, "takes many messages at once");
        Ok(())
    }

    /// Cancels the subscription and takes what had been sent before.
    async fn end_subscription(
        &mut self,
        events: &mpsc::UnboundedSender<Event>,
        caution: &mut Caution,
    ) -> Result<(), End> {
        self.cancel().await.map_err(End::Lost)?;
        loop {
            match tokio::time::timeout(self.limit, self.stream.next()).await {
                Ok(None) => return Ok(()),
                Ok(message) => self.take(message, events, caution)?,
                Err(_) => return Err(End::Lost(Error::Unavailable("a cancelled subscription does not end".into()))),
            }
        }
    }

    /// Suspects among many: nothing new is taken, the others are settled, and then they have their turn. Too many bytes in
    /// hand: nothing new is taken until there is room.
    async fn tend(&mut self, events: &mpsc::UnboundedSender<Event>, caution: &mut Caution) -> Result<(), End> {
        // One that is taken alone is alone already, whatever its size.
        let many = self.width == Width::Many;
        let exceeded = many && self.budget.is_exceeded(self.unacked.bytes());
        let opens = many && self.budget.may_open(self.window);
        if self.stopped || (self.quiet.is_none() && !exceeded && !opens && self.suspects.is_empty()) {
            return Ok(());
        }
        if self.quiet.is_none() {
            tracing::debug!(session = self.number, suspects = !self.suspects.is_empty(), exceeded, "takes nothing new");
            self.quiet = Some(Quiet::ForRoom);
            self.end_subscription(events, caution).await?;
        }
        if !self.suspects.is_empty() {
            self.quiet = Some(Quiet::ForSuspects);
        }
        let is_over = match self.quiet {
            Some(Quiet::ForSuspects) => self.unacked.outstanding() == 0,
            Some(Quiet::ForRoom) | None => self.budget.has_room(self.unacked.bytes()),
        };
        if is_over {
            self.quiet = None;
            return self.subscribe_to_many().await;
        }
        let in_hand = self.unacked.outstanding();
        match self.suspects.next(in_hand) {
            Turn::This(delivery) => events.send(Event::Delivery(*delivery)).map_err(|_| End::Closed(None)),
            Turn::Alone => {
                caution.alarm(in_hand);
                Err(End::Suspect)
            }
            Turn::Nobody => Ok(()),
        }
    }

    /// Takes nothing new. What the client library still has in its buffer returns to the queue with the channel.
    async fn stop(&mut self) -> Result<(), End> {
        self.stopped = true;
        if self.quiet.is_some() { Ok(()) } else { self.cancel().await.map_err(End::Lost) }
    }

    async fn cancel(&self) -> Result<(), Error> {
        let cancelling = self.channel.basic_cancel(self.stream.tag(), BasicCancelOptions::default());
        within(self.limit, "cancelling the subscription", cancelling).await
    }

    fn take(
        &mut self,
        message: Option<lapin::Result<lapin::message::Delivery>>,
        events: &mpsc::UnboundedSender<Event>,
        caution: &mut Caution,
    ) -> Result<(), End> {
        let message = match message {
            Some(Ok(message)) => message,
            Some(Err(fault)) => return Err(self.fault("consuming", &fault, caution)),
            None => return Err(End::Lost(Error::Unavailable("the broker cancelled the subscription".into()))),
        };
        if !message.acker.usable() {
            // It sat in the client library's buffer when the channel was lost: the broker gives it to somebody again.
            self.dropped += 1;
            return Ok(());
        }
        self.unacked.delivered(message.delivery_tag, message.data.len());
        self.budget.delivered(message.data.len());
        let delivery = Delivery::new(self.number, message);
        self.suspect = delivery.returns() >= SUSPECT_RETURNS;
        if self.suspect && self.width == Width::Many && self.prefetch > 1 {
            self.suspects.set_aside(delivery);
            return Ok(());
        }
        events.send(Event::Delivery(delivery)).map_err(|_| End::Closed(None))
    }
}

async fn subscribe(channel: &Channel, queue: &str, prefetch: u16, limit: Duration) -> Result<lapin::Consumer, Error> {
    within(limit, "setting the prefetch", channel.basic_qos(prefetch, BasicQosOptions::default())).await?;
    let consuming =
        channel.basic_consume(headers::short(queue), "".into(), BasicConsumeOptions::default(), FieldTable::default());
    within(limit, "subscribing", consuming).await
}
