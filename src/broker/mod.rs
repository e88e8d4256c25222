//! RabbitMQ: topology, consuming, publishing with confirms. The only home of `lapin`.
//!
//! Consuming and publishing use a connection each: while the broker raises a memory or disk alarm it stops reading from
//! connections that published, and an acknowledgement must not wait for that. The client library's own recovery is not
//! used; [`Consumer`] and [`Publisher`] replace what is lost by themselves. Every call has a time limit.
//!
//! | file | holds |
//! | --- | --- |
//! | `names`, `topology`, `inspector` | what exists on the broker, and whether it is as it should be |
//! | `connection` | opening connections, time limits, what an error means for the caller |
//! | `incoming`, `outgoing`, `headers`, `detail`, `trace` | messages, and what may be kept of a foreign one |
//! | `consumer`, `subscription`, `command`, `session`, `acks`, `caution` | consuming for ever, one channel's life, acknowledging in bulk, killers |
//! | `publisher`, `channels` | confirmed batches |
//! | `client`, `look` | what senders and onlookers need: commands, the demo, tests |

mod acks;
mod budget;
mod caution;
mod channels;
pub mod client;
mod command;
pub(crate) mod connection;
mod consumer;
mod detail;
pub(crate) mod headers;
mod incoming;
mod inspector;
mod look;
mod names;
mod outgoing;
mod publisher;
mod session;
mod subscription;
mod suspects;
pub mod topology;
mod trace;

pub use consumer::{Consumer, Control};
pub use incoming::{Delivery, Event, Tag};
pub use names::{DeadQueue, Names};
pub use outgoing::Outgoing;
pub use publisher::Publisher;
pub use subscription::Subscription;

/// Why the broker could not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached or does not answer in time; try again later.
    #[error("the broker is unavailable: {0}")]
    Unavailable(String),
    /// Exchanges or queues are not as they should be; the text says what differs and how to mend it. Exit code 78.
    #[error("{0}")]
    Topology(String),
    /// It refused, and would refuse again.
    #[error("the broker refused: {0}")]
    Refused(String),
    /// A mandatory message came back: no queue takes it. Nothing may be acknowledged on its account.
    #[error("no queue takes {0}: `lastunit topology` declares what is missing")]
    Returned(String),
}
