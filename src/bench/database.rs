//! A database of its own on the configured server, created and dropped here.

use std::ops::Range;
use std::path::{Path, PathBuf};

use entity::{reservation, reservation_line};
use sea_orm::{
    ColumnTrait, ConnectOptions, ConnectionTrait, EntityTrait, IdenStatic, Iterable, PaginatorTrait, QueryFilter,
    QuerySelect,
};
use url::Url;

use super::Error;
use crate::config::Address;

/// Copies made by one statement, which reads the whole table.
const COPIES_AT_ONCE: usize = 100;

/// See the module.
#[derive(Debug)]
pub struct Database {
    address: Address,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// In a folder beside the configured file: on the same disk.
    Embedded { folder: PathBuf },
    /// Under this name on the server.
    Served { server: Address, name: String },
}

impl Database {
    /// Chooses a name; nothing exists yet.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn new(configured: &Address, id: &str) -> Result<Self, Error> {
        let unreadable = || Error::Address(configured.to_string());
        if configured.scheme() == "sqlite" {
            let place = configured.secret().trim_start_matches("sqlite:").trim_start_matches("//");
            let file = Path::new(place.split('?').next().unwrap_or_default());
            let folder = file.parent().unwrap_or(Path::new("")).join(id);
            let address = Address::new(format!("sqlite://{}?mode=rwc", folder.join("bench.db").display()));
            return Ok(Self { address, kind: Kind::Embedded { folder } });
        }
        let mut url = Url::parse(configured.secret()).map_err(|_| unreadable())?;
        // Hyphens would need quotes, which are not the same everywhere.
        let name = id.replace('-', "_");
        url.set_path(&name);
        Ok(Self { address: Address::new(url), kind: Kind::Served { server: configured.clone(), name } })
    }

    /// Where it is.
    pub fn url(&self) -> &Address {
        &self.address
    }

    /// Creates it, empty.
    ///
    /// # Errors
    /// The server's, or the file system's.
    pub async fn create(&self) -> Result<(), Error> {
        match &self.kind {
            Kind::Embedded { folder } => Ok(tokio::fs::create_dir(folder).await?),
            Kind::Served { server, name } => execute(server, &format!("CREATE DATABASE {name}")).await,
        }
    }

    /// Drops it with all it holds, if it exists.
    ///
    /// # Errors
    /// The server's, or the file system's.
    pub async fn drop(&self) -> Result<(), Error> {
        match &self.kind {
            Kind::Embedded { folder } => match tokio::fs::remove_dir_all(folder).await {
                Err(fault) if fault.kind() != std::io::ErrorKind::NotFound => Err(fault.into()),
                Ok(()) | Err(_) => Ok(()),
            },
            Kind::Served { server, name } => {
                // A worker that was killed may still be connected by the server's reckoning.
                let force = if server.scheme().starts_with("postgres") { " WITH (FORCE)" } else { "" };
                execute(server, &format!("DROP DATABASE IF EXISTS {name}{force}")).await
            }
        }
    }

    /// Copies the decisions on orders whose ids hold `run` and a hyphen, with their lines, so many times; `written` is
    /// told the copied decisions so far. Stock stays as it is. Returns how many decisions were copied.
    ///
    /// # Errors
    /// The database's.
    pub async fn copy(&self, run: &str, copies: u32, written: impl Fn(u64)) -> Result<u64, Error> {
        let db = connect(&self.address).await?;
        let mut total = 0;
        for first in (0..copies).step_by(COPIES_AT_ONCE) {
            let end = copies.min(first + COPIES_AT_ONCE as u32);
            total += db.execute_unprepared(&copying::<reservation::Entity>(run, first..end)).await?.rows_affected();
            db.execute_unprepared(&copying::<reservation_line::Entity>(run, first..end)).await?;
            written(total);
        }
        // As on a database that has not just grown to a thousand times its size.
        db.execute_unprepared(match self.address.scheme().as_str() {
            "sqlite" => "ANALYZE",
            scheme if scheme.starts_with("postgres") => "VACUUM (ANALYZE) reservation, reservation_line",
            _mysql => "ANALYZE TABLE reservation, reservation_line",
        })
        .await?;
        db.close().await?;
        Ok(total)
    }

    /// The decisions on orders whose ids hold `run` and a hyphen, and the transactions that made them.
    ///
    /// # Errors
    /// The database's.
    pub async fn count(&self, run: &str) -> Result<Books, Error> {
        use reservation::{Column, Entity};
        let db = connect(&self.address).await?;
        let of_run = Entity::find().filter(Column::OrderId.like(ids_of(run)));
        let decisions = of_run.clone().count(&db).await?;
        let commits = of_run.select_only().column(Column::CommitId).distinct().count(&db).await?;
        db.close().await?;
        Ok(Books { decisions, commits })
    }
}

