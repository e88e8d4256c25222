//! A redis-server of a test's own, for what must not be done to a shared one: flush, restart, fail over.

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
    program: &'static str,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk. `arguments` are lines of redis.conf as `--name value` words.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_program("redis-server", arguments)
    }

    /// Starts a Sentinel that watches `masters`: lines of sentinel.conf without `port`.
    pub fn start_sentinel(configuration: &str) -> Self {
        let mut server = Self::prepare("redis-sentinel", &[]);
        let file = server.folder.path().join("sentinel.conf");
        std::fs::write(&file, configuration).expect("write sentinel.conf");
        server.arguments.push(file.display().to_string());
        server.resume();
        server
    }

    fn start_program(program: &'static str, arguments: &[&str]) -> Self {
        let mut server = Self::prepare(program, arguments);
        server.resume();
        server
    }

    fn prepare(program: &'static str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self { program, arguments, folder, port: free_port(), child: None }
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
        let mut command = Command::new(self.program);
        // Sentinel wants its file first.
        command.args(self.arguments.iter().filter(|argument| argument.ends_with("sentinel.conf")));
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir"]).arg(self.folder.path());
        if self.program == "redis-server" {
            command.args(["--save", "", "--appendonly", "no"]);
        }
        command.args(self.arguments.iter().filter(|argument| !argument.ends_with("sentinel.conf")));
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
        let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
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
