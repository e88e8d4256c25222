//! The parser: on any bytes, on texts that are nearly orders, and on orders.

use std::collections::BTreeMap;

use lastunit::order::{Limits, parse};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::plain::{expect_same, tree};

/// Small, so that generated input meets them.
const LIMITS: Limits = Limits { max_bytes: 700, max_lines: 4, max_quantity: 50 };
/// For orders that are meant to be taken.
const ROOMY: Limits = Limits { max_bytes: 100_000, max_lines: 100, max_quantity: 1_000_000 };

/// A value as JSON text: mostly what belongs into an order, sometimes what does not, with a twist of each kind.
fn value() -> impl Strategy<Value = String> {
    let odd = [
        "null",
        "true",
        "-1",
        "-0",
        "0",
        "1.0",
        "1e0",
        "1e999",
        "18446744073709551615",
        "18446744073709551616",
        "51",
        "\"\"",
        "\"1\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "[]",
        "{}",
        "[\"X\",1]",
        "{\"\\ud800\":1}",
        "01",
        "nul",
        "315360000",
        "315360001",
    ];
    prop_oneof![
        2 => select(odd.to_vec()).prop_map(str::to_owned),
        3 => (0u64..60).prop_map(|number| number.to_string()),
        3 => select(vec!["X", "Y", "x", "X ", "é", "A-1"]).prop_map(|text| json!(text).to_string()),
        1 => any::<String>().prop_map(|text| json!(text).to_string()),
        1 => (250usize..260).prop_map(|bytes| json!("i".repeat(bytes)).to_string()),
    ]
}

