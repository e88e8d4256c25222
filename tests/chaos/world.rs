//! Servers, proxies and workers of a run, and what can be done to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep_until};
use url::Url;

use super::crew::Worker;
use super::plan::{Effect, Fault, Kind, Service, WORKERS};
use crate::support::redis_server::free_port;
use crate::support::{Backend, Flow, Links, PostgresServer, Proxy, RabbitNode, RedisServer, Sandbox, Services};

const SLOW: Duration = Duration::from_millis(250);
/// Redeliveries since the node was started.
const REDELIVERED: &str = "maps:get(messages_redelivered_total, maps:get([{protocol, amqp091}, \
                           {queue_type, rabbit_quorum_queue}], rabbit_global_counters:overview())).";

/// See the module. What is taken down first stands first.
pub struct World {
    pub workers: Vec<Worker>,
    /// One fault at a time for each worker.
    turns: Vec<Mutex<()>>,
    links: Vec<Mutex<Proxy>>,
    pub sandbox: Arc<Sandbox>,
    redis: Mutex<RedisServer>,
    database: Mutex<PostgresServer>,
    broker: Mutex<RabbitNode>,
    redelivered: AtomicU64,
}

impl World {
    /// Servers are started, the database is migrated, the topology declared and every event kept; no worker yet.
    pub async fn start() -> Self {
        let (redis, database, broker) =
            block_in_place(|| (RedisServer::start(&[]), PostgresServer::start(), RabbitNode::start("")));
        let services = Services { database: Some(database.url()), redis: redis.url(), rabbitmq: broker.url() };
        let mut sandbox = Sandbox::on(Backend::Postgres, services).await;
        sandbox.set("log.filter", "info,sqlx=warn,sea_orm_migration=warn,lapin=off");
        sandbox.prepare().await;
        sandbox.rabbit.keep_events("events").await;
        let ports = [broker.port(), redis.port(), database.port()];
        let links = (0..WORKERS).flat_map(|_| ports.map(|port| Mutex::new(Proxy::before(port)))).collect();
        Self {
            workers: Vec::new(),
            turns: (0..WORKERS).map(|_| Mutex::default()).collect(),
            links,
            sandbox: Arc::new(sandbox),
            redis: Mutex::new(redis),
            database: Mutex::new(database),
            broker: Mutex::new(broker),
            redelivered: AtomicU64::new(0),
        }
    }

    /// Starts the workers, each with links of its own.
    pub async fn open(&mut self) {
        for worker in 0..WORKERS {
            let mut env = Vec::new();
            for service in Service::ALL {
                let (variable, key) = match service {
                    Service::Broker => ("LASTUNIT__BROKER__URL", "broker.url"),
                    Service::Redis => ("LASTUNIT__REDIS__URL", "redis.url"),
                    Service::Database => ("LASTUNIT__DATABASE__URL", "database.url"),
                };
                let port = self.link(worker, service).lock().await.port();
                let mut url = Url::parse(self.sandbox.get(key)).expect("an address");
                url.set_port(Some(port)).expect("an address with a port");
                env.push((variable, url.into()));
            }
            let admin_port = free_port();
            env.push(("LASTUNIT__ADMIN__LISTEN", format!("127.0.0.1:{admin_port}")));
            self.workers.push(Worker::start(Arc::clone(&self.sandbox), env, admin_port));
        }
    }

    /// Does it, and returns when it is gone.
    pub async fn suffer(&self, Fault { kind, lasts, .. }: Fault) {
        match kind {
            Kind::Kill(worker) => {
                let _turn = self.turns[worker].lock().await;
                self.workers[worker].kill();
            }
            Kind::Pause(worker) => {
                let _turn = self.turns[worker].lock().await;
                self.workers[worker].stop();
                after(lasts).await;
                self.workers[worker].cont();
            }
            Kind::Terminate(worker) => self.terminate(worker).await,
            Kind::Roll => {
                for worker in 0..WORKERS {
                    self.terminate(worker).await;
                }
            }
            Kind::Flush => self.redis.lock().await.command(&["FLUSHALL"]).await,
            Kind::RedisCrash => {
                let mut redis = self.redis.lock().await;
                redis.kill();
                after(lasts).await;
                block_in_place(|| redis.resume());
            }
            Kind::DatabaseCrash => {
                let mut database = self.database.lock().await;
                block_in_place(|| database.crash());
                after(lasts).await;
                block_in_place(|| database.resume());
            }
            Kind::BrokerCrash => {
                let mut broker = self.broker.lock().await;
                self.count_redeliveries(&broker);
                block_in_place(|| broker.kill());
                after(lasts).await;
                block_in_place(|| broker.resume());
            }
            Kind::Link(worker, service, effect) => {
                disturb(&*self.link(worker, service).lock().await, effect, lasts).await
            }
        }
    }

    async fn terminate(&self, worker: usize) {
        let _turn = self.turns[worker].lock().await;
        self.workers[worker].terminate().await;
    }

    /// Deliveries of a message that had been delivered before.
    pub async fn redelivered(&self) -> u64 {
        self.count_redeliveries(&*self.broker.lock().await);
        self.redelivered.load(Ordering::Relaxed)
    }

    /// The node forgets its count when it is killed.
    fn count_redeliveries(&self, broker: &RabbitNode) {
        let count: u64 = block_in_place(|| broker.eval(REDELIVERED)).parse().expect("a number");
        self.redelivered.fetch_add(count, Ordering::Relaxed);
    }

    fn link(&self, worker: usize, service: Service) -> &Mutex<Proxy> {
        &self.links[worker * Service::ALL.len() + service as usize]
    }
}

async fn disturb(proxy: &Proxy, effect: Effect, lasts: Duration) {
    let one_way = |up, down| Links { up, down, refused: false };
    match effect {
        Effect::Cut => proxy.cut(),
        Effect::Refused => proxy.close(),
        Effect::HeldUp => proxy.set(one_way(Flow::Held, Flow::Passes)),
        Effect::HeldDown => proxy.set(one_way(Flow::Passes, Flow::Held)),
        Effect::Held => proxy.set(Links::HELD),
        Effect::Slow => proxy.set(one_way(Flow::Slow(SLOW), Flow::Slow(SLOW))),
    }
    after(lasts).await;
    if effect == Effect::Held {
        // What a network swallowed in both directions for so long does not come back.
        proxy.cut();
    }
    proxy.set(Links::OPEN);
}

/// The fault's own time, which is what the plan says, and nothing else is waited for.
async fn after(lasts: Duration) {
    sleep_until(Instant::now() + lasts).await;
}
