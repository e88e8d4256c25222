//! What a worker depends on goes away, becomes slow, full, read-only, or silent: it takes no new messages, burns no
//! attempt, dead-letters nothing, says so once, and goes on by itself.

#[path = "../support/mod.rs"]
mod support;

mod broker;
mod cluster;
mod database;
mod full;
mod private_broker;
mod redis_outages;
mod rolling;
mod scene;
mod topology;
mod waiting;
