//! The worker: waiting orders, batches, supervision and drain.
