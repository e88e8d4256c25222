//! Opening the ledger for a command.

use std::time::{Duration, Instant};

use crate::config::Settings;
use crate::ledger::{Error, Ledger};
use crate::retry::Backoff;

/// Connects, and waits `startup.wait_ms` for a database that is still starting.
///
/// # Errors
/// The last answer of the database.
pub(super) async fn connect(settings: &Settings) -> Result<Ledger, Error> {
    let deadline = Instant::now() + settings.startup.wait_ms.duration();
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    loop {
        match Ledger::connect(&settings.database).await {
            Err(Error::Unavailable(cause)) if Instant::now() < deadline => {
                tracing::info!(cause, "waiting for the database");
                backoff.wait().await;
            }
            result => return result,
        }
    }
}

/// Connects, and verifies the schema.
///
/// # Errors
/// The last answer of the database, or what is wrong with its schema.
pub(super) async fn open(settings: &Settings) -> Result<Ledger, Error> {
    let ledger = connect(settings).await?;
    ledger.verify_schema().await?;
    Ok(ledger)
}
