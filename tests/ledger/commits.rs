//! A commit is all or nothing, and passes only with its fence, its units and its orders undecided.

use std::collections::HashMap;

use lastunit::ledger::{Commit, Error, Refusal};
use lastunit::plan::Reason;

use crate::support::{Db, batch, id, on_all_servers, rejected, reserved, token};

on_all_servers![
    a_reservation_takes_units_and_advances_the_fence,
    ids_are_told_apart_byte_for_byte,
    no_more_units_are_sold_than_there_are,
    a_stale_token_is_refused_although_stock_remains,
    one_token_authorises_one_commit,
    a_refusal_advances_the_fence_too,
    an_order_is_decided_once,
    one_bad_sku_refuses_the_whole_batch_and_is_named,
    a_sku_without_a_row_is_gone,
    rejections_need_neither_lease_nor_fence,
    an_event_comes_back_byte_for_byte_however_large,
    times_survive_to_the_millisecond,
    a_batch_that_contradicts_itself_is_not_written,
    two_copies_of_an_order_at_the_same_time_decide_once,
    a_caller_that_gives_up_does_not_interrupt_the_commit,
];

async fn a_reservation_takes_units_and_advances_the_fence(db: Db) {
    db.shelve(&[("X", 5), ("Y", 2)]).await;
    let order = reserved("A", &[("X", 3, token(1, 9)), ("Y", 2, token(0, 4))]);
    assert_eq!(db.ledger.commit(batch(vec![order], &[])).await.expect("commit"), Commit::Committed);
    assert_eq!((db.row("X").await.available, db.row("X").await.fence), (2, token(1, 9)));
    assert_eq!((db.row("Y").await.available, db.row("Y").await.fence), (0, token(0, 4)));
    let snapshot = db.ledger.read(&[id("X"), id("?")], &[id("A"), id("B")]).await.expect("read");
    assert_eq!(snapshot.stock.len(), 1);
    let recorded = &snapshot.recorded["A"];
    assert_eq!((recorded.rejected, recorded.revision, &recorded.event[..]), (None, 0, b"event of A".as_slice()));
    db.assert_audit_is_clean().await;
}

async fn ids_are_told_apart_byte_for_byte(db: Db) {
    let ids =
        ["85123A", "85123a", "85123A ", " 85123A", "é", "e\u{301}", "e", "ß", "ss", "\u{1F45F}", "'\"\\{}$1?", "123"];
    db.shelve(&ids.map(|sku| (sku, 1))).await;
    assert_eq!(db.ledger.stock(None).await.expect("stock").len(), ids.len());
    for (number, sku) in ids.iter().enumerate() {
        let order = reserved(sku, &[(sku, 1, token(0, number as u64 + 1))]);
        assert_eq!(db.ledger.commit(batch(vec![order], &[])).await.expect("commit"), Commit::Committed, "{sku:?}");
    }
    for (number, sku) in ids.iter().enumerate() {
        assert_eq!(db.row(sku).await.fence, token(0, number as u64 + 1), "{sku:?}");
    }
    assert_eq!(db.decided(&ids).await, ids.len());
    assert_eq!(db.decided(&["85123A  ", "E", "0123", "123.0"]).await, 0);
    db.assert_audit_is_clean().await;
}

async fn no_more_units_are_sold_than_there_are(db: Db) {
    db.shelve(&[("X", 1)]).await;
    let order = reserved("A", &[("X", 2, token(0, 1))]);
    let refused = db.ledger.commit(batch(vec![order], &[])).await.expect("commit");
    assert_eq!(refused, Commit::Refused(HashMap::from([(id("X"), Refusal::Short { available: 1 })])));
    assert_eq!(db.decided(&["A"]).await, 0);
    assert_eq!(db.row("X").await.available, 1);
    db.assert_audit_is_clean().await;
}

async fn a_stale_token_is_refused_although_stock_remains(db: Db) {
    db.shelve(&[("X", 10)]).await;
    let newer = reserved("new", &[("X", 1, token(0, 8))]);
    assert_eq!(db.ledger.commit(batch(vec![newer], &[])).await.expect("commit"), Commit::Committed);
    let stale = reserved("old", &[("X", 1, token(0, 7))]);
    let refused = db.ledger.commit(batch(vec![stale], &[])).await.expect("commit");
    assert_eq!(refused, Commit::Refused(HashMap::from([(id("X"), Refusal::Stale { row: token(0, 8) })])));
    assert_eq!((db.row("X").await.available, db.decided(&["old"]).await), (9, 0));
    db.assert_audit_is_clean().await;
}

