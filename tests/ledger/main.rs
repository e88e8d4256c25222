//! The ledger on PostgreSQL, MariaDB and SQLite: the same tests, the same guarantees.

mod audits;
mod commits;
mod recoveries;
mod scale;
mod schemas;
mod stocks;
mod support;
