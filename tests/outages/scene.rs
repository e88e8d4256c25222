//! A worker that works, an outage, and what must be true during it and after it.

use std::process::Command;
use std::time::Duration;

use url::Url;

use crate::support::rabbit::Listener;
use crate::support::verdicts::{expect_recorded, verdicts_of};
use crate::support::wait::equal;
use crate::support::{Backend, Links, Proxy, SOON, Sandbox, Services, WorkerProcess, eventually};

/// What everybody wants. There is enough of it.
pub const SKU: &str = "SNKR-42";
/// Orders sent at a time.
pub const ORDERS: usize = 60;
/// An order in a delay queue would stay there: an attempt that was burnt cannot be overlooked.
const DELAY_MS: u64 = 600_000;
/// Going on by itself "within seconds": the slowest back-off, a time limit that still runs, and a busy machine.
const RESUMES_WITHIN: Duration = Duration::from_secs(20);
const AWAY: &str = "a service is away";
const GAVE_BACK: &str = "messages in hand are given back";
const WORKS: &str = "all services work again";

/// See the module.
pub struct Scene {
    pub sandbox: Sandbox,
    pub listener: Listener,
    pub worker: WorkerProcess,
    sent: usize,
    outages: usize,
}

/// An empty sandbox with short time limits, so that they pass.
pub async fn sandbox(backend: Backend) -> Sandbox {
    sandbox_on(backend, Services::shared(backend)).await
}

/// The same on other services.
pub async fn sandbox_on(backend: Backend, services: Services) -> Sandbox {
    let mut sandbox = Sandbox::on(backend, services).await;
    let limits = [
        ("database.acquire_timeout_ms", 500),
        ("database.statement_timeout_ms", 500),
        ("database.max_connections", 3),
        ("redis.command_timeout_ms", 300),
        ("broker.call_timeout_ms", 2_000),
        ("lease.ttl_ms", 2_000),
        ("lease.safety_margin_ms", 500),
        ("retry.delays_ms", DELAY_MS),
    ];
    limits.into_iter().for_each(|(key, value)| sandbox.set(key, value));
    sandbox.prepare().await;
    sandbox.stock(SKU, 100_000).await;
    sandbox
}

/// Puts a proxy before the service that a setting names, for the processes started from now on.
pub fn through_proxy(sandbox: &mut Sandbox, key: &str) -> Proxy {
    let mut url = Url::parse(sandbox.get(key)).expect("an address");
    let port = url.port().or(match url.scheme() {
        "postgres" => Some(5432),
        "mysql" => Some(3306),
        "redis" => Some(6379),
        _amqp => Some(5672),
    });
    let proxy = Proxy::before(port.expect("a port"));
    url.set_port(Some(proxy.port())).expect("an address with a port");
    sandbox.set(key, url);
    proxy
}

/// A worker that works, with a proxy before the service that a setting names.
pub async fn behind_proxy(mut sandbox: Sandbox, setting: &str) -> (Scene, Proxy) {
    let proxy = through_proxy(&mut sandbox, setting);
    let mut scene = Scene::start(sandbox).await;
    scene.works().await;
    (scene, proxy)
}

impl Scene {
    /// A worker that consumes.
    pub async fn start(sandbox: Sandbox) -> Self {
        let command = sandbox.command(&["worker"]);
        Self::start_as(sandbox, command).await
    }

    /// The same, started otherwise.
    pub async fn start_as(sandbox: Sandbox, command: Command) -> Self {
        let listener = sandbox.rabbit.listen().await;
        let worker = sandbox.start(command);
        let scene = Self { sandbox, listener, worker, sent: 0, outages: 0 };
        scene.consumed().await;
        scene
    }

    /// Waits until the worker consumes.
    pub async fn consumed(&self) {
        let rabbit = &self.sandbox.rabbit;
        eventually("the worker consumes", SOON, async || equal(rabbit.consumers("orders").await, 1)).await;
    }

    /// Orders come in and are decided.
    pub async fn works(&mut self) {
        self.send().await;
        self.decided(SOON).await;
    }

    /// Orders come in.
    pub async fn send(&mut self) {
        let order = |number| format!("{{\"order_id\": \"A-{number:05}\", \"sku\": \"{SKU}\", \"quantity\": 1}}");
        self.sandbox.rabbit.send((self.sent..self.sent + ORDERS).map(order)).await;
        self.sent += ORDERS;
    }

    /// Waits until all that came in is decided, and the event published.
    pub async fn decided(&self, deadline: Duration) {
        eventually("all is decided", deadline, async || {
            let verdicts = verdicts_of(&self.listener.events());
            equal((verdicts.reserved.len(), verdicts.rejected.len()), (self.sent, 0))
        })
        .await;
    }

    /// During an outage orders come in. The worker says so once and gives them all back; nobody takes one, and nothing
    /// else becomes of any.
    pub async fn suffers(&mut self) {
        self.outages += 1;
        self.send().await;
        let (before, rabbit) = (self.said(GAVE_BACK), &self.sandbox.rabbit);
        self.says(AWAY, self.outages).await;
        eventually(
            "the orders are given back",
            SOON,
            async || {
                if self.said(GAVE_BACK) > before { Ok(()) } else { Err("held") }
            },
        )
        .await;
        eventually("nobody takes an order", SOON, async || {
            equal((rabbit.count("orders").await, rabbit.consumers("orders").await), (ORDERS as u32, 0))
        })
        .await;
        self.nothing_else_happened().await;
        assert_eq!(self.said(AWAY), self.outages, "one line for each outage:\n{}", self.worker.printed());
    }

    /// After an outage the worker goes on by itself, with everything, and says so once.
    pub async fn recovers(&mut self) {
        self.decided(RESUMES_WITHIN).await;
        self.says(WORKS, self.outages).await;
        self.consumed().await;
        self.nothing_else_happened().await;
        self.works().await;
    }

    /// An outage that was begun at a proxy: what is true during it, its end, and what is true then.
    pub async fn gets_over(&mut self, proxy: &Proxy) {
        self.suffers().await;
        proxy.set(Links::OPEN);
        self.recovers().await;
    }

    /// No attempt was burnt, and nothing was dead-lettered.
    pub async fn nothing_else_happened(&self) {
        let delay = format!("retry.{DELAY_MS}");
        for queue in [delay.as_str(), "dead.lost-race", "dead.invalid", "dead.failed"] {
            assert_eq!(self.sandbox.rabbit.count(queue).await, 0, "nothing is in {queue}");
        }
    }

    /// Waits until the worker has said something so many times, and not once more.
    pub async fn says(&self, what: &str, times: usize) {
        eventually(&format!("the worker says {what:?}"), SOON, async || equal(self.said(what), times)).await;
    }

    /// How often the worker has said something.
    pub fn said(&self, what: &str) -> usize {
        self.worker.printed().matches(what).count()
    }

    /// Stops the worker in good order and counts: every order once in the table, as its events say.
    pub async fn ends(self) {
        self.sandbox.finish(vec![self.worker]).await;
        let verdicts = verdicts_of(&self.listener.events());
        assert_eq!(verdicts.reserved.len(), self.sent);
        expect_recorded(&self.sandbox.sql().await, &verdicts).await;
        self.sandbox.audit().await;
    }
}
