//! Redis really forgets, on real servers, while real worker processes race: nothing is oversold, nothing is decided twice,
//! and no order is lost for a reason other than that its units are sold.

#[path = "../support/mod.rs"]
mod support;

mod failovers;
mod forgotten;
mod relay;
mod restarts;
mod rush;
mod topologies;
