//! Health and metrics of a real worker process, over HTTP.

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod drain;
mod logs;
mod metrics;
mod outages;
mod probe;
mod startup;
