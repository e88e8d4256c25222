//! The database's half of a recovery: epochs are won by compare-and-set.

use std::collections::BTreeSet;

use lastunit::fence::Epoch;
use lastunit::ledger::{Advance, Commit};

use crate::support::{Db, batch, id, on_all_servers, reserved, token};

on_all_servers![
    a_recovery_refuses_every_token_issued_before_it,
    each_epoch_is_won_by_exactly_one,
    an_unknown_sku_and_a_used_up_one_are_told,
];

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).expect("an epoch")
}

async fn a_recovery_refuses_every_token_issued_before_it(db: Db) {
    db.shelve(&[("X", 10)]).await;
    let advanced = db.ledger.advance_epochs(&[id("X"), id("X")]).await.expect("advance");
    assert_eq!(advanced[&id("X")], Advance::Won(epoch(1)));
    assert_eq!(db.row("X").await.fence, epoch(1).floor());
    let paused = reserved("A", &[("X", 1, token(0, 999_999))]);
    assert!(matches!(db.ledger.commit(batch(vec![paused], &[])).await.expect("commit"), Commit::Refused(_)));
    let next = reserved("A", &[("X", 1, token(1, 1))]);
    assert_eq!(db.ledger.commit(batch(vec![next], &[])).await.expect("commit"), Commit::Committed);
    let advanced = db.ledger.advance_epochs(&[id("X")]).await.expect("advance");
    assert_eq!(advanced[&id("X")], Advance::Won(epoch(2)));
    db.assert_audit_is_clean().await;
}

async fn each_epoch_is_won_by_exactly_one(db: Db) {
    db.shelve(&[("X", 1), ("Y", 1)]).await;
    let racers = (0..16).map(|_| {
        let ledger = db.ledger.clone();
        tokio::spawn(async move { ledger.advance_epochs(&[id("Y"), id("X")]).await })
    });
    let (mut won, mut wins) = (BTreeSet::new(), 0);
    for racer in racers.collect::<Vec<_>>() {
        for (sku, advance) in racer.await.expect("joined").expect("advance") {
            match advance {
                Advance::Won(epoch) => {
                    wins += 1;
                    won.insert((sku, epoch));
                }
                Advance::Lost => {}
                Advance::NoRow | Advance::Exhausted => panic!("{sku}: {advance:?}"),
            }
        }
    }
    assert_eq!(won.len(), wins, "an epoch was won twice");
    for sku in ["X", "Y"] {
        let last = won.iter().filter(|(won, _)| won.as_str() == sku).map(|(_, epoch)| *epoch).max();
        assert_eq!(last.map(Epoch::floor), Some(db.row(sku).await.fence));
    }
}

async fn an_unknown_sku_and_a_used_up_one_are_told(db: Db) {
    db.shelve(&[("X", 1)]).await;
    db.plant(&format!("UPDATE stock SET fence_token = {}", Epoch::MAX.floor().to_row())).await;
    let advanced = db.ledger.advance_epochs(&[id("X"), id("x")]).await.expect("advance");
    assert_eq!((advanced[&id("X")], advanced[&id("x")]), (Advance::Exhausted, Advance::NoRow));
    assert!(!db.ledger.audit().await.expect("audit").warnings.is_empty());
}
