//! What a real worker process tells about itself: health and metrics over HTTP, log lines, trace context.

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod drain;
mod logs;
mod metrics;
mod outages;
mod probe;
mod startup;
mod traces;
