//! Consuming for ever: one loop that replaces every session that ends.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::Error;
use super::caution::Caution;
use super::command::Command;
use super::incoming::{Event, Tag};
use super::session::{End, Session};
use super::subscription::Subscription;
use super::topology::Topology;
use crate::config;
use crate::retry::Backoff;

const FIRST_DELAY: Duration = Duration::from_millis(100);
/// A broker that is back is found within seconds.
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// Consumes the orders queue on a connection of its own and keeps doing so: any end of connection, channel or consumer
/// leads to a fresh one.
#[derive(Debug)]
pub struct Consumer {
    /// Deliveries, and sessions lost; ends only after [`Control::close`]. Bounded by the prefetch.
    pub events: mpsc::UnboundedReceiver<Event>,
    /// Acknowledges and steers.
    pub control: Control,
    /// How it stands with the broker; closed with it.
    pub subscription: watch::Receiver<Subscription>,
}

/// Steers a [`Consumer`] from any task. Cheap to clone; commands are obeyed in the sequence in which they are given.
#[derive(Clone, Debug)]
pub struct Control {
    commands: mpsc::UnboundedSender<Command>,
}

impl Consumer {
    /// Connects, declares or verifies the topology and begins to consume.
    ///
    /// # Errors
    /// See [`Error`]: only the first connection can fail; later ones are tried for ever.
    pub async fn start(broker: &config::Broker, retry: &config::Retry) -> Result<Self, Error> {
        let topology = Topology::new(broker, retry);
        let first = Session::open(broker, &topology, 1).await?;
        let (send_event, events) = mpsc::unbounded_channel();
        let (commands, receive_command) = mpsc::unbounded_channel();
        let (stand, subscription) = watch::channel(Subscription::Up);
        let supervisor = Supervisor {
            settings: broker.clone(),
            topology,
            commands: receive_command,
            events: send_event,
            stand,
            caution: Caution::default(),
            backoff: Backoff::new(FIRST_DELAY, LONGEST_DELAY),
        };
        tokio::spawn(supervisor.run(first));
        Ok(Self { events, control: Control { commands }, subscription })
    }
}

impl Control {
    /// Acknowledges settled deliveries. Tags of ended sessions are dropped: their messages come again.
    pub fn ack(&self, tags: Vec<Tag>) {
        self.tell(Command::Ack(tags));
    }

    /// Gives everything back that is not acknowledged, and takes nothing until [`Control::resume`]. [`Event::Lost`]
    /// follows. Before RabbitMQ 4.3 this uses up one of the deliveries of each message given back: do not come back
    /// before there is something to come back to.
    pub fn pause(&self) {
        self.tell(Command::Pause);
    }

    /// Says that the message in hand is harmless: it has been worked on, and waits for somebody else's lease. Others need
    /// not wait for it to be settled before they are taken.
    pub fn survived(&self) {
        self.tell(Command::Survived);
    }

    /// Takes messages again.
    pub fn resume(&self) {
        self.tell(Command::Resume);
    }

    /// Takes nothing new, for good; what was delivered can still be acknowledged. Returns when nothing more is delivered.
    pub async fn stop(&self) {
        self.ask(Command::Stop).await;
    }

    /// Gives back what is not acknowledged and closes the connection, after all acknowledgements before it were sent.
    pub async fn close(&self) {
        self.ask(Command::Close).await;
    }

    fn tell(&self, command: Command) {
        if self.commands.send(command).is_err() {
            tracing::trace!("the consumer is closed already");
        }
    }

    /// Waits until it is done; a consumer that is closed has nothing left to do.
    async fn ask(&self, command: impl FnOnce(oneshot::Sender<()>) -> Command) {
        let (done, wait) = oneshot::channel();
        self.tell(command(done));
        if wait.await.is_err() {
            tracing::trace!("the consumer is closed already");
        }
    }
}

struct Supervisor {
    settings: config::Broker,
    topology: Topology,
    commands: mpsc::UnboundedReceiver<Command>,
    events: mpsc::UnboundedSender<Event>,
    stand: watch::Sender<Subscription>,
    caution: Caution,
    backoff: Backoff,
}

/// Whether to look for a new session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Want {
    /// At once.
    Session,
    /// Not before [`Command::Resume`].
    Resume,
    /// Never: [`Command::Stop`] is for good.
    Nothing,
}

