//! Changes of stock by others than the worker: always a delta with its adjustment row, in one transaction.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::commit::expect;
use super::fault::Fault;
use super::pool::{Pool, Transaction};
use super::read::{keys, stock, stock_row};
use super::sql::DELTAS;
use super::statement::{Bound, Cell};
use crate::order::Sku;

/// SKUs changed by one statement; an import of any size is one transaction of such parts.
pub(super) const PART: usize = 5_000;

/// What to do to the stock of one SKU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// Makes it this many available units, whatever is reserved: a delta from what the row holds at that moment.
    Set(i64),
    /// Adds units, or takes them away.
    Add(i64),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(target) => write!(f, "cannot be set to {target}"),
            Self::Add(delta) => write!(f, "cannot change by {delta:+}"),
        }
    }
}

/// One SKU's stock after a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changed {
    /// What.
    pub sku: Sku,
    /// Units that were available before; 0 for a new SKU.
    pub before: i64,
    /// Units added.
    pub delta: i64,
}

impl Changed {
    /// Units that are available now.
    #[must_use]
    pub fn available(&self) -> i64 {
        self.before + self.delta
    }
}

/// A change that cannot be made; none of the others was made either.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{sku:?}: {}", self.why())]
pub struct Impossible {
    /// What.
    pub sku: Sku,
    /// Units that are available; `None`: there is no such SKU.
    pub available: Option<i64>,
    /// What was asked for.
    pub change: Change,
}

impl Impossible {
    fn why(&self) -> String {
        match self.available {
            Some(units) => format!("{units} available, {}: stock must stay from 0 to {}", self.change, i64::MAX),
            None => "no such SKU".to_owned(),
        }
    }
}

/// All changes, each SKU once, in SKU order.
pub(super) type Changes = Arc<BTreeMap<Sku, Change>>;

/// Makes all changes or none.
pub(super) async fn change(
    pool: &Pool,
    changes: &BTreeMap<Sku, Change>,
    reason: &str,
) -> Result<Result<Vec<Changed>, Vec<Impossible>>, Fault> {
    let at = Utc::now();
    let transaction = pool.begin().await?;
    let all: Vec<_> = changes.iter().collect();
    let (mut done, mut impossible) = (Vec::with_capacity(all.len()), Vec::new());
    for part in all.chunks(PART) {
        let before = lock(pool, &transaction, part, at).await?;
        let mut changed = Vec::with_capacity(part.len());
        for (sku, change) in part.iter().copied() {
            let available = before.get(sku).copied().ok_or_else(|| Fault::Failed(format!("{sku}: its row is gone")))?;
            match delta(available, *change) {
                Some(delta) => changed.push(Changed { sku: sku.clone(), before: available, delta }),
                None => impossible.push(Impossible { sku: sku.clone(), available: Some(available), change: *change }),
            }
        }
        write(pool, &transaction, &changed, reason, at).await?;
        done.append(&mut changed);
    }
    if !impossible.is_empty() {
        transaction.rollback().await?;
        return tell_unknown(pool, impossible).await.map(Err);
    }
    transaction.commit().await?;
    Ok(Ok(done))
}

/// The rows that were made to be locked are gone again: a SKU without one does not exist.
async fn tell_unknown(pool: &Pool, mut impossible: Vec<Impossible>) -> Result<Vec<Impossible>, Fault> {
    let skus: Vec<Sku> = impossible.iter().map(|one| one.sku.clone()).collect();
    let known: HashMap<_, _> = stock(pool, &skus).await?.into_iter().collect();
    for one in impossible.iter_mut().filter(|one| !known.contains_key(&one.sku)) {
        one.available = None;
    }
    Ok(impossible)
}

/// `None`: the result is below zero, or no number.
fn delta(available: i64, change: Change) -> Option<i64> {
    let delta = match change {
        Change::Set(target) if target < 0 => return None,
        Change::Set(target) => target - available,
        Change::Add(delta) => delta,
    };
    available.checked_add(delta).filter(|after| *after >= 0).map(|_| delta)
}

/// Creates the rows that are absent, then locks all in SKU order and says what they hold.
async fn lock(
    pool: &Pool,
    transaction: &Transaction<'_>,
    part: &[(&Sku, &Change)],
    at: DateTime<Utc>,
) -> Result<HashMap<Sku, i64>, Fault> {
    let skus: Vec<Sku> = part.iter().map(|(sku, _)| (*sku).clone()).collect();
    let create = keys(pool, &skus)?.with("at", pool.dialect().time(at));
    // How many rows are new is of no interest, and MySQL counts an existing one as well.
    let _created: u64 = transaction.execute(&pool.texts().create_stock, create).await?;
    let rows = transaction.query(&pool.texts().lock_stock, keys(pool, &skus)?).await?;
    let available = |row| stock_row(row).map(|(sku, row)| (sku, row.available));
    rows.iter().map(available).collect()
}

async fn write(
    pool: &Pool,
    transaction: &Transaction<'_>,
    changed: &[Changed],
    reason: &str,
    at: DateTime<Utc>,
) -> Result<(), Fault> {
    if changed.is_empty() {
        return Ok(());
    }
    let rows = changed.iter().map(|changed| [Cell::Text(changed.sku.as_str()), Cell::Int(changed.delta)]);
    let bound = Bound::rows(pool.dialect(), &DELTAS, rows)?.with("reason", reason).with("at", pool.dialect().time(at));
    expect(transaction.execute(&pool.texts().change_stock, bound.clone()).await?, changed.len(), "stock rows")?;
    expect(transaction.execute(&pool.texts().insert_adjustments, bound).await?, changed.len(), "adjustments")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_never_goes_below_zero_nor_beyond_what_a_number_holds() {
        assert_eq!(delta(5, Change::Set(2)), Some(-3));
        assert_eq!(delta(5, Change::Add(-5)), Some(-5));
        assert_eq!(delta(5, Change::Add(-6)), None);
        assert_eq!(delta(5, Change::Set(-1)), None);
        assert_eq!(delta(i64::MAX, Change::Add(1)), None);
    }
}
