//! An environment for one test: its own database, key prefix and name prefix, gone afterwards.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tempfile::TempDir;
use uuid::Uuid;

use super::wait::equal;
use super::{Backend, Finished, Rabbit, SOON, Sql, WorkerProcess, eventually, setting};

const EXCHANGES: [&str; 3] = ["orders", "outcomes", "dead"];
const QUEUES: [&str; 4] = ["orders", "dead.lost-race", "dead.invalid", "dead.failed"];
/// The delay queues of the tests: waiting is what they are not about.
const DELAYS_MS: [u64; 2] = [200, 1000];
/// Of a log, shown when a test fails.
const LOG_LINES: usize = 40;
/// So many logs are shown, the newest.
const LOGS: u32 = 12;

/// Where a sandbox's services are.
#[derive(Clone, Debug)]
pub struct Services {
    /// The database server; none for an embedded database.
    pub database: Option<String>,
    pub redis: String,
    pub rabbitmq: String,
}

impl Services {
    /// The shared ones: no test may flush, restart or reconfigure them.
    pub fn shared(backend: Backend) -> Self {
        Self {
            database: backend.server(),
            redis: setting("LASTUNIT_TEST_REDIS_URL", "redis://127.0.0.1:6379"),
            rabbitmq: setting("LASTUNIT_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/%2f"),
        }
    }
}

/// See the module.
pub struct Sandbox {
    name: String,
    backend: Backend,
    services: Services,
    /// The database itself, whatever stands between it and the processes.
    database: String,
    folder: TempDir,
    settings: BTreeMap<String, String>,
    workers: AtomicU32,
    /// The test's own AMQP client.
    pub rabbit: Rabbit,
}

impl Sandbox {
    /// An empty database, and names that nobody else uses. Nothing is migrated or declared yet.
    pub async fn empty(backend: Backend) -> Self {
        Self::on(backend, Services::shared(backend)).await
    }

    /// The same on other services than the shared ones.
    pub async fn on(backend: Backend, services: Services) -> Self {
        let name = format!("lastunit_test_{}", &Uuid::new_v4().simple().to_string()[..12]);
        let folder = TempDir::new().expect("a folder");
        let database = backend.create(services.database.as_deref(), &name, folder.path()).await;
        let delays = DELAYS_MS.map(|delay| delay.to_string()).join(",");
        let settings = [
            ("database.url", database.as_str()),
            ("redis.url", &services.redis),
            ("redis.key_prefix", &name),
            ("broker.url", &services.rabbitmq),
            ("broker.name_prefix", &name),
            ("retry.delays_ms", &delays),
            ("log.filter", "info,lastunit=debug,sqlx=warn,sea_orm_migration=warn,lapin=warn"),
        ];
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let rabbit = Rabbit::connect(&services.rabbitmq, &name).await;
        let workers = AtomicU32::new(0);
        Self { name, backend, services, database, folder, settings, workers, rabbit }
    }

    /// Migrated and declared: ready for workers.
    pub async fn ready(backend: Backend) -> Self {
        let sandbox = Self::empty(backend).await;
        sandbox.prepare().await;
        sandbox
    }

    /// Migrates and declares.
    pub async fn prepare(&self) {
        self.run(&["migrate", "up"]).await.expect_code(0);
        self.run(&["topology"]).await.expect_code(0);
    }

    /// Changes a setting for the processes started from now on: `lease.ttl_ms`.
    pub fn set(&mut self, key: &str, value: impl ToString) {
        self.settings.insert(key.to_owned(), value.to_string());
    }

    /// A setting's value.
    pub fn get(&self, key: &str) -> &str {
        &self.settings[key]
    }

    /// The environment of a process of this sandbox.
    pub fn env(&self) -> Vec<(String, String)> {
        let variable = |key: &str| format!("LASTUNIT__{}", key.replace('.', "__").to_uppercase());
        self.settings.iter().map(|(key, value)| (variable(key), value.clone())).collect()
    }

