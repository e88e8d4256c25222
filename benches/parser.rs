//! The parser by itself: `make benches`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lastunit::order::{Limits, parse};
use serde_json::json;

const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_lines: 2_000, max_quantity: 1_000_000 };

/// Orders of so many lines: the short form, the median and the 99th percentile of a real shop, and the most that is allowed.
fn parsing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    let short = json!({"order_id": "A-1001", "sku": "SNKR-42", "quantity": 1}).to_string();
    let sizes = [15, 217, 2_000].map(|lines| (lines, long(lines)));
    for (lines, body) in std::iter::once((1, short)).chain(sizes) {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_with_input(BenchmarkId::new("lines", lines), &body, |bencher, body| {
            bencher.iter(|| parse(black_box(body.as_bytes()), &LIMITS).expect("an order"));
        });
    }
    let broken = long(2_000).replace("\"sku\":\"SKU-1999\"", "\"sku\":1999");
    group.throughput(Throughput::Bytes(broken.len() as u64));
    group.bench_function("refused in the last of 2000 lines", |bencher| {
        bencher.iter(|| parse(black_box(broken.as_bytes()), &LIMITS).expect_err("no order"));
    });
    group.finish();
}

fn long(lines: usize) -> String {
    let lines: Vec<_> = (0..lines).map(|n| json!({"sku": format!("SKU-{n}"), "quantity": n % 9 + 1})).collect();
    json!({"order_id": "405-2718281-8284590", "lines": lines}).to_string()
}

criterion_group!(benches, parsing);
criterion_main!(benches);
