//! The schema goes up, down and up again, by one process or by several at once.

use lastunit::ledger::{Direction, Error, Ledger};

use crate::support::{Db, on_all_servers, settings};

on_all_servers![
    the_schema_goes_down_and_up_again,
    several_processes_may_migrate_at_once,
    a_missing_schema_is_one_clear_line,
    a_newer_schema_is_refused,
];

async fn the_schema_goes_down_and_up_again(db: Db) {
    db.ledger.verify_schema().await.expect("migrated");
    db.shelve(&[("X", 1)]).await;
    db.ledger.migrate(Direction::Down).await.expect("down");
    assert!(db.ledger.schema_status().await.expect("status").iter().all(|step| !step.applied));
    db.ledger.migrate(Direction::Up).await.expect("up");
    db.ledger.migrate(Direction::Up).await.expect("up once more changes nothing");
    db.ledger.verify_schema().await.expect("migrated again");
    assert!(db.ledger.stock(None).await.expect("stock").is_empty());
}

async fn several_processes_may_migrate_at_once(db: Db) {
    db.ledger.migrate(Direction::Down).await.expect("down");
    let migrations = (0..6).map(|_| {
        let settings = db.settings.clone();
        tokio::spawn(async move { Ledger::connect(&settings).await.expect("connect").migrate(Direction::Up).await })
    });
    for migration in migrations.collect::<Vec<_>>() {
        migration.await.expect("joined").expect("migrated");
    }
    db.ledger.verify_schema().await.expect("migrated");
    db.shelve(&[("X", 1)]).await;
}

async fn a_missing_schema_is_one_clear_line(db: Db) {
    db.ledger.migrate(Direction::Down).await.expect("down");
    let Err(Error::Schema(text)) = db.ledger.verify_schema().await else { panic!("verified") };
    assert!(text.contains("run `lastunit migrate`") && !text.contains('\n'), "{text}");
    let Err(Error::Schema(text)) = db.ledger.stock(None).await else { panic!("read") };
    assert!(text.contains("run `lastunit migrate`"), "{text}");
}

async fn a_newer_schema_is_refused(db: Db) {
    db.plant("INSERT INTO seaql_migrations (version, applied_at) VALUES ('m99990101_000001_future', 0)").await;
    let told = [
        db.ledger.verify_schema().await,
        db.ledger.schema_status().await.map(drop),
        db.ledger.migrate(Direction::Up).await,
        db.ledger.migrate(Direction::Down).await,
    ];
    for told in told {
        let Err(Error::Schema(text)) = told else { panic!("{told:?}") };
        assert!(text.contains("step m99990101_000001_future") && text.contains("run that version"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named_without_its_password() {
    let mut settings = settings("postgres://shop:hunter2@127.0.0.1:1/orders");
    settings.acquire_timeout_ms = lastunit::config::Millis(200);
    let Err(Error::Unavailable(text)) = Ledger::connect(&settings).await else { panic!("connected") };
    assert!(text.contains("127.0.0.1:1/orders") && !text.contains("hunter2"), "{text}");
    assert!(text.contains("connecting to 127.0.0.1 port 1: Connection refused"), "{text}");
}
