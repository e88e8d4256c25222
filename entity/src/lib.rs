//! The tables of lastunit as SeaORM entities.
//!
//! They mirror what the migrations created last. Migrations do not use them: a migration is a fact of the past, an entity
//! changes with the program.

pub mod reservation;
pub mod reservation_line;
pub mod stock;
pub mod stock_adjustment;
