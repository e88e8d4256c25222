//! A PostgreSQL cluster of a test's own, for what must not be done to a shared one: crash, fill the disk.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::SOON;
use super::redis_server::free_port;
use super::wait::until;

/// The user whose rights the server has when the test has root's, which it refuses.
const USER: &str = "postgres";

/// A running cluster with a folder of its own; both are gone when this is dropped.
pub struct PostgresServer {
    programs: PathBuf,
    folder: TempDir,
    port: u16,
    child: Option<Child>,
}

impl PostgresServer {
    /// Makes a cluster and starts it.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut server = Self { programs: programs(), folder, port: free_port(), child: None };
        let mut own = Command::new("sh");
        own.arg("-c").arg(r#"chmod 755 "$0" && mkdir "$0/data" && { [ -z "$1" ] || chown "$1" "$0/data"; }"#);
        succeed(own.arg(server.folder.path()).arg(if is_root() { USER } else { "" }));
        let mut initdb = server.program("initdb");
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N", "-D"]).arg(server.data());
        succeed(&mut initdb);
        server.resume();
        server
    }

    /// The maintenance database, as the superuser.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The cluster's files.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// `pg_ctl stop -m immediate`: what a crash leaves behind, at once.
    pub fn crash(&mut self) {
        if let Some(mut child) = self.child.take() {
            succeed(Command::new("sh").arg("-c").arg(format!("kill -QUIT {}", child.id())));
            child.wait().expect("its end");
        }
    }

    /// Starts it again, and waits until it has recovered.
    pub fn resume(&mut self) {
        self.crash();
        let log = self.folder.path().join("log");
        let file = File::options().create(true).append(true).open(&log).expect("a log file");
        let also = file.try_clone().expect("a log file");
        let mut postgres = self.program("postgres");
        postgres.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        postgres.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c"]);
        postgres.arg("max_connections=200").stdin(Stdio::null()).stdout(file).stderr(also);
        self.child = Some(postgres.spawn().expect("postgres (Debian: postgresql)"));
        let port = self.port.to_string();
        let mut asked = Command::new(self.programs.join("pg_isready"));
        asked.args(["-q", "-h", "127.0.0.1", "-p", &port]).current_dir("/");
        let asked = std::cell::RefCell::new(asked);
        until(&format!("PostgreSQL answers, see {}", log.display()), SOON, || {
            asked.borrow_mut().status().expect("pg_isready").success()
        });
    }

    /// A program of the server's, with the rights that the server has.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", USER, "--regid", USER, "--init-groups", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir("/");
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.crash();
    }
}

/// Debian keeps the server's programs out of `PATH`, one folder for each version.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL (Debian: postgresql)");
    let folders = versions.map(|version| version.expect("a version").path().join("bin"));
    folders.filter(|folder| folder.join("initdb").exists()).max().expect("initdb (Debian: postgresql)")
}

pub fn is_root() -> bool {
    fs::metadata(Path::new("/proc/self")).expect("/proc").uid() == 0
}

fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("a program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
}
