//! The schema of lastunit.
