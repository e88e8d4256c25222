//! A connection to a broker that is killed now and then: opened again when it is needed.

use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
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

    /// Consumers of a queue.
    pub async fn consumers(&mut self, queue: &str) -> Result<u32, String> {
        let channel = self.channel().await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let asked = within(channel.queue_declare(queue.into(), options, FieldTable::default())).await?;
        within(channel.close(200, "done".into())).await?;
        Ok(asked.consumer_count())
    }
}

/// The answer, unless it does not come.
pub async fn within<T>(call: impl Future<Output = lapin::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(LIMIT, call).await {
        Ok(answer) => answer.map_err(|fault| fault.to_string()),
        Err(elapsed) => Err(elapsed.to_string()),
    }
}
