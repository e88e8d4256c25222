//! A year of a real shop: 20,725 orders, most of several lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::verdicts::{expect_recorded, verdicts_of};
use crate::support::{Backend, Message, SOON, Sandbox, data_file};

const MINUTES: Duration = Duration::from_secs(15 * 60);
const ORDERS: &str = "online-retail-orders.ndjson.gz";
const STOCK: &str = "online-retail-stock.csv";

/// The shop's year as the files tell it.
struct Year {
    /// Message bodies in time order.
    bodies: Vec<String>,
    /// Units per SKU that each order wants.
    wanted: Vec<(String, BTreeMap<String, i64>)>,
    /// Units on the shelf at the beginning.
    stock: BTreeMap<String, i64>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_worker_decides_a_years_orders_as_a_sequential_program_would() {
    let Some((sandbox, year)) = shop().await else { return };
    let verdicts = verdicts_of(&decide_all(&sandbox, &year, 1).await);
    let oracle = year.sequential();
    assert!(verdicts.reserved == oracle, "{} reserved, not the same {}", verdicts.reserved.len(), oracle.len());
    assert_eq!((verdicts.reserved.len(), verdicts.rejected.len()), (13_298, 7_427));
    let sql = sandbox.sql().await;
    assert_eq!(sql.number("sum(quantity)", "reservation_line").await, 2_722_653);
    expect_recorded(&sql, &verdicts).await;
    year.expect_consistent(&sandbox, &verdicts.reserved).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_workers_decide_a_years_orders_once_each_without_oversell() {
    let Some((sandbox, year)) = shop().await else { return };
    let verdicts = verdicts_of(&decide_all(&sandbox, &year, 3).await);
    assert_eq!(verdicts.reserved.len() + verdicts.rejected.len(), year.bodies.len());
    assert!(verdicts.reserved.is_disjoint(&verdicts.rejected));
    expect_recorded(&sandbox.sql().await, &verdicts).await;
    year.expect_consistent(&sandbox, &verdicts.reserved).await;
}

async fn shop() -> Option<(Sandbox, Year)> {
    let (orders, stock) = (data_file(ORDERS)?, data_file(STOCK)?);
    let year = Year::read(&orders, &stock);
    let sandbox = Sandbox::ready(Backend::Postgres).await;
    sandbox.run(&["stock", "import", &stock.to_string_lossy()]).await.expect_code(0);
    assert_eq!(sandbox.sql().await.available().await, year.stock, "imported");
    Some((sandbox, year))
}

async fn decide_all(sandbox: &Sandbox, year: &Year, workers: u32) -> Vec<Message> {
    let listener = sandbox.rabbit.listen().await;
    let workers = sandbox.workers(workers).await;
    sandbox.rabbit.send(&year.bodies).await;
    listener.wait_for(year.bodies.len(), MINUTES).await;
    sandbox.finish(workers).await;
    assert_eq!(sandbox.rabbit.count("dead.invalid").await, 0);
    assert_eq!(sandbox.rabbit.count("dead.failed").await, 0);
    let lost = sandbox.rabbit.drain("dead.lost-race").await;
    assert_eq!(lost.iter().find(|letter| letter.routing_key != "lost-race.sold-out").map(Message::json), None);
    listener.events()
}

impl Year {
    fn read(orders: &Path, stock: &Path) -> Self {
        let file = GzDecoder::new(File::open(orders).expect("the orders"));
        let bodies: Vec<String> = BufReader::new(file).lines().collect::<Result<_, _>>().expect("lines");
        let wanted = bodies.iter().map(|body| wanted(body)).collect();
        let mut csv = csv::Reader::from_path(stock).expect("the stock");
        let stock = csv.deserialize().collect::<Result<_, _>>().expect("rows of sku and available");
        Self { bodies, wanted, stock }
    }

    /// The ids of the orders that get their units when they are decided one after the other.
    fn sequential(&self) -> BTreeSet<String> {
        let mut left = self.stock.clone();
        let mut reserved = BTreeSet::new();
        for (order, lines) in &self.wanted {
            if lines.iter().all(|(sku, units)| left[sku] >= *units) {
                lines.iter().for_each(|(sku, units)| *left.get_mut(sku).expect("a known sku") -= units);
                reserved.insert(order.clone());
            }
        }
        reserved
    }

    /// All lines or none, and not a unit more than there was.
    async fn expect_consistent(&self, sandbox: &Sandbox, reserved: &BTreeSet<String>) {
        let sql = sandbox.sql().await;
        let mut lines = BTreeMap::new();
        let mut left = self.stock.clone();
        for (order, wanted) in self.wanted.iter().filter(|(order, _)| reserved.contains(order)) {
            for (sku, units) in wanted {
                lines.insert((order.clone(), sku.clone()), *units);
                *left.get_mut(sku).expect("a known sku") -= units;
            }
        }
        assert!(sql.lines().await == lines, "reserved orders have all their lines, others none");
        assert!(left.values().all(|units| *units >= 0), "no oversell");
        assert_eq!(sql.available().await, left);
        tokio::time::timeout(SOON, sandbox.audit()).await.expect("an audit in time");
    }
}

fn wanted(body: &str) -> (String, BTreeMap<String, i64>) {
    let order: Value = serde_json::from_str(body).expect("an order");
    let mut lines = BTreeMap::new();
    for line in order["lines"].as_array().expect("lines") {
        let sku = line["sku"].as_str().expect("a sku").to_owned();
        *lines.entry(sku).or_default() += line["quantity"].as_i64().expect("a quantity");
    }
    (order["order_id"].as_str().expect("an id").to_owned(), lines)
}
