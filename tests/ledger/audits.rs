//! The audit finds each kind of corruption, and nothing else.

use lastunit::fence::Epoch;
use lastunit::ledger::{Check, Commit};
use lastunit::plan::Reason;

use crate::support::{Db, Server, batch, on_all_servers, rejected, reserved, token};

on_all_servers![each_planted_corruption_is_found, released_units_are_not_counted, the_tables_refuse_what_cannot_be];

/// Two orders by two commits, one rejection.
async fn furnish(db: &Db) {
    db.shelve(&[("X", 10), ("Y", 10)]).await;
    let lines = |sequence| [("X", 1, token(0, sequence)), ("Y", 2, token(0, sequence))];
    for batch in [
        batch(vec![reserved("A", &lines(1))], &[]),
        batch(vec![reserved("B", &lines(2)), rejected("C", Reason::SoldOut)], &[]),
    ] {
        assert_eq!(db.ledger.commit(batch).await.expect("commit"), Commit::Committed);
    }
    db.assert_audit_is_clean().await;
}

async fn each_planted_corruption_is_found(db: Db) {
    furnish(&db).await;
    let half = Epoch::MAX.floor().to_row() / 2;
    let corruptions = [
        ("UPDATE stock SET available = available + 1 WHERE sku = 'X'", Check::Balance, "X"),
        ("UPDATE stock_adjustment SET delta = delta + 1 WHERE sku = 'X'", Check::Balance, "X"),
        ("UPDATE stock SET fence_token = 1 WHERE sku = 'Y'", Check::FenceBehind, "Y"),
        ("UPDATE reservation_line SET fence_token = 1 WHERE sku = 'X' AND order_id = 'B'", Check::TokenReused, "X"),
        ("INSERT INTO reservation_line VALUES ('C', 'X', 1, 2)", Check::Lines, "C"),
        ("INSERT INTO reservation_line VALUES ('D', 'X', 1, 2)", Check::Lines, "D"),
        ("DELETE FROM reservation_line WHERE order_id = 'A'", Check::Lines, "A"),
        ("INSERT INTO reservation_line VALUES ('A', 'Z', 1, 2)", Check::NoStockRow, "Z"),
        (
            "INSERT INTO stock_adjustment (sku, delta, reason, created_at) SELECT 'z ', 1, '', created_at FROM stock_adjustment WHERE sku = 'X'",
            Check::NoStockRow,
            "z ",
        ),
    ];
    for (sql, check, subject) in corruptions {
        save(&db).await;
        db.plant(sql).await;
        let failures = db.ledger.audit().await.expect("audit").failures;
        let found = failures.iter().any(|failure| (failure.check, failure.subject.as_str()) == (check, subject));
        assert!(found, "{sql}: {failures:?}");
        restore(&db).await;
        db.assert_audit_is_clean().await;
    }
    db.plant(&format!("UPDATE stock SET fence_token = {} WHERE sku = 'X'", half + 1)).await;
    let audit = db.ledger.audit().await.expect("audit");
    assert_eq!((audit.is_clean(), audit.warnings.len(), audit.warnings[0].check), (true, 1, Check::EpochsUsed));
}

const TABLES: [&str; 4] = ["stock", "reservation", "reservation_line", "stock_adjustment"];

async fn save(db: &Db) {
    for table in TABLES {
        db.plant(&format!("DROP TABLE IF EXISTS saved_{table}")).await;
        db.plant(&format!("CREATE TABLE saved_{table} AS SELECT * FROM {table}")).await;
    }
}

async fn restore(db: &Db) {
    for table in TABLES {
        db.plant(&format!("DELETE FROM {table}")).await;
        db.plant(&format!("INSERT INTO {table} SELECT * FROM saved_{table}")).await;
    }
}

async fn released_units_are_not_counted(db: Db) {
    furnish(&db).await;
    db.plant("UPDATE reservation SET status = 'confirmed' WHERE order_id = 'A'").await;
    db.assert_audit_is_clean().await;
    db.plant("UPDATE reservation SET status = 'released' WHERE order_id = 'B'").await;
    assert_eq!(db.ledger.audit().await.expect("audit").failures.len(), 2);
    db.plant("UPDATE stock SET available = available + 1 WHERE sku = 'X'").await;
    db.plant("UPDATE stock SET available = available + 2 WHERE sku = 'Y'").await;
    db.assert_audit_is_clean().await;
    let totals = db.ledger.totals().await.expect("totals");
    assert_eq!((totals.reserved, totals.rejected), (2, vec![(Reason::SoldOut, 1)]));
}

/// The last line of defence stands in the schema itself.
async fn the_tables_refuse_what_cannot_be(db: Db) {
    use sea_orm::ConnectionTrait;

    furnish(&db).await;
    let time = if db.server == Server::Sqlite { "'2026-01-01T00:00:00.000000+00:00'" } else { "'2026-01-01 00:00:00'" };
    let impossible = [
        "UPDATE stock SET available = -1".to_owned(),
        "UPDATE stock SET fence_token = -1".to_owned(),
        "UPDATE reservation_line SET quantity = 0".to_owned(),
        "UPDATE reservation SET status = 'reserved' WHERE outcome = 'rejected'".to_owned(),
        "UPDATE reservation SET reason = NULL WHERE outcome = 'rejected'".to_owned(),
        "UPDATE reservation SET status = 'lost'".to_owned(),
        format!("INSERT INTO stock (sku, available, updated_at) VALUES ('X', 1, {time})"),
    ];
    for sql in impossible {
        assert!(db.raw.execute_unprepared(&sql).await.is_err(), "{sql}");
    }
    db.assert_audit_is_clean().await;
}