/// What a run has left in the tables.
#[derive(Clone, Copy, Debug)]
pub struct Books {
    /// Orders decided.
    pub decisions: u64,
    /// Transactions that decided them.
    pub commits: u64,
}

/// The order ids of a run, for `LIKE`.
fn ids_of(run: &str) -> String {
    format!("%{run}-%")
}

/// The statement that copies all rows of a run once for each number, under order ids that lie near the copied ones.
fn copying<E: EntityTrait>(run: &str, numbers: Range<u32>) -> String {
    let (table, ids) = (E::default().table_name().to_owned(), ids_of(run));
    let others: Vec<_> = E::Column::iter().map(|column| column.as_str()).filter(|name| *name != "order_id").collect();
    let (others, numbers) = (others.join(", "), numbers.map(|number| format!("SELECT {number} AS number")));
    let numbers = numbers.collect::<Vec<_>>().join(" UNION ALL ");
    format!(
        "INSERT INTO {table} (order_id, {others}) SELECT CONCAT(REPLACE(order_id, '{run}', 'past'), '-', number), {others} \
         FROM {table} CROSS JOIN ({numbers}) AS numbers WHERE order_id LIKE '{ids}'"
    )
}

async fn connect(address: &Address) -> Result<sea_orm::DatabaseConnection, Error> {
    let mut options = ConnectOptions::new(address.secret());
    options.max_connections(1).sqlx_logging(false);
    Ok(sea_orm::Database::connect(options).await?)
}

async fn execute(server: &Address, statement: &str) -> Result<(), Error> {
    let db = connect(server).await?;
    let done = db.execute_unprepared(statement).await;
    db.close().await?;
    done?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_served_database_has_a_name_of_its_own_on_the_same_server() {
        let database = Database::new(&Address::new("postgres://u:p@h:1/shop?x=y"), "lastunit-bench-1").expect("new");
        assert_eq!(database.url().secret(), "postgres://u:p@h:1/lastunit_bench_1?x=y");
    }

    #[test]
    fn copies_have_order_ids_of_their_own_and_all_else_in_common() {
        assert_eq!(
            copying::<reservation_line::Entity>("r0002", 4..6),
            "INSERT INTO reservation_line (order_id, sku, quantity, fence_token) SELECT \
             CONCAT(REPLACE(order_id, 'r0002', 'past'), '-', number), sku, quantity, fence_token FROM reservation_line \
             CROSS JOIN (SELECT 4 AS number UNION ALL SELECT 5 AS number) AS numbers WHERE order_id LIKE '%r0002-%'"
        );
    }

    #[test]
    fn an_embedded_database_lies_beside_the_configured_one() {
        let database = Database::new(&Address::new("sqlite:///data/shop.db?mode=rwc"), "bench-1").expect("new");
        assert_eq!(database.url().secret(), "sqlite:///data/bench-1/bench.db?mode=rwc");
        let database = Database::new(&Address::new("sqlite://lastunit.db?mode=rwc"), "bench-1").expect("new");
        assert_eq!(database.url().secret(), "sqlite://bench-1/bench.db?mode=rwc");
    }
}
