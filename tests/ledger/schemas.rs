//! The schema goes up, down and up again, by one process or by several at once.

use entity::{reservation, reservation_line, stock, stock_adjustment};
use lastunit::ledger::{Direction, Error, Ledger};
use sea_orm::{EntityName, EntityTrait, IdenStatic, Iterable};

use crate::support::{Db, on_all_servers, settings};

on_all_servers![
    the_schema_goes_down_and_up_again,
    several_processes_may_migrate_at_once,
    a_missing_schema_is_one_clear_line,
    a_newer_schema_is_refused,
    a_table_of_somebody_else_is_refused_and_left_alone,
    a_table_of_somebody_else_is_not_dropped,
    a_step_that_stopped_half_way_is_done_again,
    a_table_that_is_lost_is_told,
];

/// What is wrong with a schema, in one line.
fn fault<T: std::fmt::Debug>(told: Result<T, Error>) -> String {
    let Err(Error::Schema(text)) = told else { panic!("{told:?}") };
    assert!(!text.contains('\n'), "{text}");
    text
}

async fn the_schema_goes_down_and_up_again(db: Db) {
    db.ledger.verify_schema().await.expect("migrated");
    db.shelve(&[("X", 1)]).await;
    let down = db.ledger.migrate(Direction::Down).await.expect("down");
    assert!(down.iter().all(|step| !step.applied && step.changed), "{down:?}");
    assert!(db.ledger.schema_status().await.expect("status").iter().all(|step| !step.applied));
    let up = db.ledger.migrate(Direction::Up).await.expect("up");
    assert!(up.iter().all(|step| step.applied && step.changed), "{up:?}");
    let again = db.ledger.migrate(Direction::Up).await.expect("up once more");
    assert!(again.iter().all(|step| step.applied && !step.changed), "{again:?}");
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
        db.ledger.migrate(Direction::Up).await.map(drop),
        db.ledger.migrate(Direction::Down).await.map(drop),
    ];
    for told in told {
        let Err(Error::Schema(text)) = told else { panic!("{told:?}") };
        assert!(text.contains("step m99990101_000001_future") && text.contains("run that version"), "{text}");
    }
}

const OTHERS: &str =
    "that is not lastunit's (it has no column order_id): give lastunit a database or schema of its own";

async fn a_table_of_somebody_else_is_refused_and_left_alone(db: Db) {
    db.ledger.migrate(Direction::Down).await.expect("down");
    db.plant("DROP TABLE seaql_migrations").await;
    db.plant("CREATE TABLE reservation (id INTEGER, sku VARCHAR(9))").await;
    db.plant("INSERT INTO reservation VALUES (1, 'theirs')").await;
    for direction in [Direction::Up, Direction::Down] {
        let text = fault(db.ledger.migrate(direction).await);
        assert!(text.contains("a table reservation") && text.contains(OTHERS), "{text}");
    }
    assert!(fault(db.ledger.verify_schema().await).contains(OTHERS), "and not: run `lastunit migrate`");
    for table in ["seaql_migrations", "stock", "reservation_line", "stock_adjustment"] {
        assert!(!db.has(table).await, "{table} was made");
    }
    assert!(db.has("reservation WHERE sku = 'theirs'").await);
    db.plant("DROP TABLE reservation").await;
    db.ledger.migrate(Direction::Up).await.expect("nothing is left behind");
}

/// Its record says that the schema is there; it was not lastunit that made all of it.
async fn a_table_of_somebody_else_is_not_dropped(db: Db) {
    db.plant("DROP TABLE reservation").await;
    db.plant("CREATE TABLE reservation (id INTEGER, sku VARCHAR(9))").await;
    db.plant("INSERT INTO reservation VALUES (1, 'theirs')").await;
    for direction in [Direction::Down, Direction::Up] {
        assert!(fault(db.ledger.migrate(direction).await).contains(OTHERS));
    }
    assert!(fault(db.ledger.verify_schema().await).contains(OTHERS));
    assert!(db.has("reservation WHERE sku = 'theirs'").await && db.has("stock").await);
}

/// MySQL and MariaDB keep each table that was made, and each that was dropped, whatever becomes of the step.
async fn a_step_that_stopped_half_way_is_done_again(db: Db) {
    db.shelve(&[("X", 1)]).await;
    db.plant("DROP TABLE reservation_line").await;
    db.plant("DELETE FROM seaql_migrations").await;
    db.ledger.migrate(Direction::Up).await.expect("up, again");
    db.ledger.verify_schema().await.expect("migrated");
    assert_eq!(db.row("X").await.available, 1);
    db.plant("DROP TABLE reservation_line").await;
    db.ledger.migrate(Direction::Down).await.expect("down, again");
    assert!(!db.has("stock").await);
}

async fn a_table_that_is_lost_is_told(db: Db) {
    db.plant("DROP TABLE reservation_line").await;
    for told in [db.ledger.verify_schema().await, db.ledger.migrate(Direction::Up).await.map(drop)] {
        let text = fault(told);
        assert!(text.contains("has lost its table reservation_line") && text.contains("down --force"), "{text}");
    }
}

#[test]
fn tables_are_known_by_the_columns_that_the_program_reads() {
    fn of<E: EntityTrait + EntityName>(entity: E) -> (String, Vec<String>) {
        let columns = E::Column::iter().map(|column| column.as_str().to_owned());
        (entity.table_name().to_owned(), columns.collect())
    }
    let known = migration::tables()
        .map(|(table, columns)| (table.to_owned(), columns.iter().map(ToString::to_string).collect()));
    let read = [of(stock::Entity), of(reservation::Entity), of(reservation_line::Entity), of(stock_adjustment::Entity)];
    assert_eq!(known.collect::<Vec<(String, Vec<String>)>>(), read);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named_without_its_password() {
    let mut settings = settings("postgres://shop:hunter2@127.0.0.1:1/orders");
    settings.acquire_timeout_ms = lastunit::config::Millis(200);
    let Err(Error::Unavailable(text)) = Ledger::connect(&settings).await else { panic!("connected") };
    assert!(text.contains("127.0.0.1:1/orders") && !text.contains("hunter2"), "{text}");
    assert!(text.contains("connecting to 127.0.0.1 port 1: Connection refused"), "{text}");
}
