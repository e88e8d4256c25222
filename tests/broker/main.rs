//! The broker module on a real RabbitMQ.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod commands;
mod consuming;
mod killer;
mod large;
mod messages;
#[allow(dead_code, reason = "other test programs use more of it")]
#[path = "../support/proxy.rs"]
mod proxy;
mod publishing;
mod raw;
mod support;
mod topology;
#[path = "../support/wait.rs"]
mod wait;
