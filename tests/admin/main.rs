//! What a real worker process tells about itself: health and metrics over HTTP, log lines, trace context.

#[path = "../support/mod.rs"]
mod support;

mod clients;
#[cfg(feature = "otlp")]
mod collector;
mod drain;
mod logs;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod outages;
mod probe;
mod startup;
mod traces;
