//! Where the measuring takes place: names of its own on the configured services, and a database of its own.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::Error;
use super::database::Database;
use crate::broker::topology::Topology;
use crate::config::Settings;
use crate::demo::crew::Crew;
use crate::lease;
use crate::ledger::{Change, Direction, Ledger};
use crate::order::Id;

/// See the module.
#[derive(Debug)]
pub struct Place {
    settings: Settings,
    database: Database,
}

impl Place {
    /// Chooses names; nothing exists yet.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn new(configured: &Settings) -> Result<Self, Error> {
        let id = format!("lastunit-bench-{}", &Uuid::new_v4().simple().to_string()[..6]);
        let database = Database::new(&configured.database.url, &id)?;
        let mut settings = configured.clone();
        settings.database.url = database.url().clone();
        settings.broker.name_prefix = id.clone();
        settings.redis.key_prefix = id;
        Ok(Self { settings, database })
    }

    /// The settings under which everything here runs.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The database, for counting.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// What the contenders' processes have to be told.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LASTUNIT__DATABASE__URL", self.settings.database.url.secret().to_owned()),
            // All processes are on this host, wherever the broker is.
            ("LASTUNIT__DATABASE__ALLOW_SQLITE", "true".to_owned()),
            ("LASTUNIT__BROKER__NAME_PREFIX", self.settings.broker.name_prefix.clone()),
            ("LASTUNIT__REDIS__KEY_PREFIX", self.settings.redis.key_prefix.clone()),
            ("LASTUNIT__LEASE__FENCE_IDLE_MS", lease::SHORTEST_FENCE_IDLE_MS.to_string()),
            ("LASTUNIT__ADMIN__LISTEN", String::new()),
            ("LASTUNIT__LOG__FILTER", "warn,lapin=off".to_owned()),
        ]
    }

    /// Creates the database with its tables, exchanges and queues; returns the ledger, for putting stock in place.
    ///
    /// # Errors
    /// Whatever service refuses.
    pub async fn prepare(&self, crew: &Crew) -> Result<Ledger, Error> {
        self.database.create().await?;
        let ledger = Ledger::connect(&self.settings.database).await?;
        ledger.migrate(Direction::Up).await?;
        crew.run(&["topology"]).await?;
        Ok(ledger)
    }

    /// Takes everything away, as far as it exists. Each part is tried whatever becomes of the others.
    ///
    /// # Errors
    /// The first failure.
    pub async fn clear(&self) -> Result<(), Error> {
        let Settings { broker, retry, .. } = &self.settings;
        let queues = Topology::new(broker, retry).delete(broker).await;
        let keys = lease::delete_keys(&self.settings.redis).await;
        self.database.drop().await?;
        queues?;
        Ok(keys?)
    }
}

/// Sets the stock of each SKU, by deltas, as an operator would.
///
/// # Errors
/// [`Error::Stock`], or the database's.
pub async fn stock(ledger: &Ledger, skus: impl Iterator<Item = String>, units: i64) -> Result<(), Error> {
    let change = |sku: String| Ok((Id::new(&sku).map_err(Error::Stock)?, Change::Set(units)));
    let changes: BTreeMap<_, _> = skus.map(change).collect::<Result<_, Error>>()?;
    let wanted = changes.len();
    let changed = ledger.change_stock(changes, "bench").await?;
    let changed = changed.map_err(|faults| Error::Stock(faults.iter().map(ToString::to_string).collect()))?;
    if changed.len() == wanted {
        return Ok(());
    }
    Err(Error::Stock(format!("{} of {wanted} SKUs were put in place", changed.len())))
}
