//! Counts over the whole database. None of units: their sum over all SKUs is more than a number may hold.

use sea_orm::{ConnectionTrait, QueryResult, Statement};

use super::fault::Fault;
use super::pool::Pool;
use crate::plan::Reason;

/// Decisions and SKUs, counted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Orders that were reserved, whatever became of them since.
    pub reserved: u64,
    /// Orders that were rejected, by reason; a reason that never occurred is absent.
    pub rejected: Vec<(Reason, u64)>,
    /// SKUs of which units can still be reserved.
    pub in_stock: u64,
}

impl Totals {
    /// Orders decided.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.reserved + self.rejected.iter().map(|(_, count)| count).sum::<u64>()
    }
}

const DECISIONS: &str = "SELECT reason, COUNT(*) FROM reservation GROUP BY reason ORDER BY reason";
const IN_STOCK: &str = "SELECT COUNT(*) FROM stock WHERE available > 0";

/// Counts.
pub(super) async fn totals(pool: &Pool) -> Result<Totals, Fault> {
    let in_stock = match query(pool, IN_STOCK).await?.first() {
        Some(row) => count(row, 0)?,
        None => return Err(Fault::Failed("a count has no row".into())),
    };
    let mut totals = Totals { in_stock, ..Totals::default() };
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

async fn query(pool: &Pool, sql: &str) -> Result<Vec<QueryResult>, Fault> {
    let rows = pool.db().query_all_raw(Statement::from_string(pool.dialect().backend(), sql)).await;
    rows.map_err(|error| Fault::from(error).before_any_write())
}

fn count(row: &QueryResult, index: usize) -> Result<u64, Fault> {
    let count: i64 = row.try_get_by_index(index)?;
    u64::try_from(count).map_err(|_| Fault::Failed(format!("a count is negative: {count}")))
}
