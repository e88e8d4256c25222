//! Private servers, for what the shared ones must not have: TLS, users, passwords.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::redis_server::free_port;
use crate::support::wait::until;
use crate::support::{Certificates, SOON};

/// Processes with a folder and ports of their own; all are gone when this is dropped.
pub struct Server {
    folder: TempDir,
    pub port: u16,
    children: Vec<Child>,
}

impl Server {
    fn prepare() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // A server with a user of its own must reach its files.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a readable folder");
        Self { folder, port: free_port(), children: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("a file");
        self.path(name).display().to_string()
    }

    fn launch(&mut self, mut command: Command) {
        let log = File::create(self.path("log")).expect("a log file");
        let also = log.try_clone().expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(log).stderr(also).spawn();
        self.children.push(child.unwrap_or_else(|fault| panic!("{command:?}: {fault}")));
    }

    fn wait(&self, what: &str, answers: impl Fn() -> bool) {
        let log = self.path("log");
        until(&format!("{what} answers, see {}", log.display()), SOON, answers);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            if let Err(fault) = child.kill().and_then(|()| child.wait().map(drop)) {
                eprintln!("process {} could not be ended: {fault}", child.id());
            }
        }
    }
}

/// PostgreSQL with TLS and these lines of `pg_hba.conf`; the superuser is `postgres` with this password.
pub fn postgres(certificates: &Certificates, access: &str, password: &str) -> Server {
    let mut server = Server::prepare();
    let programs = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL (Debian: postgresql)");
    let programs = programs.map(|version| version.expect("a folder").path().join("bin"));
    let programs = programs.filter(|folder| folder.join("initdb").exists()).max().expect("PostgreSQL's programs");
    let (data, secret) = (server.path("data"), server.write("password", password));
    // It refuses to run as root, and a key that others may read.
    let script = r#"
        as_user() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --init-groups "$@"; else "$@"; fi; }
        mkdir -p "$1"; [ "$(id -u)" != 0 ] || chown postgres "$1"; cd "$1"
        as_user "$2/initdb" -D "$1" -U postgres -A scram-sha-256 --pwfile="$3" -E UTF8 --no-locale -N
        for file in ca.crt server.crt server.key; do as_user install -m 600 "$4/$file" "$1/$file"; done
        printf '%s\n' "$5" > "$1/pg_hba.conf""#;
    let initialise = [data.as_path(), &programs, Path::new(&secret), certificates.folder(), Path::new(access)];
    succeed(Command::new("bash").args(["-ec", script, "initialise"]).args(initialise));
    let mut command = as_user("postgres", &programs.join("postgres"));
    command.current_dir("/").arg("-D").arg(&data).args(["-p", &server.port.to_string()]);
    for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "ssl=on", "ssl_ca_file=ca.crt"] {
        command.args(["-c", setting]);
    }
    command.args(["-c", "ssl_cert_file=server.crt", "-c", "ssl_key_file=server.key"]);
    server.launch(command);
    let port = server.port.to_string();
    server.wait("PostgreSQL", || {
        let mut asked = Command::new(programs.join("pg_isready"));
        asked.args(["-q", "-h", "127.0.0.1", "-p", &port]).status().is_ok_and(|status| status.success())
    });
    server
}

/// MariaDB with TLS, and these statements run at its start, each on its line.
pub fn mariadb(certificates: &Certificates, statements: &str) -> Server {
    let mut server = Server::prepare();
    let user = if is_root() { "root".to_owned() } else { std::env::var("USER").unwrap_or_default() };
    let (user, data) = (format!("--user={user}"), format!("--datadir={}", server.path("data").display()));
    fs::create_dir(server.path("data")).expect("a folder");
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", &user, &data, "--auth-root-authentication-method=normal", "--skip-test-db"]);
    succeed(&mut install);
    let file = server.write("start.sql", statements);
    let mut command = Command::new("mariadbd");
    command.args([
        "--no-defaults",
        &user,
        &data,
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        &format!("--init-file={file}"),
    ]);
    let socket = server.path("socket").display().to_string();
    command.args([format!("--port={}", server.port), format!("--socket={socket}")]);
    command.arg(format!("--pid-file={}", server.path("pid").display()));
    for (option, file) in [("ca", "ca.crt"), ("cert", "server.crt"), ("key", "server.key")] {
        command.arg(format!("--ssl-{option}={}", certificates.path(file)));
    }
    server.launch(command);
    server.wait("MariaDB", || {
        let mut asked = Command::new("mariadb-admin");
        asked.args(["--no-defaults", "-u", "root", &format!("--socket={socket}"), "ping"]).stderr(Stdio::null());
        asked.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    });
    server
}