async fn one_token_authorises_one_commit(db: Db) {
    db.shelve(&[("X", 10)]).await;
    for (order, expected) in [("first", true), ("second", false)] {
        let order = reserved(order, &[("X", 1, token(0, 1))]);
        let committed = db.ledger.commit(batch(vec![order], &[])).await.expect("commit") == Commit::Committed;
        assert_eq!(committed, expected);
    }
    assert_eq!(db.row("X").await.available, 9);
}

async fn a_refusal_advances_the_fence_too(db: Db) {
    db.shelve(&[("X", 0)]).await;
    let lost = batch(vec![rejected("A", Reason::SoldOut)], &[("X", token(0, 5))]);
    assert_eq!(db.ledger.commit(lost).await.expect("commit"), Commit::Committed);
    assert_eq!((db.row("X").await.available, db.row("X").await.fence), (0, token(0, 5)));
    db.assert_audit_is_clean().await;
}

async fn an_order_is_decided_once(db: Db) {
    db.shelve(&[("X", 10)]).await;
    let first = reserved("A", &[("X", 1, token(0, 1))]);
    assert_eq!(db.ledger.commit(batch(vec![first], &[])).await.expect("commit"), Commit::Committed);
    let again = vec![reserved("B", &[("X", 2, token(0, 2))]), rejected("A", Reason::SoldOut)];
    assert_eq!(db.ledger.commit(batch(again, &[])).await.expect("commit"), Commit::AlreadyDecided);
    assert_eq!((db.row("X").await.available, db.row("X").await.fence), (9, token(0, 1)));
    assert_eq!(db.decided(&["A", "B"]).await, 1);
    db.assert_audit_is_clean().await;
}

async fn one_bad_sku_refuses_the_whole_batch_and_is_named(db: Db) {
    db.shelve(&[("X", 5), ("Y", 1), ("Z", 5)]).await;
    let newer = batch(vec![rejected("0", Reason::SoldOut)], &[("Z", token(1, 0))]);
    assert_eq!(db.ledger.commit(newer).await.expect("commit"), Commit::Committed);
    let orders = vec![
        reserved("A", &[("X", 1, token(0, 1)), ("Y", 2, token(0, 1))]),
        reserved("B", &[("Z", 1, token(0, 1))]),
        rejected("C", Reason::UnknownSku),
    ];
    let Commit::Refused(refused) = db.ledger.commit(batch(orders, &[])).await.expect("commit") else {
        panic!("refused")
    };
    let expected = [(id("Y"), Refusal::Short { available: 1 }), (id("Z"), Refusal::Stale { row: token(1, 0) })];
    assert_eq!(refused, HashMap::from(expected));
    assert_eq!(db.decided(&["A", "B", "C"]).await, 0);
    assert_eq!(db.row("X").await.available, 5);
    db.assert_audit_is_clean().await;
}

async fn a_sku_without_a_row_is_gone(db: Db) {
    let order = reserved("A", &[("X", 1, token(0, 1))]);
    let refused = db.ledger.commit(batch(vec![order], &[])).await.expect("commit");
    assert_eq!(refused, Commit::Refused(HashMap::from([(id("X"), Refusal::Gone)])));
}

async fn rejections_need_neither_lease_nor_fence(db: Db) {
    for (number, reason) in Reason::ALL.into_iter().enumerate() {
        let order = number.to_string();
        let lost = batch(vec![rejected(&order, reason)], &[]);
        assert_eq!(db.ledger.commit(lost).await.expect("commit"), Commit::Committed);
        let recorded = db.ledger.read(&[], &[id(&order)]).await.expect("read").recorded;
        assert_eq!(recorded[order.as_str()].rejected, Some(reason));
    }
    let totals = db.ledger.totals().await.expect("totals");
    assert_eq!((totals.decisions(), totals.reserved, totals.rejected.len()), (4, 0, 4));
    db.assert_audit_is_clean().await;
}

