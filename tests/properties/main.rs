//! Properties of the pure parts on generated input: the parser against a plain reading of the same bytes, the planner
//! against an oracle that decides one order after the other.

mod orders;
mod plain;
mod plans;

use lastunit::order;
