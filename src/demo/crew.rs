//! The program itself as other processes: the commands that a user would type, and the workers.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

use super::Error;

/// A worker that takes longer to finish its work is killed; what it leaves comes again.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// Starts the current program with the demo's own settings.
#[derive(Debug)]
pub struct Crew {
    program: PathBuf,
    /// `--config FILE`, when the demo was given one.
    config: Vec<OsString>,
    /// `LASTUNIT__*` variables.
    env: Vec<(&'static str, String)>,
    workers: Vec<Child>,
}

impl Crew {
    /// A crew whose processes read the demo's settings, with `env` over them.
    ///
    /// # Errors
    /// [`Error::Process`] when the program's own file is not known.
    pub fn new(env: Vec<(&'static str, String)>) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(|source| Error::Process { what: "this program", source })?;
        Ok(Self { program, config: config_option(std::env::args_os()), env, workers: Vec::new() })
    }

    /// Runs a command to its end and returns what it printed.
    ///
    /// # Errors
    /// [`Error::Step`] when it fails, with what it said.
    pub async fn run(&self, arguments: &[&str]) -> Result<Output, Error> {
        let output = self.output(arguments).await?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("lastunit: ").to_owned();
        // None: a signal ended it.
        let code = output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        Err(Error::Step { command: arguments.join(" "), said, code })
    }

    /// Runs a command to its end, whatever its exit code.
    ///
    /// # Errors
    /// [`Error::Process`] when it cannot be started.
    pub async fn output(&self, arguments: &[&str]) -> Result<Output, Error> {
        let running = self.command(arguments).stdin(Stdio::null()).output().await;
        running.map_err(|source| Error::Process { what: "a command", source })
    }

    /// Starts a worker.
    ///
    /// # Errors
    /// [`Error::Process`] when it cannot be started.
    pub fn start_worker(&mut self) -> Result<(), Error> {
        self.start(&["worker"])
    }

    /// Starts a command that runs until it is sent home with the workers.
    ///
    /// # Errors
    /// [`Error::Process`] when it cannot be started.
    pub fn start(&mut self, arguments: &[&str]) -> Result<(), Error> {
        // Warnings and errors of a worker are part of what a person should see.
        let worker = self.command(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        self.workers.push(worker.map_err(|source| Error::Process { what: "a worker", source })?);
        Ok(())
    }

    /// The ids of the workers' processes, as long as they run.
    pub fn process_ids(&self) -> Vec<u32> {
        self.workers.iter().filter_map(Child::id).collect()
    }

    /// Says which worker has ended by itself.
    ///
    /// # Errors
    /// [`Error::WorkerEnded`]: none should.
    pub fn check(&mut self) -> Result<(), Error> {
        for worker in &mut self.workers {
            if let Some(status) = worker.try_wait().map_err(|source| Error::Process { what: "a worker", source })? {
                return Err(Error::WorkerEnded(status));
            }
        }
        Ok(())
    }

    /// Sends the workers home in good order.
    ///
    /// # Errors
    /// [`Error::WorkerEnded`] with the first bad exit status.
    pub async fn stop(&mut self) -> Result<(), Error> {
        for worker in &self.workers {
            terminate(worker).await?;
        }
        let mut ended = Ok(());
        for mut worker in self.workers.drain(..) {
            let waited = tokio::time::timeout(DRAIN_LIMIT, worker.wait()).await;
            let status = match waited {
                Ok(status) => status.map_err(|source| Error::Process { what: "a worker", source })?,
                Err(_) => return Err(Error::WorkerHangs(DRAIN_LIMIT)),
            };
            if !status.success() && ended.is_ok() {
                ended = Err(Error::WorkerEnded(status));
            }
        }
        ended
    }

    /// No process outlives the demo, whatever way it ends.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.config).args(arguments).kill_on_drop(true);
        command.envs(self.env.iter().map(|(variable, value)| (variable, value)));
        command
    }
}

/// SIGTERM by way of the shell: the standard library only knows SIGKILL.
async fn terminate(worker: &Child) -> Result<(), Error> {
    // `None`: it has ended already, and `wait` tells how.
    let Some(pid) = worker.id() else { return Ok(()) };
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("kill -TERM {pid}")).stderr(Stdio::null());
    let sent = shell.status().await.map_err(|source| Error::Process { what: "sh", source })?;
    // It may have ended in between; `wait` tells how.
    tracing::debug!(pid, delivered = sent.success(), "asked a worker to stop");
    Ok(())
}

/// The demo's own `--config FILE`, as its processes need it too.
fn config_option(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--config" {
            return [Some(argument), arguments.next()].into_iter().flatten().collect();
        }
        if argument.to_string_lossy().starts_with("--config=") {
            return vec![argument];
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(arguments: &[&str]) -> Vec<OsString> {
        config_option(arguments.iter().map(OsString::from))
    }

    #[test]
    fn the_settings_file_is_handed_on_in_either_form() {
        assert_eq!(found(&["lastunit", "--config", "a.toml", "demo"]), ["--config", "a.toml"]);
        assert_eq!(found(&["lastunit", "demo", "--config=a.toml"]), ["--config=a.toml"]);
        assert!(found(&["lastunit", "demo", "--units", "1"]).is_empty());
    }
}
