//! Asks a worker whether it is ready, as an orchestrator would.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Whoever does not answer for so long is not ready.
const LIMIT: Duration = Duration::from_secs(1);

/// `GET /readyz` on a port of this host.
pub async fn is_ready(port: u16) -> bool {
    matches!(tokio::time::timeout(LIMIT, ask(port)).await, Ok(Ok(true)))
}

async fn ask(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200 "))
}
