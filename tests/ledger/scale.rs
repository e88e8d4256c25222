//! Size: a fixed number of statements, found by key, at the largest batch that settings allow.

use std::time::{Duration, Instant};

use lastunit::ledger::{Advance, Change, Commit, Ledger};
use sea_orm::{ConnectionTrait, Statement};

use crate::support::{Db, Server, batch, id, on, on_all_servers, reserved, token};

on_all_servers![the_largest_batch_is_committed_and_recovered];

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
    assert_eq!((totals.reserved, totals.in_stock), (MOST as u64 + 1, 0));
    db.assert_audit_is_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_finds_every_row_by_its_key_although_the_table_was_never_analysed() {
    on(Server::Postgres, keys_are_looked_up).await;
}

const ROWS: i64 = 50_000;

async fn keys_are_looked_up(db: Db) {
    let all = (0..ROWS).map(|number| (id(&format!("SKU-{number:06}")), Change::Set(100))).collect();
    db.ledger.change_stock(all, "test").await.expect("change").expect("possible");
    let (before, sessions) = (rows_scanned(&db).await, sessions(&db).await);
    let ledger = Ledger::connect(&db.settings).await.expect("connect");
    for sequence in 1..=20 {
        let sku = format!("SKU-{:06}", sequence * 1_234);
        let order = reserved(&sequence.to_string(), &[(&sku, 1, token(0, sequence))]);
        ledger.read(&[id(&sku)], &[id("A")]).await.expect("read");
        assert_eq!(ledger.commit(batch(vec![order], &[])).await.expect("commit"), Commit::Committed);
        assert_eq!(ledger.advance_epochs(&[id(&sku)]).await.expect("advance").len(), 1);
    }
    // A session hands in its counts when it ends, at the latest.
    drop(ledger);
    let deadline = Instant::now() + BOUND;
    while self::sessions(&db).await > sessions {
        assert!(Instant::now() < deadline, "the sessions do not end");
    }
    assert!(rows_scanned(&db).await - before < ROWS, "a statement scans the whole table");
    let scan =
        "SELECT SUM(units)::bigint FROM (SELECT pg_stat_force_next_flush(), SUM(available) AS units FROM stock) AS s";
    assert_eq!(number(&db, scan).await, ROWS * 100 - 20);
    assert!(rows_scanned(&db).await - before >= ROWS, "the server does not count scans");
}

async fn sessions(db: &Db) -> i64 {
    let sql =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lastunit'";
    number(db, sql).await
}

/// Rows that were read without an index.
async fn rows_scanned(db: &Db) -> i64 {
    number(db, "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'stock'").await
}

async fn number(db: &Db, sql: &str) -> i64 {
    let row = db.raw.query_one_raw(Statement::from_string(db.raw.get_database_backend(), sql)).await.expect("a number");
    row.expect("a row").try_get_by_index(0).expect("a number")
}
