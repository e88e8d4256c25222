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

/// See the module.
pub struct Sandbox {
    name: String,
    backend: Backend,
    folder: TempDir,
    settings: BTreeMap<String, String>,
    workers: AtomicU32,
    /// The test's own AMQP client.
    pub rabbit: Rabbit,
}

impl Sandbox {
    /// An empty database, and names that nobody else uses. Nothing is migrated or declared yet.
    pub async fn empty(backend: Backend) -> Self {
        let name = format!("lastunit_test_{}", &Uuid::new_v4().simple().to_string()[..12]);
        let folder = TempDir::new().expect("a folder");
        let amqp = setting("LASTUNIT_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/%2f");
        let redis = setting("LASTUNIT_TEST_REDIS_URL", "redis://127.0.0.1:6379");
        let database = backend.create(&name, folder.path()).await;
        let delays = DELAYS_MS.map(|delay| delay.to_string()).join(",");
        let settings = [
            ("database.url", database.as_str()),
            ("redis.url", &redis),
            ("redis.key_prefix", &name),
            ("broker.url", &amqp),
            ("broker.name_prefix", &name),
            ("retry.delays_ms", &delays),
            ("log.filter", "info,lastunit=debug,sqlx=warn,sea_orm_migration=warn,lapin=warn"),
        ];
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let rabbit = Rabbit::connect(&amqp, &name).await;
        Self { name, backend, folder, settings, workers: AtomicU32::new(0), rabbit }
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

    /// The program with these arguments and this sandbox's environment alone.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lastunit"));
        for (variable, _) in env::vars_os() {
            if variable.to_string_lossy().starts_with("LASTUNIT_") {
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
        let number = self.workers.fetch_add(1, Ordering::Relaxed) + 1;
        let log = self.folder.path().join(format!("worker-{number}.log"));
        WorkerProcess::start(self.command(&["worker"]), log)
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
        Sql::connect(self.get("database.url"), self.backend).await
    }

    /// The folder in which its processes run.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    fn print_logs(&self) {
        for number in 1..=self.workers.load(Ordering::Relaxed) {
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
        let (name, backend) = (self.name.clone(), self.backend);
        let (amqp, redis) = (self.get("broker.url").to_owned(), self.get("redis.url").to_owned());
        let cleaned = thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(clean(&name, backend, &amqp, &redis));
        });
        if cleaned.join().is_err() {
            eprintln!("{} could not be cleaned up in full", self.name);
        }
    }
}

/// A server that the test has taken away has nothing left to clean.
async fn clean(name: &str, backend: Backend, amqp: &str, redis: &str) {
    if let Err(fault) = backend.destroy(name).await {
        eprintln!("{name}: the database was not dropped: {fault}");
    }
    if let Err(fault) = delete_keys(redis, name).await {
        eprintln!("{name}: keys were not deleted: {fault}");
    }
    let queues = QUEUES.iter().map(|queue| (*queue).to_owned());
    let queues: Vec<_> = queues.chain(DELAYS_MS.map(|delay| format!("retry.{delay}"))).collect();
    if let Err(fault) = Rabbit::connect(amqp, name).await.delete(&EXCHANGES, &queues).await {
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