    /// The program (the one that `LASTUNIT_BIN` names, or the one built with the tests) with these arguments and this
    /// sandbox's environment alone.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(setting("LASTUNIT_BIN", env!("CARGO_BIN_EXE_lastunit")));
        for (variable, _) in env::vars_os() {
            let name = variable.to_string_lossy();
            if ["LASTUNIT_", "OTEL_"].iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(variable);
            }
        }
        command.args(arguments).envs(self.env()).current_dir(self.folder.path());
        command
    }

    /// Runs the program to its end.
    pub async fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command(arguments);
        let running = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output());
        running.await.expect("no panic").expect("the program starts").into()
    }

    /// Starts a worker process.
    pub fn worker(&self) -> WorkerProcess {
        self.start(self.command(&["worker"]))
    }

    /// Starts a worker process from a [`Sandbox::command`] that was changed.
    pub fn start(&self, command: Command) -> WorkerProcess {
        let number = self.workers.fetch_add(1, Ordering::Relaxed) + 1;
        let log = self.folder.path().join(format!("worker-{number}.log"));
        WorkerProcess::start(command, log)
    }

    /// Starts workers and waits until all of them consume: from here a rush is a race.
    pub async fn workers(&self, count: u32) -> Vec<WorkerProcess> {
        let before = self.rabbit.consumers("orders").await;
        let workers: Vec<_> = (0..count).map(|_| self.worker()).collect();
        eventually("all workers consume", SOON, async || equal(self.rabbit.consumers("orders").await, before + count))
            .await;
        workers
    }

    /// Stops workers in good order; nothing may be left in the queue.
    pub async fn finish(&self, workers: Vec<WorkerProcess>) {
        for worker in workers {
            worker.end(SOON).await;
        }
        eventually("the orders queue is empty", SOON, async || equal(self.rabbit.count("orders").await, 0)).await;
    }

    /// Puts units on the shelf.
    pub async fn stock(&self, sku: &str, units: u32) {
        self.run(&["stock", "set", sku, &units.to_string()]).await.expect_code(0);
    }

    /// `lastunit audit` finds nothing.
    pub async fn audit(&self) {
        self.run(&["audit"]).await.expect_code(0);
    }

    /// A connection to the sandbox's database.
    pub async fn sql(&self) -> Sql {
        Sql::connect(&self.database, self.backend).await
    }

    /// The folder in which its processes run.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Shows the ends of the newest logs.
    pub fn print_logs(&self) {
        let newest = self.workers.load(Ordering::Relaxed);
        for number in newest.saturating_sub(LOGS) + 1..=newest {
            let log = self.folder.path().join(format!("worker-{number}.log"));
            let text = fs::read_to_string(&log).unwrap_or_else(|fault| fault.to_string());
            let lines: Vec<_> = text.lines().collect();
            eprintln!("--- {}, its last lines:", log.display());
            lines[lines.len().saturating_sub(LOG_LINES)..].iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

impl Drop for Sandbox {
    /// In a thread with a runtime of its own: a destructor cannot await.
    fn drop(&mut self) {
        if thread::panicking() {
            self.print_logs();
        }
        let (name, backend, services) = (self.name.clone(), self.backend, self.services.clone());
        let delays = self.get("retry.delays_ms").split(',').map(|delay| format!("retry.{delay}"));
        let queues: Vec<_> = QUEUES.map(str::to_owned).into_iter().chain(delays).collect();
        let cleaned = thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(clean(&name, backend, &services, &queues));
        });
        if cleaned.join().is_err() {
            eprintln!("{} could not be cleaned up in full", self.name);
        }
    }
}

/// A server that the test has taken away has nothing left to clean.
async fn clean(name: &str, backend: Backend, services: &Services, queues: &[String]) {
    if let Err(fault) = backend.destroy(services.database.as_deref(), name).await {
        eprintln!("{name}: the database was not dropped: {fault}");
    }
    if let Err(fault) = delete_keys(&services.redis, name).await {
        eprintln!("{name}: keys were not deleted: {fault}");
    }
    if let Err(fault) = Rabbit::connect(&services.rabbitmq, name).await.delete(&EXCHANGES, queues).await {
        eprintln!("{name}: queues were not deleted: {fault}");
    }
}

async fn delete_keys(url: &str, prefix: &str) -> redis::RedisResult<()> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{prefix}:*")).arg("COUNT").arg(10_000);
        let (next, keys): (u64, Vec<String>) = scan.query_async(&mut connection).await?;
        if !keys.is_empty() {
            redis::cmd("UNLINK").arg(keys).query_async::<()>(&mut connection).await?;
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}
