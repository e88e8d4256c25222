//! PURE. A decision becomes an event, and for a lost race a dead letter.
