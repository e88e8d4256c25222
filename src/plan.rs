//! PURE. Orders × stock × tokens → decisions: oldest first, all lines or none.

use std::collections::{BTreeMap, HashMap};

use crate::fence::FenceToken;
use crate::order::{Order, Sku};

/// A stock row as it was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StockRow {
    /// Units that can still be reserved; never negative.
    pub available: i64,
    /// The highest token that wrote, or the floor of the last recovery.
    pub fence: FenceToken,
}

/// Why an order was rejected, for ever (or until a replay asks again).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Reason {
    /// Another order took what was left.
    SoldOut,
    /// No stock row has this SKU.
    UnknownSku,
    /// Newer holders wrote first, again and again.
    StaleFence,
    /// The lease did not come, again and again.
    LeaseTimeout,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::SoldOut, Self::UnknownSku, Self::StaleFence, Self::LeaseTimeout];

    /// As it stands in the table, in events and in routing keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SoldOut => "sold-out",
            Self::UnknownSku => "unknown-sku",
            Self::StaleFence => "stale-fence",
            Self::LeaseTimeout => "lease-timeout",
        }
    }

    /// Reads what [`Reason::as_str`] wrote.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

/// A SKU that an order could not have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Short {
    /// What.
    pub sku: Sku,
    /// Units that the order wanted.
    pub requested: i64,
    /// Units that were left for it; 0 for an unknown SKU.
    pub available: i64,
}

/// What becomes of one order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It gets all its lines.
    Reserved,
    /// It gets nothing.
    Rejected {
        /// Why.
        reason: Reason,
        /// Every SKU that was short or unknown, in the order's own sequence.
        short: Vec<Short>,
    },
}

/// The verdicts of one batch, and what they do to the stock.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    /// One per order, in the same sequence.
    pub verdicts: Vec<Verdict>,
    /// Units taken per SKU, in SKU order. A SKU that an order was refused for stands here with 0 units: its fence
    /// advances all the same.
    pub take: BTreeMap<Sku, i64>,
}

/// Decides orders one after the other, each against what the earlier ones left.
///
/// `stock` holds the rows of all SKUs of these orders; one that is absent does not exist.
#[must_use]
pub fn plan<'a>(orders: impl IntoIterator<Item = &'a Order>, stock: &HashMap<Sku, StockRow>) -> Plan {
    let mut plan = Plan::default();
    for order in orders {
        let verdict = decide(order, stock, &plan.take);
        let known = order.lines.iter().filter(|line| stock.contains_key(&line.sku));
        for line in known {
            let taken = if verdict == Verdict::Reserved { line.quantity } else { 0 };
            *plan.take.entry(line.sku.clone()).or_default() += taken;
        }
        plan.verdicts.push(verdict);
    }
    plan
}

fn decide(order: &Order, stock: &HashMap<Sku, StockRow>, taken: &BTreeMap<Sku, i64>) -> Verdict {
    let mut unknown = false;
    let mut short = Vec::new();
    for line in &order.lines {
        let row = stock.get(&line.sku);
        unknown |= row.is_none();
        let available = row.map_or(0, |row| row.available - taken.get(&line.sku).copied().unwrap_or_default());
        if available < line.quantity {
            short.push(Short { sku: line.sku.clone(), requested: line.quantity, available });
        }
    }
    match (unknown, short.is_empty()) {
        (false, true) => Verdict::Reserved,
        (true, _) => Verdict::Rejected { reason: Reason::UnknownSku, short },
        (false, false) => Verdict::Rejected { reason: Reason::SoldOut, short },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Limits, parse};

    fn order(id: &str, lines: &[(&str, i64)]) -> Order {
        let lines: Vec<_> =
            lines.iter().map(|(sku, quantity)| serde_json::json!({"sku": sku, "quantity": quantity})).collect();
        let body = serde_json::json!({"order_id": id, "lines": lines}).to_string();
        parse(body.as_bytes(), &Limits { max_bytes: 9_999, max_lines: 99, max_quantity: 999 }).expect("an order")
    }

    fn stock(rows: &[(&str, i64)]) -> HashMap<Sku, StockRow> {
        let row = |available| StockRow { available, fence: FenceToken::ZERO };
        rows.iter().map(|(sku, available)| (Sku::new(sku).expect("a sku"), row(*available))).collect()
    }

    fn outcomes(plan: &Plan) -> Vec<&'static str> {
        let name = |verdict: &Verdict| match verdict {
            Verdict::Reserved => "reserved",
            Verdict::Rejected { reason, .. } => reason.as_str(),
        };
        plan.verdicts.iter().map(name).collect()
    }

    #[test]
    fn the_oldest_order_gets_the_last_unit() {
        let orders = [order("A", &[("X", 1)]), order("B", &[("X", 1)])];
        let plan = plan(&orders, &stock(&[("X", 1)]));
        assert_eq!(outcomes(&plan), ["reserved", "sold-out"]);
        assert_eq!(plan.take.values().copied().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn an_order_gets_all_its_lines_or_none() {
        let orders = [order("A", &[("X", 1), ("Y", 5)]), order("B", &[("X", 1)])];
        let plan = plan(&orders, &stock(&[("X", 1), ("Y", 4)]));
        assert_eq!(outcomes(&plan), ["sold-out", "reserved"]);
    }

    #[test]
    fn a_smaller_order_may_still_fit_after_a_larger_one_lost() {
        let orders = [order("A", &[("X", 3)]), order("B", &[("X", 2)])];
        assert_eq!(outcomes(&plan(&orders, &stock(&[("X", 2)]))), ["sold-out", "reserved"]);
    }

    #[test]
    fn a_rejection_names_every_short_sku_and_advances_every_fence() {
        let orders = [order("A", &[("X", 2), ("Y", 1), ("Z", 9)])];
        let plan = plan(&orders, &stock(&[("X", 1), ("Y", 1), ("Z", 0)]));
        let Verdict::Rejected { short, .. } = &plan.verdicts[0] else { panic!("rejected") };
        assert_eq!(
            short.iter().map(|s| (s.sku.as_str(), s.requested, s.available)).collect::<Vec<_>>(),
            [("X", 2, 1), ("Z", 9, 0)]
        );
        assert_eq!(plan.take.into_values().collect::<Vec<_>>(), [0, 0, 0]);
    }

    #[test]
    fn an_unknown_sku_rejects_the_order_and_touches_no_row_of_it() {
        let orders = [order("A", &[("X", 1), ("?", 1)])];
        let plan = plan(&orders, &stock(&[("X", 1)]));
        assert_eq!(outcomes(&plan), ["unknown-sku"]);
        assert_eq!(
            plan.take.into_iter().map(|(sku, n)| (sku.to_string(), n)).collect::<Vec<_>>(),
            [("X".to_owned(), 0)]
        );
    }
}
