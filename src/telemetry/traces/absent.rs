//! Nothing, in the form of [`super`].

use std::fmt::Display;
use std::future::Future;

use tracing::info;

use super::{ENDPOINTS, variable};

/// Traces on their way: none.
#[derive(Debug)]
pub struct Sending;

impl Sending {
    /// Says so, where traces are wanted.
    #[must_use]
    pub fn start(_worker: &str) -> Self {
        if let Some(name) = ENDPOINTS.into_iter().find(|name| variable(name).is_some()) {
            info!("{name} is set, but this program was built without the cargo feature otlp: it sends no traces");
        }
        Self
    }

    /// Nothing is left to send.
    #[allow(clippy::unused_async, reason = "it waits where there are traces")]
    pub async fn finish(self) {}
}

/// A batch's span: none.
#[derive(Debug)]
pub struct Span;

impl Span {
    /// None begins.
    #[inline(always)]
    #[must_use]
    pub fn batch<'a>(
        _queue: impl FnOnce() -> String,
        _messages: usize,
        _traces: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Self {
        Self
    }

    /// The work itself.
    #[inline(always)]
    pub fn around<W: Future>(self, work: W) -> W {
        work
    }

    /// Nobody wants to know.
    #[inline(always)]
    pub fn decided(_settled: usize, _back: usize, _trouble: Option<&impl Display>) {}
}

/// The work itself.
#[inline(always)]
pub(in crate::telemetry) fn stage<W: Future>(_name: &'static str, work: W) -> W {
    work
}
