//! A Redis server of the test's own, to be flushed, stopped and started again.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{SOON, eventually};

/// Ends with the test.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl RedisServer {
    /// Starts one that keeps nothing on disk, and waits until it answers.
    pub async fn start() -> Self {
        let port = free_port();
        let folder = TempDir::new().expect("a folder");
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server: scripts/services.sh installs it");
        let server = Self { child, port, _folder: folder };
        eventually("the test's redis-server answers", SOON, async || server.command::<String>("PING").await).await;
        server
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Forgets everything.
    pub async fn flush_all(&self) {
        self.command::<()>("FLUSHALL").await.expect("FLUSHALL");
    }

    async fn command<T: redis::FromRedisValue>(&self, name: &str) -> redis::RedisResult<T> {
        let mut connection = redis::Client::open(self.url())?.get_multiplexed_async_connection().await?;
        redis::cmd(name).query_async(&mut connection).await
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if let Err(fault) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("redis-server {} could not be ended: {fault}", self.child.id());
        }
    }
}

/// A port on which nobody listens at the moment.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}
