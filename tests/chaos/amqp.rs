//! A connection to a broker that is killed now and then: opened again when it is needed.

use std::time::Duration;

use lapin::{Channel, Connection, ConnectionProperties};

/// For one call.
const LIMIT: Duration = Duration::from_secs(5);

/// See the module.
pub struct Link {
    url: String,
    connection: Option<Connection>,
}

impl Link {
    /// Connects when it is first needed.
    pub fn to(url: &str) -> Self {
        Self { url: url.to_owned(), connection: None }
    }

    /// A new channel, on a new connection where the old one is gone.
    pub async fn channel(&mut self) -> Result<Channel, String> {
        self.connection.take_if(|connection| !connection.status().connected());
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => within(Connection::connect(&self.url, ConnectionProperties::default())).await?,
        };
        let channel = within(connection.create_channel()).await;
        // A connection that fails once is not used again.
        self.connection = channel.is_ok().then_some(connection);
        channel
    }
}

/// The answer, unless it does not come.
pub async fn within<T>(call: impl Future<Output = lapin::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(LIMIT, call).await {
        Ok(answer) => answer.map_err(|fault| fault.to_string()),
        Err(elapsed) => Err(elapsed.to_string()),
    }
}
