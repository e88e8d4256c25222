//! lastunit sells the last unit once: an asynchronous job worker for queue-driven order pipelines.
//!
//! The life of a message, and where to read about each step:
//!
//! ```text
//! deliver ─▶ parse ─▶ wait in memory, first come first served per SKU      broker, order, worker
//!                       │   a batch = the oldest waiting orders whose SKUs are free in this worker
//!                       ▼
//!            look up    redelivered or delayed orders only: a decided one is settled again   ledger
//!            lease      one Redis round trip for all SKUs of the batch                       lease
//!            read       stock rows, and decisions already taken                              ledger
//!            plan       orders × stock × tokens → decisions                                  plan
//!            commit     one transaction with fence and quantity predicates                   ledger
//!            release    the leases, at once                                                  lease
//!            settle     publish events, dead-letter lost races, wait for confirms            outcome, broker
//!            ack        last of all                                                          broker
//! ```
//!
//! The promises: no oversell; a stale holder's write is refused; Redis may forget anything; one decision per order;
//! nothing is lost; all lines or none. The quantity predicate is the last line of defence for the first, the fence
//! predicate ([`fence`]) for the second and third, the primary key on the order id for the fourth. A lease makes work
//! efficient, never correct.

// The futures of a command are nested in one another, deeper than the compiler's default of 128.
#![recursion_limit = "256"]

pub mod admin;
pub mod bench;
pub mod broker;
pub mod checkpoint;
pub mod commands;
pub mod config;
pub mod demo;
pub mod fence;
pub mod health;
pub mod lease;
pub mod ledger;
pub mod order;
pub mod outcome;
pub mod plan;
pub mod retry;
pub mod telemetry;
pub mod worker;
