//! Reads: stock rows and decisions, one statement each, whatever their number.

use std::collections::BTreeMap;

use sea_orm::{EntityTrait, QueryResult};

use super::fault::Fault;
use super::pool::Pool;
use super::sql::KEYS;
use super::statement::{Bound, Cell};
use super::{Recorded, Snapshot};
use crate::fence::FenceToken;
use crate::order::{ContentHash, Id, OrderId, Sku};
use crate::plan::{Reason, StockRow};

/// Reads stock rows and decisions, side by side; what is not asked for costs nothing.
pub(super) async fn snapshot(pool: &Pool, skus: &[Sku], orders: &[OrderId]) -> Result<Snapshot, Fault> {
    // Both run to their end: a query that is dropped half way would leave its answer to the next user of its connection.
    let (stock, recorded) = tokio::join!(stock(pool, skus), decisions(pool, orders));
    Ok(Snapshot { stock: stock?.into_iter().collect(), recorded: recorded?.into_iter().collect() })
}

/// Reads stock rows.
pub(super) async fn stock(pool: &Pool, skus: &[Sku]) -> Result<Vec<(Sku, StockRow)>, Fault> {
    if skus.is_empty() {
        return Ok(Vec::new());
    }
    let rows = pool.query(&pool.texts().read_stock, keys(pool, skus)?).await?;
    rows.iter().map(stock_row).collect()
}

/// Reads the whole shelf.
pub(super) async fn all_stock(pool: &Pool) -> Result<BTreeMap<Sku, StockRow>, Fault> {
    let rows = entity::stock::Entity::find().all(pool.db()).await;
    let rows = rows.map_err(|error| Fault::from(error).before_any_write())?;
    let row = |row: entity::stock::Model| Ok((checked_id(&row.sku)?, stock_of(row.available, row.fence_token)?));
    rows.into_iter().map(row).collect()
}

async fn decisions(pool: &Pool, orders: &[OrderId]) -> Result<Vec<(OrderId, Recorded)>, Fault> {
    if orders.is_empty() {
        return Ok(Vec::new());
    }
    let rows = pool.query(&pool.texts().read_decisions, keys(pool, orders)?).await?;
    rows.iter().map(decision).collect()
}

/// Binds a set of ids.
pub(super) fn keys(pool: &Pool, ids: &[Id]) -> Result<Bound, Fault> {
    Bound::rows(pool.dialect(), &KEYS, ids.iter().map(|id| [Cell::Text(id.as_str())]))
}

/// Reads `sku, available, fence_token`.
pub(super) fn stock_row(row: &QueryResult) -> Result<(Sku, StockRow), Fault> {
    Ok((id(row, 0)?, stock_of(row.try_get_by_index(1)?, row.try_get_by_index(2)?)?))
}

fn stock_of(available: i64, fence: i64) -> Result<StockRow, Fault> {
    let fence = FenceToken::from_row(fence).map_err(|fault| Fault::Failed(fault.to_string()))?;
    Ok(StockRow { available, fence })
}

/// Reads an id. One that is none was not written by this program.
pub(super) fn id(row: &QueryResult, index: usize) -> Result<Id, Fault> {
    checked_id(&row.try_get_by_index::<String>(index)?)
}

fn checked_id(text: &str) -> Result<Id, Fault> {
    Id::new(text).map_err(|fault| Fault::Failed(format!("the database holds an id that cannot be one: {fault}")))
}

fn decision(row: &QueryResult) -> Result<(OrderId, Recorded), Fault> {
    let reason: Option<String> = row.try_get_by_index(1)?;
    let unknown = |reason: &str| Fault::Failed(format!("the database holds the reason {reason:?}, which is not known"));
    let rejected = reason.map(|name| Reason::from_name(&name).ok_or_else(|| unknown(&name))).transpose()?;
    let hash: Vec<u8> = row.try_get_by_index(3)?;
    let hash = hash.try_into().map_err(|_| Fault::Failed("a content hash does not have 32 bytes".into()))?;
    let recorded = Recorded {
        rejected,
        revision: row.try_get_by_index(2)?,
        content_hash: ContentHash(hash),
        event: row.try_get_by_index::<Vec<u8>>(4)?.into(),
    };
    Ok((id(row, 0)?, recorded))
}
