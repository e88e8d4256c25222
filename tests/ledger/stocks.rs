//! Stock is changed as a delta, with its adjustment row, or not at all.

use std::collections::BTreeMap;

use entity::stock_adjustment;
use lastunit::ledger::{Change, Commit};
use sea_orm::{EntityTrait, QueryOrder};

use crate::support::{Db, batch, id, on_all_servers, reserved, token};

on_all_servers![
    setting_stock_is_a_delta_from_what_is_there,
    a_change_below_zero_changes_nothing,
    stock_of_many_skus_is_counted_however_much_it_is,
    concurrent_changes_and_orders_add_up,
];

async fn setting_stock_is_a_delta_from_what_is_there(db: Db) {
    db.shelve(&[("X", 5)]).await;
    let order = reserved("A", &[("X", 2, token(0, 1))]);
    assert_eq!(db.ledger.commit(batch(vec![order], &[])).await.expect("commit"), Commit::Committed);
    db.shelve(&[("X", 10)]).await;
    let added = BTreeMap::from([(id("X"), Change::Add(-4)), (id("Y"), Change::Add(1))]);
    let changed = db.ledger.change_stock(added, "counted").await.expect("change").expect("possible");
    assert_eq!(changed.iter().map(|changed| changed.available()).collect::<Vec<_>>(), [6, 1]);
    let rows = stock_adjustment::Entity::find().order_by_asc(stock_adjustment::Column::Id).all(&db.raw).await;
    let rows: Vec<_> = rows.expect("rows").into_iter().map(|row| (row.sku, row.delta, row.reason)).collect();
    let row = |sku: &str, delta, reason: &str| (sku.to_owned(), delta, reason.to_owned());
    assert_eq!(rows, [row("X", 5, "test"), row("X", 7, "test"), row("X", -4, "counted"), row("Y", 1, "counted")]);
    assert_eq!(db.row("X").await.fence, token(0, 1), "a change of stock leaves the fence alone");
    db.assert_audit_is_clean().await;
}

async fn a_change_below_zero_changes_nothing(db: Db) {
    db.shelve(&[("X", 5)]).await;
    let changes = BTreeMap::from([(id("W"), Change::Set(1)), (id("X"), Change::Add(-6)), (id("Z"), Change::Add(-1))]);
    let impossible = db.ledger.change_stock(changes, "test").await.expect("change").expect_err("impossible");
    let named: Vec<_> = impossible.iter().map(|one| (one.sku.as_str(), one.available)).collect();
    assert_eq!(named, [("X", Some(5)), ("Z", None)], "Z is not there at all");
    assert_eq!(impossible[1].to_string(), "\"Z\": no such SKU");
    assert_eq!(db.ledger.stock(None).await.expect("stock").len(), 1);
    db.assert_audit_is_clean().await;
}

async fn stock_of_many_skus_is_counted_however_much_it_is(db: Db) {
    db.shelve(&[("X", i64::MAX), ("Y", i64::MAX), ("Z", 0)]).await;
    assert_eq!(db.ledger.totals().await.expect("totals").in_stock, 2);
    db.assert_audit_is_clean().await;
}

async fn concurrent_changes_and_orders_add_up(db: Db) {
    db.shelve(&[("X", 1_000), ("Y", 1_000)]).await;
    let changes = (1..=10).map(|number| {
        let ledger = db.ledger.clone();
        tokio::spawn(async move {
            let changes = BTreeMap::from([(id("X"), Change::Add(number)), (id("Y"), Change::Set(500 + number))]);
            ledger.change_stock(changes, "test").await.expect("change").expect("possible");
        })
    });
    let orders = (1..=10_u64).map(|sequence| {
        let ledger = db.ledger.clone();
        tokio::spawn(async move {
            let lines = [("X", 1, token(0, sequence)), ("Y", 1, token(0, sequence))];
            // Refused when a higher token was faster: that is the fence's work.
            ledger.commit(batch(vec![reserved(&sequence.to_string(), &lines)], &[])).await.map(drop).expect("commit");
        })
    });
    for task in changes.chain(orders).collect::<Vec<_>>() {
        task.await.expect("joined");
    }
    let reserved = db.ledger.totals().await.expect("totals").reserved;
    assert_eq!(db.row("X").await.available, 1_055 - i64::try_from(reserved).expect("a count"));
    db.assert_audit_is_clean().await;
}
