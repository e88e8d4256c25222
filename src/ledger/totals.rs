//! Sums over the whole database, for the demo and for people.

use sea_orm::{ConnectionTrait, QueryResult, Statement};

use super::fault::Fault;
use super::pool::Pool;
use crate::plan::Reason;

/// Decisions and units, counted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Orders that were reserved, whatever became of them since.
    pub reserved: u64,
    /// Orders that were rejected, by reason; a reason that never occurred is absent.
    pub rejected: Vec<(Reason, u64)>,
    /// Units that reservations hold or sold.
    pub units: u64,
    /// Units that can still be reserved.
    pub available: u64,
}

impl Totals {
    /// Orders decided.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.reserved + self.rejected.iter().map(|(_, count)| count).sum::<u64>()
    }
}

const DECISIONS: &str = "SELECT reason, COUNT(*) FROM reservation GROUP BY reason ORDER BY reason";
const UNITS: &str = "SELECT CAST(COALESCE(SUM(l.quantity), 0) AS {bigint}) FROM reservation_line l \
                     JOIN reservation r ON r.order_id = l.order_id WHERE r.status IN ('reserved', 'confirmed')";
const AVAILABLE: &str = "SELECT CAST(COALESCE(SUM(available), 0) AS {bigint}) FROM stock";

/// Counts.
pub(super) async fn totals(pool: &Pool) -> Result<Totals, Fault> {
    let mut totals =
        Totals { units: sum(pool, UNITS).await?, available: sum(pool, AVAILABLE).await?, ..Totals::default() };
    for row in query(pool, DECISIONS).await? {
        let count = count(&row, 1)?;
        match row.try_get_by_index::<Option<String>>(0)? {
            None => totals.reserved = count,
            Some(name) => {
                let reason =
                    Reason::from_name(&name).ok_or_else(|| Fault::Failed(format!("unknown reason {name:?}")))?;
                totals.rejected.push((reason, count));
            }
        }
    }
    Ok(totals)
}

async fn sum(pool: &Pool, sql: &str) -> Result<u64, Fault> {
    match query(pool, sql).await?.first() {
        Some(row) => count(row, 0),
        None => Err(Fault::Failed("a sum has no row".into())),
    }
}

async fn query(pool: &Pool, sql: &str) -> Result<Vec<QueryResult>, Fault> {
    let sql = pool.dialect().write(sql);
    let rows = pool.db().query_all_raw(Statement::from_string(pool.dialect().backend(), sql)).await;
    rows.map_err(|error| Fault::from(error).before_any_write())
}

fn count(row: &QueryResult, index: usize) -> Result<u64, Fault> {
    let count: i64 = row.try_get_by_index(index)?;
    u64::try_from(count).map_err(|_| Fault::Failed(format!("a sum is negative: {count}")))
}
