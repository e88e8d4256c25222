//! A MariaDB server of a test's own, for what must not be done to a shared one: make it read-only, fill its disk.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::SOON;
use super::redis_server::free_port;
use super::wait::until;

/// Enough for an empty server, and filled at once.
const SMALL_DISK: &str = "64m";
/// Makes the disk, if it is to be one, and the database's files, if there are none; then becomes the server.
const SCRIPT: &str = r#"
    folder=$1 disk=$2 port=$3; shift 3
    [ -z "$disk" ] || mount -t tmpfs -o "size=$disk" tmpfs "$folder"
    set -- --no-defaults "--user=$(id -un)" "--datadir=$folder/data" --innodb-log-file-size=4M "$@"
    if [ ! -d "$folder/data" ]; then
        mkdir "$folder/data"
        mariadb-install-db "$@" --auth-root-authentication-method=normal --skip-test-db
    fi
    exec mariadbd "$@" --bind-address=127.0.0.1 "--port=$port" "--socket=$folder/socket" "--pid-file=$folder/pid" \
        --skip-name-resolve --innodb-buffer-pool-size=32M"#;

/// A running server with a folder of its own; both are gone when this is dropped.
pub struct MariaDbServer {
    folder: TempDir,
    log: PathBuf,
    /// The size of its disk; empty where it has none of its own.
    disk: &'static str,
    port: u16,
    child: Option<Child>,
}

impl MariaDbServer {
    /// Makes the files and starts it.
    pub fn start() -> Self {
        let mut server = Self::prepare("");
        server.resume(&[]);
        server
    }

    /// The same on a small disk of its own, which nobody else sees. `None`, with a line that says so, where this process may
    /// make none.
    pub fn on_small_disk() -> Option<Self> {
        if !unshared().arg("true").status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: needs the right to mount (root's, or user namespaces)");
            return None;
        }
        let mut server = Self::prepare(SMALL_DISK);
        server.resume(&[]);
        Some(server)
    }

    fn prepare(disk: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Not on its disk.
        let log = folder.path().with_extension("log");
        Self { folder, log, disk, port: free_port(), child: None }
    }

    /// The maintenance database, as the user who may do everything.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/mysql", self.port)
    }

    /// Stops it in good order, if it runs, and starts it with these options, on the same port and folder. A small disk would
    /// be gone.
    pub fn resume(&mut self, options: &[&str]) {
        if let Some(mut child) = self.child.take() {
            let told = Command::new("sh").arg("-c").arg(format!("kill -TERM {}", child.id())).status();
            assert!(told.expect("a shell").success());
            child.wait().expect("its end");
        }
        let file = File::options().create(true).append(true).open(&self.log).expect("a log file");
        let also = file.try_clone().expect("a log file");
        let mut command = if self.disk.is_empty() { Command::new("env") } else { unshared() };
        command.args(["sh", "-ec", SCRIPT, "mariadb"]).arg(self.folder.path());
        command.args([self.disk, &self.port.to_string()]).args(options).current_dir("/");
        command.stdin(Stdio::null()).stdout(file).stderr(also);
        self.child = Some(command.spawn().expect("mariadbd (Debian: mariadb-server)"));
        let port = format!("--port={}", self.port);
        until(&format!("MariaDB answers, see {}", self.log.display()), SOON, || {
            let mut asked = Command::new("mariadb-admin");
            asked.args(["--no-defaults", "--host=127.0.0.1", &port, "--user=root", "ping"]);
            asked.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("mariadb-admin").success()
        });
    }

    /// Leaves no room on its disk.
    pub fn fill_disk(&self) {
        let mut file = File::create(self.filler()).expect("a file on its disk");
        let fault = std::io::copy(&mut std::io::repeat(0), &mut file).expect_err("a full disk");
        assert_eq!(fault.kind(), ErrorKind::StorageFull);
    }

    /// Makes room again.
    pub fn empty_disk(&self) {
        fs::remove_file(self.filler()).expect("a file on its disk");
    }

    /// Only the server's own processes see its disk.
    fn filler(&self) -> PathBuf {
        let id = self.child.as_ref().expect("a running server").id();
        PathBuf::from(format!("/proc/{id}/root{}/filler", self.folder.path().display()))
    }
}

impl Drop for MariaDbServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a process of ours");
            child.wait().expect("its end");
        }
        if !std::thread::panicking() {
            drop(fs::remove_file(&self.log));
        }
    }
}

/// Runs a program with mounts of its own, which end with it.
fn unshared() -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", if super::postgres_server::is_root() { "--propagation=private" } else { "--map-root-user" }]);
    command.arg("--");
    command
}
