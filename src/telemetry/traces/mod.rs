//! Traces: a span per batch with one for each of its stages, linked to the traces that its orders came with, sent by OTLP.
//!
//! A build without the cargo feature `otlp` has nothing of it. With the feature, and without an endpoint in the environment,
//! a batch costs one look at a static.

#[cfg(not(feature = "otlp"))]
mod absent;
#[cfg(feature = "otlp")]
mod client;
#[cfg(feature = "otlp")]
mod sending;
#[cfg(feature = "otlp")]
mod spans;

#[cfg(not(feature = "otlp"))]
pub(super) use absent::stage;
#[cfg(not(feature = "otlp"))]
pub use absent::{Sending, Span};
#[cfg(feature = "otlp")]
pub use sending::Sending;
#[cfg(feature = "otlp")]
pub use spans::Span;
#[cfg(feature = "otlp")]
pub(super) use spans::stage;

/// Either says where traces go; the first one that is set.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// A variable that is set and not empty, which the standard treats like one that is not set.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
