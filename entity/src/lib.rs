//! The tables of lastunit.
