//! The commit: one transaction, three statements, guarded by the primary key on the order id, the quantity predicate and
//! the fence predicate.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::fault::Fault;
use super::pool::{Pool, Transaction};
use super::sql::{DECISIONS, LINES, TAKES};
use super::statement::{Bound, Cell};
use super::{Batch, Commit, NewDecision, Refusal, read};
use crate::fence::FenceToken;
use crate::order::Sku;

/// Events bound to one statement, bytes: far below every server's limit of a message (MySQL: 16 MiB by default on old ones).
const MAX_STATEMENT_BYTES: usize = 4 << 20;

/// Commits a batch: all of it or nothing.
pub(super) async fn commit(pool: &Pool, batch: &Batch) -> Result<Commit, Fault> {
    check(batch)?;
    let transaction = pool.begin().await?;
    if !insert_decisions(pool, &transaction, batch).await? {
        transaction.rollback().await?;
        return Ok(Commit::AlreadyDecided);
    }
    if !take_stock(pool, &transaction, batch).await? {
        transaction.rollback().await?;
        return Ok(Commit::Refused(classify(pool, batch).await?));
    }
    insert_lines(pool, &transaction, batch).await?;
    transaction.commit().await?;
    Ok(Commit::Committed)
}

/// Refuses a batch whose parts contradict each other: what its lines take must be what its stock gives, under the same
/// tokens. Whatever plans wrongly, no such thing becomes durable.
fn check(batch: &Batch) -> Result<(), Fault> {
    let mut orders = HashSet::with_capacity(batch.decisions.len());
    let mut taken: BTreeMap<&Sku, i64> = BTreeMap::new();
    for decision in &batch.decisions {
        let order = &decision.order_id;
        if !orders.insert(order) {
            return Err(Fault::Failed(format!("order {order:?} stands twice in one batch")));
        }
        if decision.rejected.is_some() != decision.lines.is_empty() {
            return Err(Fault::Failed(format!("order {order:?} is rejected with lines, or reserved without any")));
        }
        for line in &decision.lines {
            if line.quantity < 1 || batch.stock.get(&line.sku).is_none_or(|(_, token)| *token != line.token) {
                return Err(Fault::Failed(format!("order {order:?} takes {:?} without its token", line.sku)));
            }
            let units = taken.entry(&line.sku).or_default();
            *units = units.checked_add(line.quantity).ok_or_else(|| Fault::Failed("too many units".into()))?;
        }
    }
    for (sku, (units, _)) in &batch.stock {
        if *units != taken.get(sku).copied().unwrap_or_default() {
            return Err(Fault::Failed(format!("the lines of {sku:?} do not sum up to the {units} units to take")));
        }
    }
    Ok(())
}

/// False: somebody has decided one of these orders. An insert waits for an unfinished commit of the same order and then
/// tells the truth, as no plain read does.
async fn insert_decisions(pool: &Pool, transaction: &Transaction<'_>, batch: &Batch) -> Result<bool, Fault> {
    let dialect = pool.dialect();
    for part in by_bytes(&batch.decisions) {
        let expires: Vec<_> =
            part.iter().map(|d| d.expires_at.map(|at| dialect.time_text(at)).unwrap_or_default()).collect();
        let rows = part.iter().zip(&expires).map(|(decision, expires)| {
            [
                Cell::Text(decision.order_id.as_str()),
                Cell::Text(decision.rejected.map_or("", |reason| reason.as_str())),
                Cell::Bytes(&decision.content_hash.0),
                Cell::Bytes(&decision.event),
                Cell::Text(expires),
            ]
        });
        let bound = Bound::rows(dialect, &DECISIONS, rows)?
            .with("commit_id", batch.commit_id.to_string())
            .with("at", dialect.time(batch.decided_at));
        match transaction.execute(&pool.texts().insert_decisions, bound).await {
            Ok(rows) => expect(rows, part.len(), "decisions")?,
            Err(Fault::Duplicate(_)) => return Ok(false),
            Err(fault) => return Err(fault),
        }
    }
    Ok(true)
}

/// Parts whose events fit one statement; nearly always one.
fn by_bytes(decisions: &[NewDecision]) -> impl Iterator<Item = &[NewDecision]> {
    let mut bytes = 0;
    decisions.chunk_by(move |this, next| {
        bytes += this.event.len();
        let fits = bytes + next.event.len() <= MAX_STATEMENT_BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    })
}

/// False: a SKU did not pass a predicate. In SKU order, so that two commits never wait for each other in a ring.
async fn take_stock(pool: &Pool, transaction: &Transaction<'_>, batch: &Batch) -> Result<bool, Fault> {
    if batch.stock.is_empty() {
        return Ok(true);
    }
    let rows = batch
        .stock
        .iter()
        .map(|(sku, (take, token))| [Cell::Text(sku.as_str()), Cell::Int(*take), Cell::Int(token.to_row())]);
    let bound = Bound::rows(pool.dialect(), &TAKES, rows)?.with("at", pool.dialect().time(batch.decided_at));
    let passed = transaction.execute(&pool.texts().take_stock, bound).await?;
    Ok(passed == batch.stock.len() as u64)
}

async fn insert_lines(pool: &Pool, transaction: &Transaction<'_>, batch: &Batch) -> Result<(), Fault> {
    let rows: Vec<_> = batch
        .decisions
        .iter()
        .flat_map(|decision| decision.lines.iter().map(move |line| (&decision.order_id, line)))
        .map(|(order, line)| {
            let (order, sku) = (Cell::Text(order.as_str()), Cell::Text(line.sku.as_str()));
            [order, sku, Cell::Int(line.quantity), Cell::Int(line.token.to_row())]
        })
        .collect();
    let count = rows.len();
    if count == 0 {
        return Ok(());
    }
    let bound = Bound::rows(pool.dialect(), &LINES, rows.into_iter())?;
    expect(transaction.execute(&pool.texts().insert_lines, bound).await?, count, "lines")
}

/// A set-based insert that did not insert the whole set is a fault of this program or of its reading of the database.
pub(super) fn expect(rows: u64, count: usize, what: &str) -> Result<(), Fault> {
    if rows == count as u64 { Ok(()) } else { Err(Fault::Failed(format!("{rows} of {count} {what} were written"))) }
}

/// Reads the rows as they are after the rollback, and says which SKU does not pass which predicate.
async fn classify(pool: &Pool, batch: &Batch) -> Result<HashMap<Sku, Refusal>, Fault> {
    let skus: Vec<Sku> = batch.stock.keys().cloned().collect();
    let rows: HashMap<_, _> = read::stock(pool, &skus).await?.into_iter().collect();
    let refusal = |(sku, (take, token)): (&Sku, &(i64, FenceToken))| {
        let refusal = match rows.get(sku) {
            None => Refusal::Gone,
            Some(row) if !token.passes(row.fence) => Refusal::Stale { row: row.fence },
            Some(row) if row.available < *take => Refusal::Short { available: row.available },
            Some(_passes_now) => return None,
        };
        Some((sku.clone(), refusal))
    };
    Ok(batch.stock.iter().filter_map(refusal).collect())
}
