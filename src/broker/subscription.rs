//! How a consumer stands with the broker.

/// How it stands; see [`super::Consumer::subscription`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Subscription {
    /// Subscribed on a live channel: what is in the queue comes.
    Up,
    /// Not subscribed by its own wish, or for the moment that it takes to subscribe anew.
    Between(&'static str),
    /// Lost, for this reason; tried again and again.
    Lost(String),
}