impl Supervisor {
    async fn run(mut self, mut session: Session) {
        let mut number = session.number;
        loop {
            let end = session.run(&mut self.commands, &self.events, &mut self.caution).await;
            let want = match &end {
                _ if session.is_stopped() => Want::Nothing,
                End::Paused => Want::Resume,
                End::Suspect | End::Unreadable(_) | End::Lost(_) | End::Closed(_) => Want::Session,
            };
            self.report(&session, &end);
            // The broker is well when it is a message that ended it.
            if session.proved || matches!(end, End::Paused | End::Suspect | End::Unreadable(_)) {
                self.backoff.reset();
            }
            match end {
                // Politeness towards a connection that is gone would only cost its time limits.
                End::Lost(_) | End::Unreadable(_) => drop(session),
                End::Paused | End::Suspect => session.hang_up().await,
                End::Closed(done) => {
                    session.hang_up().await;
                    return finish(done);
                }
            }
            number += 1;
            session = match self.replace(number, want).await {
                Ok(session) => session,
                Err(done) => return finish(done),
            };
        }
    }

    /// Says once that a session ended, to the worker and in the log.
    fn report(&self, session: &Session, end: &End) {
        let session = session.number;
        match end {
            End::Paused => tracing::debug!(session, "paused: gave all messages back"),
            End::Closed(_) => tracing::debug!(session, "closed"),
            End::Suspect => tracing::warn!(session, "a message that keeps coming back: taking messages one at a time"),
            End::Unreadable(cause) => {
                tracing::warn!(session, %cause, "a message that cannot be read: taking messages one at a time");
            }
            End::Lost(cause) => tracing::warn!(session, %cause, "lost the orders queue; connecting again"),
        }
        self.stand.send_replace(match end {
            End::Paused => Subscription::Between("paused until database and redis answer"),
            End::Closed(_) => Subscription::Between("closed"),
            End::Suspect | End::Unreadable(_) => Subscription::Between("subscribing anew, for one message at a time"),
            End::Lost(cause) => Subscription::Lost(cause.to_string()),
        });
        if self.events.send(Event::Lost { session }).is_err() {
            tracing::trace!(session, "nobody listens any more");
        }
    }

    /// Opens the next session as soon as it is wanted and can be had, serving commands meanwhile; `Err` when closed.
    async fn replace(&mut self, number: u64, mut want: Want) -> Result<Session, Option<oneshot::Sender<()>>> {
        let mut told = String::new();
        loop {
            if want != Want::Session {
                let command = self.commands.recv().await;
                want = obey_without_session(command, want)?;
                continue;
            }
            let (settings, topology, delay) = (&self.settings, &self.topology, self.backoff.next_delay());
            let opening = async move {
                tokio::time::sleep(delay).await;
                Session::open(settings, topology, number).await
            };
            tokio::pin!(opening);
            while want == Want::Session {
                tokio::select! {
                    command = self.commands.recv() => want = obey_without_session(command, want)?,
                    opened = &mut opening => match opened {
                        Ok(session) => {
                            tracing::info!(session = session.number, "consuming again");
                            self.stand.send_replace(Subscription::Up);
                            return Ok(session);
                        }
                        Err(cause) => {
                            say_once(&mut told, &cause);
                            self.stand.send_replace(Subscription::Lost(cause.to_string()));
                            break;
                        }
                    },
                }
            }
        }
    }
}

/// One line for each cause, however often it is met until the next session.
fn say_once(told: &mut String, cause: &Error) {
    let cause = cause.to_string();
    if *told != cause {
        tracing::warn!(cause, "no connection to the orders queue yet");
        *told = cause;
    }
}

/// Without a session there is nothing to acknowledge: those messages come again.
fn obey_without_session(command: Option<Command>, want: Want) -> Result<Want, Option<oneshot::Sender<()>>> {
    match (command, want) {
        (None, _) => Err(None),
        (Some(Command::Close(done)), _) => Err(Some(done)),
        (Some(Command::Stop(done)), _) => {
            finish(Some(done));
            Ok(Want::Nothing)
        }
        (Some(Command::Pause), Want::Session) => Ok(Want::Resume),
        (Some(Command::Resume), Want::Resume) => Ok(Want::Session),
        (Some(Command::Pause | Command::Resume | Command::Ack(_) | Command::Survived), want) => Ok(want),
    }
}

fn finish(done: Option<oneshot::Sender<()>>) {
    if done.is_some_and(|done| done.send(()).is_err()) {
        tracing::trace!("who asked did not wait for it");
    }
}
