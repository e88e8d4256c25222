//! The spine, end to end: an order goes in, one decision comes out, on real services and with real processes.

#[path = "../support/mod.rs"]
mod support;

mod demo;
mod drain;
mod duplicates;
mod flush;
mod foreign;
mod locked;
mod malformed;
mod rush;
mod shelves;
mod shop;
mod startup;
