//! Every race of the lease protocol as a named, deterministic interleaving: workers are held at points of their code and
//! let go in the sequence that hurts, on real services. No test waits for time to pass, but for leases to end.

#[path = "../support/mod.rs"]
mod support;

mod acquisition;
mod collecting;
mod decisions;
mod recovery;
mod scene;
mod seeds;
mod spy;
mod stale;
mod stock;
mod succession;
mod workers;
