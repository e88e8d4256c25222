//! The database's half of a recovery: each SKU's fence moves to its next epoch, by compare-and-set.

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::Utc;

use super::Advance;
use super::fault::Fault;
use super::pool::Pool;
use super::read::{id, keys, stock, stock_row};
use super::sql::FENCES;
use super::statement::{Bound, Cell};
use crate::fence::{Epoch, FenceToken};
use crate::order::Sku;

/// A fence as it was read, and the epoch that it shall move to.
struct Step {
    sku: Sku,
    expected: FenceToken,
    next: Epoch,
}

/// Moves the fences; a fixed number of statements whatever the number of SKUs.
pub(super) async fn advance(pool: &Pool, skus: &[Sku]) -> Result<HashMap<Sku, Advance>, Fault> {
    // Sorted, so that rows are locked in SKU order; each once.
    let skus: Vec<Sku> = skus.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect();
    let read: HashMap<_, _> = stock(pool, &skus).await?.into_iter().collect();
    let mut answers = HashMap::with_capacity(skus.len());
    let mut steps = Vec::with_capacity(skus.len());
    for sku in skus {
        let Some(row) = read.get(&sku) else {
            answers.insert(sku, Advance::NoRow);
            continue;
        };
        match row.fence.epoch().next() {
            Ok(next) => steps.push(Step { sku, expected: row.fence, next }),
            Err(_used_up) => {
                answers.insert(sku, Advance::Exhausted);
            }
        }
    }
    if !steps.is_empty() {
        let won = if pool.dialect().is_mysql() { lock_and_set(pool, &steps).await? } else { set(pool, &steps).await? };
        answers.extend(steps.into_iter().map(|step| {
            let answer = if won.contains(&step.sku) { Advance::Won(step.next) } else { Advance::Lost };
            (step.sku, answer)
        }));
    }
    Ok(answers)
}

/// One statement, which says whose rows it moved.
async fn set(pool: &Pool, steps: &[Step]) -> Result<HashSet<Sku>, Fault> {
    let transaction = pool.begin().await?;
    let moved = transaction.query(&pool.texts().advance_fences, fences(pool, steps)?).await?;
    let won = moved.iter().map(|row| id(row, 0)).collect::<Result<_, _>>()?;
    transaction.commit().await?;
    Ok(won)
}

/// MySQL's update does not say which rows it moved: they are locked and compared first.
async fn lock_and_set(pool: &Pool, steps: &[Step]) -> Result<HashSet<Sku>, Fault> {
    let transaction = pool.begin().await?;
    let skus: Vec<Sku> = steps.iter().map(|step| step.sku.clone()).collect();
    let locked = transaction.query(&pool.texts().lock_stock, keys(pool, &skus)?).await?;
    let locked = locked.iter().map(stock_row).collect::<Result<HashMap<_, _>, _>>()?;
    let unmoved = |step: &&Step| locked.get(&step.sku).is_some_and(|row| row.fence == step.expected);
    let won: HashSet<Sku> = steps.iter().filter(unmoved).map(|step| step.sku.clone()).collect();
    let moved = transaction.execute(&pool.texts().advance_fences, fences(pool, steps)?).await?;
    super::commit::expect(moved, won.len(), "fences")?;
    transaction.commit().await?;
    Ok(won)
}

fn fences(pool: &Pool, steps: &[Step]) -> Result<Bound, Fault> {
    let rows = steps.iter().map(|step| {
        let (expected, next) = (step.expected.to_row(), step.next.floor().to_row());
        [Cell::Text(step.sku.as_str()), Cell::Int(expected), Cell::Int(next)]
    });
    Ok(Bound::rows(pool.dialect(), &FENCES, rows)?.with("at", pool.dialect().time(Utc::now())))
}
