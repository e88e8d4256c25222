//! Size: a fixed number of statements, found by key, at the largest batch that settings allow.

use std::time::{Duration, Instant};

use lastunit::ledger::{Advance, Change, Commit};
use sea_orm::{ConnectionTrait, Statement};

use crate::support::{Db, Server, batch, id, on_all_servers, reserved, token};

on_all_servers![the_largest_batch_is_committed_and_recovered, keys_are_looked_up_in_large_tables];

const MOST: usize = 10_000;
/// Far above what it takes, far below what it would take with a round trip or a scan per SKU.
const BOUND: Duration = Duration::from_secs(15);

async fn the_largest_batch_is_committed_and_recovered(db: Db) {
    let names: Vec<String> = (0..MOST).map(|number| format!("SKU-{number:05}")).collect();
    let changes = names.iter().map(|sku| (id(sku), Change::Set(3))).collect();
    db.ledger.change_stock(changes, "test").await.expect("change").expect("possible");
    let skus: Vec<_> = names.iter().map(|name| id(name)).collect();

    let began = Instant::now();
    let advanced = db.ledger.advance_epochs(&skus).await.expect("advance");
    assert!(advanced.values().all(|advance| matches!(advance, Advance::Won(_))) && advanced.len() == MOST);
    let orders = names.iter().map(|sku| reserved(sku, &[(sku, 2, token(1, 1))])).collect();
    assert_eq!(db.ledger.commit(batch(orders, &[])).await.expect("commit"), Commit::Committed);
    let snapshot = db.ledger.read(&skus, &skus).await.expect("read");
    assert_eq!((snapshot.stock.len(), snapshot.recorded.len()), (MOST, MOST));
    println!("{:?}: {MOST} SKUs recovered, committed and read in {:?}", db.server, began.elapsed());
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());

    let lines: Vec<_> = names.iter().map(|sku| (sku.as_str(), 1, token(1, 2))).collect();
    let large = batch(vec![reserved("large", &lines)], &[]);
    assert_eq!(db.ledger.commit(large).await.expect("commit"), Commit::Committed);
    assert!(db.ledger.stock(None).await.expect("stock").values().all(|row| row.available == 0));
    let totals = db.ledger.totals().await.expect("totals");
    assert_eq!((totals.reserved, totals.units, totals.available), (MOST as u64 + 1, MOST as u64 * 3, 0));
    db.assert_audit_is_clean().await;
}

/// One hot SKU among many: the time of a commit does not grow with the table.
async fn keys_are_looked_up_in_large_tables(db: Db) {
    let all = (0..50_000).map(|number| (id(&format!("SKU-{number:06}")), Change::Set(100))).collect();
    db.ledger.change_stock(all, "test").await.expect("change").expect("possible");
    let before = rows_scanned(&db).await;
    for sequence in 1..=20 {
        let sku = format!("SKU-{:06}", sequence * 1_234);
        let order = reserved(&sequence.to_string(), &[(&sku, 1, token(0, sequence))]);
        db.ledger.read(&[id(&sku)], &[id("A")]).await.expect("read");
        assert_eq!(db.ledger.commit(batch(vec![order], &[])).await.expect("commit"), Commit::Committed);
        assert_eq!(db.ledger.advance_epochs(&[id(&sku)]).await.expect("advance").len(), 1);
    }
    assert!(rows_scanned(&db).await - before < 50_000, "a statement scans the whole table");
}

/// What the server counts of rows read without an index, over the whole life of the database.
async fn rows_scanned(db: &Db) -> i64 {
    let sql = match db.server {
        Server::Postgres => "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'stock'",
        // Needs userstat; the plan is forced by STRAIGHT_JOIN, and the time bound of the other test watches over it.
        Server::MariaDb => return 0,
        // SQLite counts nothing; the plan is forced by CROSS JOIN.
        Server::Sqlite => return 0,
    };
    // The server gathers its counts with a delay; this asks for them at once.
    let flush = Statement::from_string(db.raw.get_database_backend(), "SELECT pg_stat_force_next_flush()");
    db.raw.query_one_raw(flush).await.expect("flush");
    let row = db.raw.query_one_raw(Statement::from_string(db.raw.get_database_backend(), sql)).await.expect("counts");
    row.expect("a row").try_get_by_index(0).expect("a count")
}
