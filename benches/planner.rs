//! The planner by itself, on a full batch of 500 orders: `make benches`.

use std::collections::HashMap;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lastunit::fence::FenceToken;
use lastunit::order::{Limits, Order, Sku, parse};
use lastunit::plan::{StockRow, plan};
use serde_json::json;

const ORDERS: usize = 500;
const SKUS: usize = 10_000;
const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_lines: 2_000, max_quantity: 1_000_000 };

fn planning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    group.throughput(Throughput::Elements(ORDERS as u64));
    let loads = [
        ("one hot SKU in stock", orders(1, |_, _| 0), 1_000_000),
        ("one hot SKU sold out", orders(1, |_, _| 0), 0),
        ("one line each, uniform", orders(1, |order, _| order * 19 % SKUS), 1_000_000),
        ("15 lines each, uniform", orders(15, |order, line| (order * 15 + line) * 7 % SKUS), 1_000_000),
    ];
    for (name, orders, available) in loads {
        let stock = stock(&orders, available);
        group.bench_function(name, |bencher| bencher.iter(|| plan(black_box(&orders), black_box(&stock))));
    }
    group.finish();
}

/// Orders of so many lines; `sku` picks a SKU by order and line.
fn orders(lines: usize, sku: impl Fn(usize, usize) -> usize) -> Vec<Order> {
    let line = |order, line| json!({"sku": format!("SKU-{}", sku(order, line)), "quantity": 1});
    let body = |order| {
        let lines: Vec<_> = (0..lines).map(|number| line(order, number)).collect();
        json!({"order_id": format!("A-{order}"), "lines": lines}).to_string()
    };
    (0..ORDERS).map(|order| parse(body(order).as_bytes(), &LIMITS).expect("an order")).collect()
}

fn stock(orders: &[Order], available: i64) -> HashMap<Sku, StockRow> {
    let skus = orders.iter().flat_map(|order| &order.lines).map(|line| line.sku.clone());
    skus.map(|sku| (sku, StockRow { available, fence: FenceToken::ZERO })).collect()
}

criterion_group!(benches, planning);
criterion_main!(benches);
