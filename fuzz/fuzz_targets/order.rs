//! Any bytes as the body of an order: the parser neither panics nor hangs, and takes them for the same as a plain reading.

#![no_main]
// The parser has more to offer than is used here.
#![allow(dead_code)]

#[path = "../../src/order/mod.rs"]
mod order;
#[path = "../../tests/properties/plain.rs"]
mod plain;

use libfuzzer_sys::fuzz_target;

/// Small, so that inputs of a few hundred bytes meet them.
const LIMITS: order::Limits = order::Limits { max_bytes: 700, max_lines: 5, max_quantity: 1_000 };

fuzz_target!(|body: &[u8]| plain::expect_same(body, &LIMITS));