/// RabbitMQ: a node that stands alone, for clients on one port, and for those with TLS and a certificate on another.
pub struct RabbitMq {
    server: Server,
    epmd_port: u16,
    pub tls_port: u16,
}

impl RabbitMq {
    pub fn start(certificates: &Certificates) -> Self {
        let (server, epmd_port, tls_port) = (Server::prepare(), free_port(), free_port());
        let mut node = Self { server, epmd_port, tls_port };
        node.server.write(
            "rabbitmq.conf",
            &format!(
                "listeners.ssl.1 = 127.0.0.1:{tls_port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
             ssl_options.keyfile = {}\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n",
                certificates.path("ca.crt"),
                certificates.path("server.crt"),
                certificates.path("server.key")
            ),
        );
        node.server.write("enabled_plugins", "[].\n");
        node.server.write("rabbitmq-env.conf", "");
        let cookie = node.server.write(".erlang.cookie", &uuid::Uuid::new_v4().simple().to_string());
        fs::set_permissions(cookie, fs::Permissions::from_mode(0o400)).expect("a cookie of one's own");
        // Started by the node it would outlive it.
        let mut epmd = Command::new("epmd");
        epmd.args(["-port", &epmd_port.to_string(), "-address", "127.0.0.1"]);
        node.server.launch(epmd);
        node.server.wait("epmd", || std::net::TcpStream::connect(("127.0.0.1", epmd_port)).is_ok());
        let mut command = node.program("rabbitmq-server");
        // The node itself then takes the place of the script that starts it.
        command.env("RUNNING_UNDER_SYSTEMD", "true").env("RABBITMQ_DIST_PORT", free_port().to_string());
        node.server.launch(command);
        node.server.wait("RabbitMQ", || std::net::TcpStream::connect(("127.0.0.1", tls_port)).is_ok());
        node
    }

    /// `amqp://` for a user, or `amqps://`.
    pub fn url(&self, login: &str, is_tls: bool) -> String {
        let (scheme, port) = if is_tls { ("amqps", self.tls_port) } else { ("amqp", self.server.port) };
        format!("{scheme}://{login}@localhost:{port}/%2f")
    }

    /// `rabbitmqctl` with these arguments.
    pub fn ctl(&self, arguments: &[&str]) {
        succeed(self.program("rabbitmqctl").args(arguments));
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(format!("/usr/lib/rabbitmq/bin/{name}"));
        let node = format!("security{}@localhost", self.server.port);
        command.env("HOME", self.server.path("")).env("RABBITMQ_NODENAME", node).env("RABBITMQ_LOGS", "-");
        for (variable, file) in [
            ("RABBITMQ_MNESIA_BASE", "data"),
            ("RABBITMQ_LOG_BASE", "logs"),
            ("RABBITMQ_CONF_ENV_FILE", "rabbitmq-env.conf"),
            ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
        ] {
            command.env(variable, self.server.path(file));
        }
        command.env("ERL_EPMD_PORT", self.epmd_port.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_NODE_PORT", self.server.port.to_string()).env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
        command
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("/proc").uid() == 0
}

/// A server's program, under the server's user where the test runs as root.
fn as_user(user: &str, program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--init-groups", "--"]).arg(program);
    command
}

fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|fault| panic!("{command:?}: {fault}"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
}
