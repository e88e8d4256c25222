//! RabbitMQ nodes of a test's own, alone or as a cluster, for what must not be done to a shared one.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use uuid::Uuid;

use super::redis_server::free_port;
use super::wait::{SLOW_START, until};

const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

/// What the nodes of one cluster share: a folder, a cookie, and the daemon by which they find each other.
struct Home {
    folder: TempDir,
    epmd_port: u16,
    epmd: Child,
    /// Full node names, of all members.
    members: Vec<String>,
}

/// A running node; gone, with its files, when it is dropped.
pub struct RabbitNode {
    home: Arc<Home>,
    name: String,
    port: u16,
    dist_port: u16,
    child: Option<Child>,
}

impl RabbitNode {
    /// Starts a node that stands alone; `configuration` are lines of advanced.config's list: `{rabbit, […]}`.
    pub fn start(configuration: &str) -> Self {
        let home = Arc::new(Home::new(1, configuration));
        let mut node = Self::prepare(&home, 0);
        node.resume();
        node
    }

    /// Starts a cluster of so many nodes.
    pub fn cluster(size: usize) -> Vec<Self> {
        let home = Arc::new(Home::new(size, ""));
        let mut nodes: Vec<_> = (0..size).map(|index| Self::prepare(&home, index)).collect();
        // The first one founds the cluster; the others join it side by side.
        nodes[0].resume();
        nodes[1..].iter_mut().for_each(Self::launch);
        nodes[1..].iter().for_each(Self::wait);
        let all = format!("length(rabbit_nodes:all_running()) =:= {size}.");
        until("all nodes are members", SLOW_START, || nodes[0].eval(&all) == "true");
        nodes
    }

    fn prepare(home: &Arc<Home>, index: usize) -> Self {
        let name = home.members[index].clone();
        Self { home: Arc::clone(home), name, port: free_port(), dist_port: free_port(), child: None }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `amqp://guest:guest@127.0.0.1:PORT/%2f`
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    /// Its name in the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kills it, as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill the node");
            child.wait().expect("its end");
        }
    }

    /// Starts it again, on the same ports and files, and waits until it lets clients in.
    pub fn resume(&mut self) {
        self.launch();
        self.wait();
    }

    fn launch(&mut self) {
        self.kill();
        let mut node = self.program("rabbitmq-server");
        let log = File::options().create(true).append(true).open(self.log()).expect("a log file");
        let also = log.try_clone().expect("a log file");
        // So that it is this process and not a shell's child that runs the node.
        node.env("RUNNING_UNDER_SYSTEMD", "true");
        self.child = Some(node.stdout(log).stderr(also).spawn().expect("rabbitmq-server (Debian: rabbitmq-server)"));
    }

    fn wait(&self) {
        let what = format!("{} lets clients in, see {}", self.name, self.log().display());
        until(&what, SLOW_START, || lets_in(self.port));
    }

    /// Runs `rabbitmqctl` and returns what it printed.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = self.program("rabbitmqctl").arg("-q").args(arguments).output().expect("rabbitmqctl");
        let (said, fault) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "rabbitmqctl {arguments:?}: {said}{fault}");
        said.trim().to_owned()
    }

    /// Evaluates an expression of Erlang inside of the node.
    pub fn eval(&self, expression: &str) -> String {
        self.ctl(&["eval", expression])
    }

    fn log(&self) -> PathBuf {
        self.home.folder.path().join(format!("{}.log", self.name))
    }

    /// A program of RabbitMQ's, in the node's own environment: nothing of a node on the standard ports gets in.
    fn program(&self, name: &str) -> Command {
        let folder = self.home.folder.path();
        let mut command = Command::new(format!("{PROGRAMS}/{name}"));
        command.current_dir(folder).stdin(Stdio::null());
        let files = [
            ("HOME", ""),
            ("RABBITMQ_MNESIA_BASE", "mnesia"),
            ("RABBITMQ_LOG_BASE", "logs"),
            ("RABBITMQ_CONF_ENV_FILE", "rabbitmq-env.conf"),
            ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", "advanced.config"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
        ];
        command.envs(files.map(|(variable, file)| (variable, folder.join(file))));
        let ports = [
            ("ERL_EPMD_PORT", self.home.epmd_port),
            ("RABBITMQ_NODE_PORT", self.port),
            ("RABBITMQ_DIST_PORT", self.dist_port),
        ];
        command.envs(ports.map(|(variable, port)| (variable, port.to_string())));
        command.env("ERL_EPMD_ADDRESS", "127.0.0.1").env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_NODENAME", &self.name).env("RABBITMQ_LOGS", "-");
        command
    }
}

impl Drop for RabbitNode {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Home {
    fn new(size: usize, configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let cluster = &Uuid::new_v4().simple().to_string()[..8];
        let members: Vec<_> = (1..=size).map(|number| format!("chaos{number}-{cluster}@localhost")).collect();
        let nodes = members.iter().zip(1..);
        let mut settings: String =
            nodes.map(|(name, at)| format!("cluster_formation.classic_config.nodes.{at} = {name}\n")).collect();
        settings.insert_str(0, "cluster_formation.peer_discovery_backend = classic_config\n");
        let settings = if size > 1 { settings } else { String::new() };
        let files = [
            ("rabbitmq.conf", settings),
            ("rabbitmq-env.conf", String::new()),
            ("advanced.config", format!("[{configuration}].\n")),
            ("enabled_plugins", "[].\n".to_owned()),
            (".erlang.cookie", cluster.to_owned()),
        ];
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        let only_mine = fs::Permissions::from_mode(0o400);
        fs::set_permissions(folder.path().join(".erlang.cookie"), only_mine).expect("a cookie of one's own");
        let epmd_port = free_port();
        let mut epmd = Command::new("epmd");
        epmd.args(["-port", &epmd_port.to_string(), "-address", "127.0.0.1"]).stdin(Stdio::null());
        let epmd = epmd.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("epmd (Debian: erlang-base)");
        let answers = || std::net::TcpStream::connect(("127.0.0.1", epmd_port)).is_ok();
        until("epmd answers", SLOW_START, answers);
        Self { folder, epmd_port, epmd, members }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(fault) = self.epmd.kill().and_then(|()| self.epmd.wait()) {
            eprintln!("epmd could not be ended: {fault}");
        }
    }
}

/// Whether a listener answers the protocol's header; it does so once the node has started in full.
fn lets_in(port: u16) -> bool {
    use std::io::{Read as _, Write as _};
    let ask = || -> std::io::Result<u8> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        Ok(first[0])
    };
    // 1: a method frame, which is connection.start.
    ask().is_ok_and(|frame| frame == 1)
}
