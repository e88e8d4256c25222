//! The real program as a process: started, signalled, waited for.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use super::eventually;

/// A command that has ended.
#[derive(Debug)]
pub struct Finished {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Finished {
    /// Asserts the exit code, and shows everything when it is another.
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// A running worker. Killed when it is dropped, so that none survives its test.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    log: PathBuf,
}

impl WorkerProcess {
    /// Starts it, with all that it prints going to `log`.
    pub fn start(mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).expect("a log file");
        let also = file.try_clone().expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(also).spawn().expect("a worker process");
        Self { child, log }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM: stop in good order.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// SIGINT: what Ctrl-C sends.
    pub fn interrupt(&self) {
        self.signal("INT");
    }

    /// SIGSTOP: it sleeps and notices nothing.
    pub fn stop(&self) {
        self.signal("STOP");
    }

    /// SIGCONT: it wakes up.
    pub fn cont(&self) {
        self.signal("CONT");
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill().expect("a process to kill");
        self.child.wait().expect("its end")
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a process of ours")
    }

    /// Waits for its end.
    pub async fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let Self { child, log } = self;
        eventually("the worker exits", deadline, async || {
            child.try_wait().expect("a process of ours").ok_or_else(|| format!("it still runs, see {}", log.display()))
        })
        .await
    }

    /// SIGTERM, and expects exit code 0.
    pub async fn end(mut self, deadline: Duration) {
        self.terminate();
        let status = self.wait_exit(deadline).await;
        assert!(status.success(), "the worker ended with {status}:\n{}", self.printed());
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.log).expect("its log")
    }

    /// The shell's own `kill`: the program of that name is not on every machine.
    fn signal(&self, name: &str) {
        let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.pid())).status();
        assert!(status.expect("a shell").success(), "SIG{name} to {}", self.pid());
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let ended = self.child.kill().and_then(|()| self.child.wait());
            if let Err(fault) = ended {
                eprintln!("worker {} could not be ended: {fault}", self.child.id());
            }
        }
    }
}
