//! Where the demo takes place: names of its own on the given services, and a database.

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::Error;
use crate::broker::topology::Topology;
use crate::config::{self, Settings};
use crate::lease;

/// See the module.
#[derive(Debug)]
pub struct Stage {
    id: String,
    broker: config::Broker,
    redis: config::Redis,
    retry: config::Retry,
    /// Of the embedded database; `None` when the settings name another.
    folder: Option<Folder>,
}

impl Stage {
    /// Chooses names, and makes room for a database unless the settings name one.
    ///
    /// # Errors
    /// [`Error::Folder`].
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let id = format!("demo-{}", &Uuid::new_v4().simple().to_string()[..6]);
        let default = Settings::load(None, [])?.database.url;
        let embedded = settings.database.url.secret() == default.secret();
        let folder = if embedded { Some(Folder::new(&id)?) } else { None };
        let broker = config::Broker { name_prefix: format!("lastunit-{id}"), ..settings.broker.clone() };
        let redis = config::Redis { key_prefix: broker.name_prefix.clone(), ..settings.redis.clone() };
        Ok(Self { id, broker, redis, retry: settings.retry.clone(), folder })
    }

    /// What is sold.
    pub fn sku(&self) -> String {
        format!("SNKR-42-{}", self.id)
    }

    /// The id of an order.
    pub fn order_id(&self, number: u32) -> String {
        format!("{}-{number:05}", self.id)
    }

    /// The broker, with the demo's names.
    pub fn broker(&self) -> &config::Broker {
        &self.broker
    }

    /// What the demo's processes have to be told.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        let mut env = vec![
            ("LASTUNIT__BROKER__NAME_PREFIX", self.broker.name_prefix.clone()),
            ("LASTUNIT__REDIS__KEY_PREFIX", self.redis.key_prefix.clone()),
            ("LASTUNIT__LEASE__FENCE_IDLE_MS", lease::SHORTEST_FENCE_IDLE_MS.to_string()),
            ("LASTUNIT__ADMIN__LISTEN", String::new()),
            // The AMQP library reports as an error what the program handles: that a queue is not there yet.
            ("LASTUNIT__LOG__FILTER", "warn,lapin=off".to_owned()),
        ];
        if let Some(folder) = &self.folder {
            env.push(("LASTUNIT__DATABASE__URL", folder.database_url()));
            // All workers of the demo are on this host, wherever the broker is.
            env.push(("LASTUNIT__DATABASE__ALLOW_SQLITE", "true".to_owned()));
        }
        env
    }

    /// Takes exchanges, queues and keys away. The folder goes with the stage itself.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn clear(&self) -> Result<(), Error> {
        let queues = Topology::new(&self.broker, &self.retry).delete(&self.broker).await;
        lease::delete_keys(&self.redis).await?;
        Ok(queues?)
    }
}

/// A temporary folder, removed when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new(id: &str) -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("lastunit-{id}"));
        fs::create_dir(&path).map_err(Error::Folder)?;
        Ok(Self(path))
    }

    fn database_url(&self) -> String {
        format!("sqlite://{}?mode=rwc", Path::new(&self.0).join("lastunit.db").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(fault) = fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %fault, "the demo's folder could not be removed");
        }
    }
}
