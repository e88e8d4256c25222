//! The audit: promise 1 and the fence history, over the whole database, from one snapshot.

use sea_orm::{ConnectionTrait, DatabaseTransaction, IsolationLevel, Statement, TransactionOptions, TransactionTrait};
use serde::Serialize;

use super::dialect::Dialect;
use super::fault::Fault;
use super::pool::Pool;
use crate::fence::Epoch;

/// What an audit found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Audit {
    /// SKUs in stock.
    pub skus: u64,
    /// Orders decided.
    pub orders: u64,
    /// Lines of reserved orders.
    pub lines: u64,
    /// What is wrong; empty when all promises hold.
    pub failures: Vec<Finding>,
    /// What will become wrong one day.
    pub warnings: Vec<Finding>,
}

impl Audit {
    /// Whether every promise that the database can show holds.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty()
    }
}

/// One SKU or order that fails a check.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// Which check.
    pub check: Check,
    /// The SKU or the order id, as it stands in the table.
    pub subject: String,
    /// The numbers, for people.
    pub detail: String,
}

/// What is checked.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// `available` is not negative, and is the sum of adjustments less the units held or sold.
    Balance,
    /// Every line and adjustment has a stock row.
    NoStockRow,
    /// No line carries a token above its stock row's fence.
    FenceBehind,
    /// No token was used for one SKU by two commits.
    TokenReused,
    /// A reserved order has lines, a rejected one has none, and every line has its order.
    Lines,
    /// The epoch is past half of what a token can hold: a warning.
    EpochsUsed,
}

impl Check {
    /// The check's name in tables and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Balance => "balance",
            Self::NoStockRow => "no-stock-row",
            Self::FenceBehind => "fence-behind",
            Self::TokenReused => "token-reused",
            Self::Lines => "lines",
            Self::EpochsUsed => "epochs-used",
        }
    }
}

/// Each selects the subject and a text. Grouped once per table, never once per SKU.
const CHECKS: [(Check, &str); 8] = [
    (
        Check::Balance,
        "SELECT s.sku, CONCAT('available ', s.available, ', adjustments ', COALESCE(a.units, 0), ', held or sold ', \
         COALESCE(l.units, 0)) FROM stock s \
         LEFT JOIN (SELECT sku, CAST(SUM(delta) AS {bigint}) AS units FROM stock_adjustment GROUP BY sku) a \
         ON a.sku = s.sku \
         LEFT JOIN (SELECT l.sku, CAST(SUM(l.quantity) AS {bigint}) AS units FROM reservation_line l \
         JOIN reservation r ON r.order_id = l.order_id WHERE r.status IN ('reserved', 'confirmed') GROUP BY l.sku) l \
         ON l.sku = s.sku \
         WHERE s.available < 0 OR s.available <> COALESCE(a.units, 0) - COALESCE(l.units, 0) ORDER BY s.sku",
    ),
    (
        Check::NoStockRow,
        "SELECT l.sku, 'a reservation took it' FROM reservation_line l LEFT JOIN stock s ON s.sku = l.sku \
         WHERE s.sku IS NULL GROUP BY l.sku ORDER BY l.sku",
    ),
    (
        Check::NoStockRow,
        "SELECT a.sku, 'its stock was adjusted' FROM stock_adjustment a LEFT JOIN stock s ON s.sku = a.sku \
         WHERE s.sku IS NULL GROUP BY a.sku ORDER BY a.sku",
    ),
    (
        Check::FenceBehind,
        "SELECT s.sku, CONCAT('fence ', s.fence_token, ', a line carries ', l.token) FROM stock s \
         JOIN (SELECT sku, MAX(fence_token) AS token FROM reservation_line GROUP BY sku) l ON l.sku = s.sku \
         WHERE l.token > s.fence_token ORDER BY s.sku",
    ),
    (
        Check::TokenReused,
        "SELECT l.sku, CONCAT('token ', l.fence_token, ' of commits ', MIN(r.commit_id), ' and ', MAX(r.commit_id)) \
         FROM reservation_line l JOIN reservation r ON r.order_id = l.order_id GROUP BY l.sku, l.fence_token \
         HAVING MIN(r.commit_id) <> MAX(r.commit_id) ORDER BY l.sku, l.fence_token",
    ),
    (
        Check::Lines,
        "SELECT r.order_id, 'reserved without lines' FROM reservation r WHERE r.outcome = 'reserved' \
         AND NOT EXISTS (SELECT 1 FROM reservation_line l WHERE l.order_id = r.order_id) ORDER BY r.order_id",
    ),
    (
        Check::Lines,
        "SELECT l.order_id, 'rejected with lines' FROM reservation_line l JOIN reservation r ON r.order_id = l.order_id \
         WHERE r.outcome = 'rejected' GROUP BY l.order_id ORDER BY l.order_id",
    ),
    (
        Check::Lines,
        "SELECT l.order_id, 'lines without a decision' FROM reservation_line l \
         LEFT JOIN reservation r ON r.order_id = l.order_id WHERE r.order_id IS NULL GROUP BY l.order_id \
         ORDER BY l.order_id",
    ),
];

const COUNTS: &str = "SELECT (SELECT COUNT(*) FROM stock), (SELECT COUNT(*) FROM reservation), \
                      (SELECT COUNT(*) FROM reservation_line)";

/// Looks at everything, from one snapshot: a worker may go on meanwhile.
pub(super) async fn audit(pool: &Pool) -> Result<Audit, Fault> {
    let dialect = pool.dialect();
    let snapshot = TransactionOptions {
        isolation_level: (dialect != Dialect::Sqlite).then_some(IsolationLevel::RepeatableRead),
        ..TransactionOptions::default()
    };
    let snapshot = pool.db().begin_with_options(snapshot).await?;
    let mut audit = count(dialect, &snapshot).await?;
    for (check, sql) in CHECKS {
        audit.failures.extend(findings(dialect, &snapshot, check, &dialect.write(sql)).await?);
    }
    let half = Epoch::MAX.floor().to_row() / 2;
    let sql = format!("SELECT sku, CONCAT('fence ', fence_token) FROM stock WHERE fence_token > {half} ORDER BY sku");
    audit.warnings = findings(dialect, &snapshot, Check::EpochsUsed, &sql).await?;
    snapshot.rollback().await?;
    Ok(audit)
}

async fn count(dialect: Dialect, snapshot: &DatabaseTransaction) -> Result<Audit, Fault> {
    let row = snapshot.query_one_raw(Statement::from_string(dialect.backend(), COUNTS)).await?;
    let row = row.ok_or_else(|| Fault::Failed("the counts have no row".into()))?;
    let count = |index| {
        let count: i64 = row.try_get_by_index(index)?;
        Ok::<_, Fault>(count.unsigned_abs())
    };
    Ok(Audit { skus: count(0)?, orders: count(1)?, lines: count(2)?, ..Audit::default() })
}

async fn findings(
    dialect: Dialect,
    snapshot: &DatabaseTransaction,
    check: Check,
    sql: &str,
) -> Result<Vec<Finding>, Fault> {
    let rows = snapshot.query_all_raw(Statement::from_string(dialect.backend(), sql)).await?;
    let finding = |row: &sea_orm::QueryResult| {
        Ok(Finding { check, subject: row.try_get_by_index(0)?, detail: row.try_get_by_index(1)? })
    };
    rows.iter().map(finding).collect()
}