async fn an_event_comes_back_byte_for_byte_however_large(db: Db) {
    let sizes = [0, 1, 65_535, 65_536, 3 << 20, 3 << 20, 17];
    let orders = sizes.iter().enumerate().map(|(number, size)| {
        let event = (0..*size).map(|byte| (byte * 31 + number * 7) as u8).collect();
        lastunit::ledger::NewDecision { event, ..rejected(&number.to_string(), Reason::SoldOut) }
    });
    let orders: Vec<_> = orders.collect();
    assert_eq!(db.ledger.commit(batch(orders.clone(), &[])).await.expect("commit"), Commit::Committed);
    let ids: Vec<_> = orders.iter().map(|order| order.order_id.clone()).collect();
    let recorded = db.ledger.read(&[], &ids).await.expect("read").recorded;
    for order in orders {
        assert!(recorded[&order.order_id].event == order.event, "order {}", order.order_id);
        assert_eq!(recorded[&order.order_id].content_hash, order.content_hash);
    }
}

async fn times_survive_to_the_millisecond(db: Db) {
    use sea_orm::EntityTrait;

    db.shelve(&[("X", 2)]).await;
    let at = chrono::DateTime::from_timestamp_millis(1_795_982_400_123).expect("a time");
    let held = lastunit::ledger::NewDecision { expires_at: Some(at), ..reserved("A", &[("X", 1, token(0, 1))]) };
    let mut held = batch(vec![held, reserved("B", &[("X", 1, token(0, 1))])], &[]);
    held.decided_at = at;
    assert_eq!(db.ledger.commit(held).await.expect("commit"), Commit::Committed);
    let row = entity::reservation::Entity::find_by_id("A").one(&db.raw).await.expect("read").expect("a row");
    assert_eq!((row.decided_at, row.changed_at, row.expires_at), (at, at, Some(at)));
    assert_eq!((row.outcome.as_str(), row.status.as_str(), row.reason), ("reserved", "reserved", None));
    let row = entity::reservation::Entity::find_by_id("B").one(&db.raw).await.expect("read").expect("a row");
    assert_eq!(row.expires_at, None);
}

async fn a_batch_that_contradicts_itself_is_not_written(db: Db) {
    db.shelve(&[("X", 9)]).await;
    let order = || reserved("A", &[("X", 1, token(0, 1))]);
    let twice = batch(vec![order(), order()], &[]);
    let mut more_than_lines = batch(vec![order()], &[]);
    more_than_lines.stock.insert(id("X"), (2, token(0, 1)));
    let mut other_token = batch(vec![order()], &[]);
    other_token.stock.insert(id("X"), (1, token(0, 2)));
    let no_lines = batch(vec![reserved("A", &[])], &[]);
    for wrong in [twice, more_than_lines, other_token, no_lines] {
        assert!(matches!(db.ledger.commit(wrong).await, Err(Error::Failed(_))));
    }
    assert_eq!((db.decided(&["A"]).await, db.row("X").await.available), (0, 9));
}

async fn two_copies_of_an_order_at_the_same_time_decide_once(db: Db) {
    db.shelve(&[("X", 100)]).await;
    let copies = (1..=8).map(|sequence| {
        let ledger = db.ledger.clone();
        tokio::spawn(
            async move { ledger.commit(batch(vec![reserved("A", &[("X", 1, token(0, sequence))])], &[])).await },
        )
    });
    let mut committed = 0;
    for copy in copies.collect::<Vec<_>>() {
        match copy.await.expect("joined").expect("commit") {
            Commit::Committed => committed += 1,
            Commit::AlreadyDecided => {}
            Commit::Refused(refused) => panic!("{refused:?}"),
        }
    }
    assert_eq!((committed, db.row("X").await.available), (1, 99));
    db.assert_audit_is_clean().await;
}

async fn a_caller_that_gives_up_does_not_interrupt_the_commit(db: Db) {
    db.shelve(&[("X", 100)]).await;
    for sequence in 1..=60 {
        let order = reserved(&sequence.to_string(), &[("X", 1, token(0, sequence))]);
        let ledger = db.ledger.clone();
        let call = tokio::spawn(async move { ledger.commit(batch(vec![order], &[])).await });
        for _ in 0..sequence % 12 {
            tokio::task::yield_now().await;
        }
        call.abort();
    }
    // The pool serves on, and no connection is left inside of a transaction: a later write is seen by every other one.
    let last = reserved("last", &[("X", 1, token(1, 0))]);
    assert_eq!(db.ledger.commit(batch(vec![last], &[])).await.expect("commit"), Commit::Committed);
    let reads = (0..32).map(|_| db.row("X"));
    for row in futures_util::future::join_all(reads).await {
        assert_eq!(row.fence, token(1, 0));
    }
    db.assert_audit_is_clean().await;
}
