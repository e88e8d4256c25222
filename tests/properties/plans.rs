//! The planner, against an oracle that keeps shelves and serves one customer after the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lastunit::fence::FenceToken;
use lastunit::order::{Limits, Order, Sku, parse};
use lastunit::plan::{Reason, StockRow, Verdict, plan};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

const SKUS: [&str; 5] = ["a", "b", "c", "d", "d "];
const LIMITS: Limits = Limits { max_bytes: 10_000, max_lines: 10, max_quantity: 100 };

type Shelf = BTreeMap<&'static str, i64>;
type Cart = Vec<(&'static str, i64)>;

fn order(number: usize, cart: &Cart) -> Order {
    let lines: Vec<Value> = cart.iter().map(|(sku, quantity)| json!({"sku": sku, "quantity": quantity})).collect();
    let body = json!({"order_id": number.to_string(), "lines": lines}).to_string();
    parse(body.as_bytes(), &LIMITS).expect("an order")
}

fn rows(shelf: &Shelf) -> HashMap<Sku, StockRow> {
    let row = |available| StockRow { available, fence: FenceToken::ZERO };
    shelf.iter().map(|(sku, available)| (Sku::new(sku).expect("a sku"), row(*available))).collect()
}

/// What one customer is told: nothing when served, or the reason and what was short.
type Told = Option<(Reason, Vec<(String, i64, i64)>)>;

/// Serves one customer: everything in the cart, or nothing and why.
fn serve(shelf: &mut Shelf, cart: &Cart) -> Told {
    // Put together what stands in several lines, in the order of its first line.
    let mut wanted: Vec<(&'static str, i64)> = Vec::new();
    for (sku, quantity) in cart {
        match wanted.iter_mut().find(|(seen, _)| seen == sku) {
            Some((_, sum)) => *sum += quantity,
            None => wanted.push((sku, *quantity)),
        }
    }
    let left = |sku: &str| shelf.get(sku).copied();
    let short: Vec<_> = wanted.iter().filter(|(sku, quantity)| left(sku).is_none_or(|left| left < *quantity)).collect();
    if short.is_empty() {
        for (sku, quantity) in wanted {
            *shelf.get_mut(sku).expect("known") -= quantity;
        }
        return None;
    }
    let reason = if wanted.iter().any(|(sku, _)| left(sku).is_none()) { Reason::UnknownSku } else { Reason::SoldOut };
    Some((reason, short.iter().map(|(sku, n)| ((*sku).to_owned(), *n, left(sku).unwrap_or(0))).collect()))
}

fn told(verdict: &Verdict) -> Told {
    match verdict {
        Verdict::Reserved => None,
        Verdict::Rejected { reason, short } => Some((
            *reason,
            short.iter().map(|short| (short.sku.to_string(), short.requested, short.available)).collect(),
        )),
    }
}

fn shelf() -> impl Strategy<Value = Shelf> {
    btree_map(select(SKUS.to_vec()), 0i64..20, 0..=SKUS.len())
}

fn carts() -> impl Strategy<Value = Vec<Cart>> {
    vec(vec((select(SKUS.to_vec()), 1i64..4), 1..5), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_batch_is_decided_as_if_its_orders_came_one_after_the_other(before in shelf(), carts in carts()) {
        let mut after = before.clone();
        let expected: Vec<Told> = carts.iter().map(|cart| serve(&mut after, cart)).collect();
        let orders: Vec<Order> = carts.iter().enumerate().map(|(number, cart)| order(number, cart)).collect();
        let plan = plan(&orders, &rows(&before));

        prop_assert_eq!(plan.verdicts.iter().map(told).collect::<Vec<_>>(), expected);
        let taken: BTreeMap<&str, i64> = plan.take.iter().map(|(sku, units)| (sku.as_str(), *units)).collect();
        for (sku, units) in &before {
            let taken = taken.get(sku).copied().unwrap_or(0);
            prop_assert_eq!(units - taken, after[sku], "{}", sku);
            prop_assert!(taken >= 0 && after[sku] >= 0, "{}", sku);
        }
        // Every decision advances the fence of each row it looked at, a refusal too.
        let looked_at: BTreeSet<&str> = carts.iter().flatten().map(|(sku, _)| *sku).collect();
        let known: BTreeSet<&str> = before.keys().copied().filter(|sku| looked_at.contains(sku)).collect();
        prop_assert_eq!(taken.into_keys().collect::<BTreeSet<_>>(), known);
    }
}