fn object(fields: Vec<(String, String)>) -> String {
    let fields: Vec<_> = fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// `name` with a value that fits, or, one time in eight, any value, a repetition of the field, or no field at all.
fn field(name: &'static str, fits: BoxedStrategy<String>) -> impl Strategy<Value = Vec<(String, String)>> {
    let pair = move |value: String| (name.to_owned(), value);
    prop_oneof![
        21 => fits.prop_map(move |value| vec![pair(value)]),
        1 => value().prop_map(move |value| vec![pair(value)]),
        1 => vec(value(), 2).prop_map(move |values| values.into_iter().map(pair).collect()),
        1 => Just(Vec::new()),
    ]
}

fn name() -> BoxedStrategy<String> {
    select(vec!["\"X\"", "\"Y\"", "\"Z\"", "\"X \"", "\"\\u0058\""]).prop_map(str::to_owned).boxed()
}

fn quantity() -> BoxedStrategy<String> {
    (1u64..30).prop_map(|number| number.to_string()).boxed()
}

fn line() -> BoxedStrategy<String> {
    (field("sku", name()), field("quantity", quantity()))
        .prop_map(|(sku, quantity)| object([sku, quantity].concat()))
        .boxed()
}

/// Text that is an order about half of the time.
fn near_order() -> impl Strategy<Value = String> {
    let lines =
        vec(prop_oneof![30 => line(), 1 => value().boxed()], 0..6).prop_map(|lines| format!("[{}]", lines.join(",")));
    let what = prop_oneof![
        (field("sku", name()), field("quantity", quantity())).prop_map(|(sku, quantity)| [sku, quantity].concat()),
        field("lines", lines.boxed()),
    ];
    let extra = vec((select(vec!["note", "lines", "order_id", "é"]).prop_map(str::to_owned), value()), 0..2);
    let extra = prop_oneof![3 => Just(Vec::new()), 1 => extra];
    let hold = prop_oneof![2 => Just(Vec::new()), 1 => field("hold_seconds", quantity())];
    let fields = (field("order_id", name()), what, hold, extra);
    let fields = fields.prop_map(|(id, what, hold, extra)| [id, what, hold, extra].concat()).prop_shuffle();
    let around = prop_oneof![8 => Just(("", "")), 1 => Just(("\u{feff}", "\r\n")), 1 => Just((" ", " x"))];
    (fields, around).prop_map(|(fields, (before, after))| format!("{before}{}{after}", object(fields)))
}

/// An id that is allowed.
fn id() -> impl Strategy<Value = String> {
    vec(any::<char>().prop_filter("a control character", |c| !c.is_control()), 1..60)
        .prop_map(|chars| chars.into_iter().collect::<String>())
}

/// Lines of few SKUs, so that they repeat.
fn lines() -> impl Strategy<Value = Vec<(String, i64)>> {
    (vec(id(), 1..4), vec((any::<prop::sample::Index>(), 1i64..1000), 1..20)).prop_map(|(skus, lines)| {
        lines.into_iter().map(|(index, quantity)| (index.get(&skus).clone(), quantity)).collect()
    })
}

fn render(id: &str, lines: &[(String, i64)], hold: Option<u64>) -> Vec<u8> {
    let lines: Vec<Value> = lines.iter().map(|(sku, quantity)| json!({"sku": sku, "quantity": quantity})).collect();
    json!({"order_id": id, "lines": lines, "hold_seconds": hold}).to_string().into_bytes()
}

fn sums(lines: &[(String, i64)]) -> BTreeMap<&str, i64> {
    lines.iter().fold(BTreeMap::new(), |mut sums, (sku, quantity)| {
        *sums.entry(sku).or_default() += quantity;
        sums
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_are_read_as_a_plain_reader_would(body in vec(any::<u8>(), 0..800)) {
        expect_same(&body, &LIMITS);
    }

    #[test]
    fn any_text_of_jsons_characters_is_read_as_a_plain_reader_would(body in "[\\[\\]{}:,\"\\\\0-9a-fnrtul .+eE-]{0,60}") {
        expect_same(body.as_bytes(), &LIMITS);
    }

    #[test]
    fn what_is_nearly_an_order_is_read_as_a_plain_reader_would(
        body in near_order(), cut in prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()))
    ) {
        let mut body = body.into_bytes();
        if let Some((at, byte)) = cut {
            let at = at.index(body.len());
            body[at] = byte;
        }
        expect_same(&body, &LIMITS);
        let text = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&body);
        prop_assert_eq!(tree(&body).is_some(), serde_json::from_slice::<Value>(text).is_ok());
    }

    #[test]
    fn an_order_that_is_written_down_is_read_back(
        id in id(), lines in lines(), hold in prop::option::of(0u64..315_360_000)
    ) {
        let order = parse(&render(&id, &lines, hold), &ROOMY).expect("an order");
        prop_assert_eq!(order.id.as_str(), id.as_str());
        prop_assert_eq!(order.hold.map(|hold| hold.as_secs()), hold);
        let found: BTreeMap<_, _> = order.lines.iter().map(|line| (line.sku.as_str(), line.quantity)).collect();
        prop_assert_eq!(found.len(), order.lines.len(), "each SKU once");
        prop_assert_eq!(found, sums(&lines));
        let read: Vec<_> = order.lines.iter().map(|line| (line.sku.to_string(), line.quantity)).collect();
        prop_assert_eq!(parse(&render(&id, &read, hold), &ROOMY).expect("an order"), order);
    }

    #[test]
    fn content_hashes_are_equal_for_equal_content_alone(
        one in vec((select(vec!["a", "ab", "b"]), 1i64..3), 1..4), other in vec((select(vec!["a", "ab", "b"]), 1i64..3), 1..4),
        holds in (prop::option::of(0u64..2), prop::option::of(0u64..2))
    ) {
        let [one, other] = [one, other].map(|lines| lines.into_iter().map(|(sku, n)| (sku.to_owned(), n)).collect::<Vec<_>>());
        let hash = |id, lines: &[_], hold| parse(&render(id, lines, hold), &ROOMY).expect("an order").content_hash;
        let same = (sums(&one), holds.0) == (sums(&other), holds.1);
        prop_assert_eq!(hash("A", &one, holds.0) == hash("B", &other, holds.1), same);
    }
}

#[test]
fn the_generator_makes_good_and_bad_orders() {
    let mut runner = TestRunner::deterministic();
    let mut body = || near_order().new_tree(&mut runner).expect("a text").current();
    let good = (0..1_000).filter(|_| parse(body().as_bytes(), &LIMITS).is_ok()).count();
    assert!((200..800).contains(&good), "{good} of 1,000 are orders");
}
