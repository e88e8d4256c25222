//! PURE. What is ordered: the same sequence of orders for every contender, from a seed.

use std::collections::BTreeSet;

/// SKUs of the workloads with many.
pub const SKUS: u32 = 10_000;
/// Units on the shelf where there is plenty: more than any run can take.
pub const PLENTY: i64 = 1_000_000_000;
/// What surrounds the text that makes a message longer.
const NOTE: &str = r#","note":"""#;
/// The most lines of an order with several.
const MOST_LINES: u64 = 30;
/// So that all contenders, and all runs of them, are given the same orders.
const SEED: u64 = 0x6c61_7374_756e_6974;

/// A kind of load.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Workload {
    /// One SKU, with plenty of stock.
    Hot,
    /// One SKU, sold out after 1 % of the orders.
    SoldOut,
    /// 10,000 SKUs, each as likely as the others.
    Uniform,
    /// 10,000 SKUs, the n-th one in n as likely as the first.
    Zipf,
    /// Orders of 1 to 30 lines over 10,000 SKUs.
    Lines,
}

impl Workload {
    /// All of them, in the sequence in which they are run.
    pub const ALL: [Self; 5] = [Self::Hot, Self::SoldOut, Self::Uniform, Self::Zipf, Self::Lines];

    /// As it stands in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot SKU in stock",
            Self::SoldOut => "hot SKU sold out",
            Self::Uniform => "uniform, 10,000 SKUs",
            Self::Zipf => "Zipf, 10,000 SKUs",
            Self::Lines => "1 to 30 lines, uniform",
        }
    }

    /// How many of `base` orders it takes to see a rate: those of many lines are more work each.
    #[must_use]
    pub const fn scaled(self, base: u32) -> u32 {
        match self {
            Self::Hot | Self::SoldOut | Self::Uniform | Self::Zipf => base,
            Self::Lines => base.div_ceil(5),
        }
    }

    /// Units on the shelf for so many orders.
    #[must_use]
    pub fn units(self, orders: u32) -> i64 {
        match self {
            Self::SoldOut => i64::from(orders.div_ceil(100)),
            Self::Hot | Self::Uniform | Self::Zipf | Self::Lines => PLENTY,
        }
    }

    /// The SKUs that it may order, under a shelf's name.
    pub fn skus(self, shelf: &str) -> impl Iterator<Item = String> {
        let count = match self {
            Self::Hot | Self::SoldOut => 1,
            Self::Uniform | Self::Zipf | Self::Lines => SKUS,
        };
        (0..count).map(move |number| sku(shelf, number))
    }
}

/// Writes orders, for ever.
#[derive(Clone, Debug)]
pub struct Orders {
    workload: Workload,
    shelf: String,
    /// First part of each order id.
    run: String,
    next: u32,
    /// Smallest size of a message, bytes.
    bytes: usize,
    /// Whether ids are in no sequence.
    scattered: bool,
    dice: Dice,
    /// Zipf: the share of all orders that goes to the SKUs up to each.
    shares: Vec<f64>,
}

impl Orders {
    /// Orders for a shelf, with ids that begin with `run` and a hyphen, and end with their number from 0.
    #[must_use]
    pub fn new(workload: Workload, shelf: &str, run: &str) -> Self {
        let shares = if workload == Workload::Zipf { zipf_shares() } else { Vec::new() };
        Self {
            workload,
            shelf: shelf.to_owned(),
            run: run.to_owned(),
            next: 0,
            bytes: 0,
            scattered: false,
            dice: Dice(SEED),
            shares,
        }
    }

    /// With ids that begin with something random and a hyphen, before `run`, as a UUID would.
    #[must_use]
    pub fn scattered(self, scattered: bool) -> Self {
        Self { scattered, ..self }
    }

    /// Messages of so many bytes at least: a shop's orders hold more than a worker has to know.
    #[must_use]
    pub fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    fn pick(&mut self) -> u32 {
        match self.workload {
            Workload::Hot | Workload::SoldOut => 0,
            Workload::Uniform | Workload::Lines => self.dice.below(u64::from(SKUS)) as u32,
            Workload::Zipf => {
                let at = self.dice.fraction();
                self.shares.partition_point(|share| *share < at).min(SKUS as usize - 1) as u32
            }
        }
    }

