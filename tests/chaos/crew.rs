//! A worker process and its supervisor, which starts it again as soon as it has ended.

use std::collections::BTreeMap;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::support::{Sandbox, WorkerProcess};

/// A service did not answer within `startup.wait_ms`: it is started again until one does.
const UNAVAILABLE: i32 = 69;
/// `shutdown.grace_ms`, and the time to start.
const TERMINATION: Duration = Duration::from_secs(60);

/// One of the workers, whatever process it is at the moment.
pub struct Worker {
    sandbox: Arc<Sandbox>,
    /// What leads through its own links.
    env: Vec<(&'static str, String)>,
    admin_port: u16,
    state: Mutex<State>,
    /// How often it was started.
    starts: watch::Sender<u64>,
}

struct State {
    process: WorkerProcess,
    /// Whether it was told to end.
    told: bool,
    exits: BTreeMap<String, u64>,
    unexpected: Vec<ExitStatus>,
}

impl Worker {
    /// Starts it.
    pub fn start(sandbox: Arc<Sandbox>, env: Vec<(&'static str, String)>, admin_port: u16) -> Self {
        let process = sandbox.start(command(&sandbox, &env));
        let state = State { process, told: false, exits: BTreeMap::new(), unexpected: Vec::new() };
        Self { sandbox, env, admin_port, state: Mutex::new(state), starts: watch::Sender::new(1) }
    }

    /// Where it tells whether it is ready, on this host.
    pub fn admin_port(&self) -> u16 {
        self.admin_port
    }

    /// SIGKILL; it is started again at once.
    pub fn kill(&self) {
        let mut state = self.state();
        state.process.kill();
        self.restart(&mut state);
    }

    /// SIGSTOP
    pub fn stop(&self) {
        self.state().process.stop();
    }

    /// SIGCONT
    pub fn cont(&self) {
        self.state().process.cont();
    }

    /// SIGTERM, and waits until the next one was started.
    pub async fn terminate(&self) {
        let mut starts = self.starts.subscribe();
        starts.mark_unchanged();
        self.tell();
        let started = timeout(TERMINATION, starts.changed()).await;
        started.expect("a worker that was told to end does so").expect("a supervisor");
    }

    fn tell(&self) {
        let mut state = self.state();
        state.told = true;
        state.process.terminate();
    }

    /// What a supervisor does all the time: starts it again when it has ended.
    pub fn supervise(&self) {
        let mut state = self.state();
        let Some(status) = state.process.exited() else { return };
        *state.exits.entry(status.to_string()).or_default() += 1;
        if !state.told && status.code() != Some(UNAVAILABLE) {
            state.unexpected.push(status);
        }
        self.restart(&mut state);
    }

    /// SIGTERM for good. Returns how often each exit status was seen.
    ///
    /// # Panics
    /// When one of its processes ended by itself.
    pub async fn end(self, deadline: Duration) -> BTreeMap<String, u64> {
        let state = self.state.into_inner().expect("no panic in here");
        assert_eq!(state.unexpected, [], "a worker ended by itself");
        state.process.end(deadline).await;
        state.exits
    }

    fn restart(&self, state: &mut State) {
        state.process = self.sandbox.start(command(&self.sandbox, &self.env));
        self.starts.send_modify(|starts| *starts += 1);
        state.told = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic in here")
    }
}

fn command(sandbox: &Sandbox, env: &[(&'static str, String)]) -> Command {
    let mut command = sandbox.command(&["worker"]);
    command.envs(env.iter().map(|(variable, value)| (variable, value)));
    command
}
