//! A redis-server of a test's own, for what must not be done to a shared one: flush, restart, fail over.

// Each test program uses the part that it needs.
#![allow(dead_code)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(20);
/// A Cluster node also listens on its port + 10,000.
const HIGHEST_PORT: u16 = 55_000;

/// A running server with a folder of its own; both are gone when this is dropped.
pub struct RedisServer {
    /// What comes before the port: a Sentinel wants its file there.
    mode: Vec<String>,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk unless told to. `arguments` are lines of redis.conf as
    /// `--name value` words.
    pub fn start(arguments: &[&str]) -> Self {
        let mut server = Self::prepare();
        server.arguments =
            ["--save", "", "--appendonly", "no"].iter().chain(arguments).map(ToString::to_string).collect();
        server.resume();
        server
    }

    /// Starts a Sentinel; `configuration` are lines of sentinel.conf.
    pub fn start_sentinel(configuration: &str) -> Self {
        let mut server = Self::prepare();
        let file = server.folder.path().join("sentinel.conf");
        std::fs::write(&file, configuration).expect("write sentinel.conf");
        server.mode = vec![file.display().to_string(), "--sentinel".to_owned()];
        server.resume();
        server
    }

    fn prepare() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { mode: Vec::new(), arguments: Vec::new(), folder, port: free_port(), child: None }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it keeps its files: `dump.rdb`, `appendonlydir`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it, as a crash does: nothing is saved.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill redis-server");
            child.wait().expect("wait for redis-server");
        }
    }

    /// Starts it again, on the same port and folder, and waits until it answers.
    pub fn resume(&mut self) {
        self.kill();
        let mut command = Command::new("redis-server");
        command.args(&self.mode).args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir"]);
        command.arg(self.folder.path()).args(&self.arguments);
        let log = std::fs::File::create(self.folder.path().join("log")).expect("a log file");
        self.child =
            Some(command.stdin(Stdio::null()).stdout(log).spawn().expect("redis-server (Debian: redis-server)"));
        let deadline = Instant::now() + DEADLINE;
        while !self.answers() {
            assert!(Instant::now() < deadline, "no answer: {}", self.log());
            // Polling with a deadline: the server tells nobody when it is ready.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a command and waits for its reply.
    pub async fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let client = redis::Client::open(self.url()).expect("a URL");
        // The client's own limit of half a second is too short for a server that evicts megabytes meanwhile.
        let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(DEADLINE));
        let mut connection = client.get_multiplexed_async_connection_with_config(&patient).await.expect("a connection");
        let mut command = redis::Cmd::new();
        command.arg(words);
        command.query_async(&mut connection).await.expect("a reply")
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Process id, for signals.
    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }

    fn answers(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"PING\r\n")?;
            let mut reply = [0; 64];
            let length = stream.read(&mut reply)?;
            Ok(String::from_utf8_lossy(&reply[..length]).into_owned())
        };
        // One that wants a password is ready too; one that still loads is not.
        ask().is_ok_and(|reply| reply.starts_with("+PONG") || reply.starts_with("-NOAUTH"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody listens on, nor on the one 10,000 above.
pub fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        if port < HIGHEST_PORT && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}