    fn body(&mut self, id: &str) -> serde_json::Value {
        if self.workload != Workload::Lines {
            let number = self.pick();
            return serde_json::json!({"order_id": id, "sku": sku(&self.shelf, number), "quantity": 1});
        }
        let count = 1 + self.dice.below(MOST_LINES) as usize;
        let mut numbers = BTreeSet::new();
        while numbers.len() < count {
            numbers.insert(self.pick());
        }
        let line = |number| serde_json::json!({"sku": sku(&self.shelf, number), "quantity": 1});
        serde_json::json!({"order_id": id, "lines": numbers.into_iter().map(line).collect::<Vec<_>>()})
    }
}

impl Iterator for Orders {
    /// The order's id, and the message.
    type Item = (String, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut id = format!("{}-{:08}", self.run, self.next);
        if self.scattered {
            let seed = id.bytes().fold(SEED, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
            id.insert_str(0, &format!("{:016x}-", Dice(seed).next()));
        }
        self.next += 1;
        let mut body = self.body(&id);
        let mut text = body.to_string();
        if text.len() < self.bytes {
            body["note"] = ".".repeat(self.bytes.saturating_sub(text.len() + NOTE.len())).into();
            text = body.to_string();
        }
        Some((id, text.into_bytes()))
    }
}

/// The number at the end of an order id.
#[must_use]
pub fn number_of(order_id: &str) -> Option<usize> {
    order_id.rsplit('-').next()?.parse().ok()
}

fn sku(shelf: &str, number: u32) -> String {
    format!("{shelf}-{number:05}")
}

fn zipf_shares() -> Vec<f64> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=SKUS)
        .map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        })
        .collect();
    sums.into_iter().map(|part| part / sum).collect()
}

/// Numbers that look random and are always the same: the finaliser of SplitMix64 over a Weyl sequence.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0 to below 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::order::{Limits, Order, parse};

    fn orders(workload: Workload, count: usize) -> Vec<Order> {
        let limits = Limits { max_bytes: 1 << 20, max_lines: 2000, max_quantity: 1 };
        let bodies = Orders::new(workload, "shelf", "run").take(count);
        bodies.map(|(_, body)| parse(&body, &limits).expect("an order")).collect()
    }

    fn counts(workload: Workload, count: usize) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for order in orders(workload, count) {
            for line in &order.lines {
                *counts.entry(line.sku.as_str().to_owned()).or_default() += 1;
            }
        }
        counts
    }

    #[test]
    fn every_order_can_be_read_and_names_a_sku_of_its_shelf() {
        for workload in Workload::ALL {
            let shelf: BTreeSet<String> = workload.skus("shelf").collect();
            assert!(counts(workload, 1000).keys().all(|sku| shelf.contains(sku)), "{workload:?}");
        }
    }

    #[test]
    fn every_contender_is_given_the_same_orders() {
        let bodies = || Orders::new(Workload::Zipf, "shelf", "run").take(100).collect::<Vec<_>>();
        assert_eq!(bodies(), bodies());
    }

    #[test]
    fn zipf_orders_the_first_sku_about_twice_as_often_as_the_second() {
        let counts = counts(Workload::Zipf, 50_000);
        let ratio = counts["shelf-00000"] as f64 / counts["shelf-00001"] as f64;
        assert!((1.8..2.2).contains(&ratio), "{ratio}");
    }

    #[test]
    fn orders_have_1_to_30_lines() {
        let lengths: BTreeSet<usize> = orders(Workload::Lines, 2000).iter().map(|order| order.lines.len()).collect();
        assert_eq!(lengths, (1..=30).collect());
    }

    #[test]
    fn a_message_is_as_long_as_it_is_wanted() {
        let size =
            |bytes| Orders::new(Workload::Hot, "shelf", "run").with_bytes(bytes).next().map(|(_, body)| body.len());
        assert_eq!(size(1024), Some(1024));
        assert_eq!(size(10), size(0));
        assert!(size(size(0).unwrap_or_default() + 5) >= size(0).map(|natural| natural + 5));
    }

    #[test]
    fn scattered_ids_are_in_no_sequence_and_all_different() {
        let ids: Vec<_> =
            Orders::new(Workload::Hot, "shelf", "run").scattered(true).take(1000).map(|(id, _)| id).collect();
        assert!(ids.iter().enumerate().all(|(number, id)| number_of(id) == Some(number)));
        assert!(!ids.is_sorted());
        assert_eq!(ids.iter().map(|id| &id[..16]).collect::<BTreeSet<_>>().len(), ids.len());
    }

    #[test]
    fn an_order_id_tells_the_orders_number() {
        assert_eq!(number_of("r-1-00000042"), Some(42));
        assert_eq!(number_of("other"), None);
    }
}
