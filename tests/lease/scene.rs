//! One connection of a worker and one of an observer, under a key prefix of their own.

use std::time::Duration;

use lastunit::config::Settings;
use lastunit::fence::{Epoch, FenceToken};
use lastunit::lease::{Attempt, Cause, Error, Incarnation, Leases, Reply, Request, Seed};
use lastunit::order::Sku;
use redis::aio::MultiplexedConnection;

pub const TTL: Duration = Duration::from_secs(60);

/// How long the observer waits, also for a server that was paused.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server that tests share; nothing but keys under a prefix of one's own may be touched.
pub fn shared_url() -> String {
    std::env::var("LASTUNIT_TEST_REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into())
}

pub fn sku(text: &str) -> Sku {
    Sku::new(text).expect("a sku")
}

pub fn token(epoch: u64, sequence: u64) -> FenceToken {
    FenceToken::new(Epoch::new(epoch).expect("epoch"), sequence).expect("sequence")
}

pub fn request(sku: &Sku) -> Request {
    Request { sku: sku.clone(), previous: None, floor: FenceToken::ZERO }
}

/// Settings of a worker: `more` are further keys, like `("redis.command_timeout_ms", "200")`.
pub fn settings(url: &str, prefix: &str, more: &[(&str, &str)]) -> Settings {
    let ttl = TTL.as_millis().to_string();
    let patience = PATIENCE.as_millis().to_string();
    let base = [
        ("redis.url", url),
        ("redis.key_prefix", prefix),
        ("redis.command_timeout_ms", &patience),
        ("lease.ttl_ms", &ttl),
    ];
    let variable = |(key, value): &(&str, &str)| {
        (format!("LASTUNIT__{}", key.to_uppercase().replace('.', "__")), (*value).to_owned())
    };
    Settings::load(None, base.iter().chain(more).map(variable)).expect("settings")
}

pub async fn connect(url: &str, prefix: &str, more: &[(&str, &str)]) -> Result<Leases, Error> {
    let settings = settings(url, prefix, more);
    Leases::connect(&settings.redis, &settings.lease, "worker-1").await
}

pub struct Scene {
    pub leases: Leases,
    pub observer: MultiplexedConnection,
    pub prefix: String,
    url: String,
}

impl Scene {
    /// On the shared server.
    pub async fn open() -> Self {
        Self::on(&shared_url()).await
    }

    pub async fn on(url: &str) -> Self {
        let prefix = format!("test-{}", Attempt::new().0);
        let leases = connect(url, &prefix, &[]).await.expect("leases");
        let client = redis::Client::open(url).expect("an address");
        let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let observer = client.get_multiplexed_async_connection_with_config(&patient).await.expect("an observer");
        Self { leases, observer, prefix, url: url.to_owned() }
    }

    pub fn lease_key(&self, sku: &Sku) -> String {
        format!("{}:{{{sku}}}:lease", self.prefix)
    }

    pub fn fence_key(&self, sku: &Sku) -> String {
        format!("{}:{{{sku}}}:fence", self.prefix)
    }

    /// Sends a command of the observer's.
    pub async fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.observer.clone()).await.expect("the observer's command")
    }

    pub async fn ask(&self, attempt: Attempt, request: Request) -> Reply {
        self.leases.acquire(attempt, &[request]).await.expect("an answer").remove(0)
    }

    /// Takes a lease that must be free.
    pub async fn take(&self, attempt: Attempt, sku: &Sku) -> FenceToken {
        granted(&self.ask(attempt, request(sku)).await)
    }

    /// What a recovery does, without the database.
    pub async fn seed(&self, sku: &Sku, epoch: u64) {
        let incarnation = incarnation(&self.leases).await;
        self.seed_for(sku, epoch, incarnation).await;
    }

    pub async fn seed_for(&self, sku: &Sku, epoch: u64, incarnation: Incarnation) {
        let seed = Seed { sku: sku.clone(), incarnation, epoch: Epoch::new(epoch).expect("epoch") };
        self.leases.seed(&[seed]).await.expect("seeded");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A private server may be gone.
        let Ok(mut server) = redis::Client::open(self.url.as_str()).and_then(|client| client.get_connection()) else {
            return;
        };
        let pattern = format!("{}:*", self.prefix);
        let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut server).unwrap_or_default();
        for some in keys.chunks(1_000) {
            if redis::cmd("DEL").arg(some).exec(&mut server).is_err() {
                return;
            }
        }
    }
}

/// What the server calls itself now: an unknown SKU's answer says so.
pub async fn incarnation(leases: &Leases) -> Incarnation {
    let stranger = sku(&format!("stranger-{}", Attempt::new().0));
    let replies = leases.acquire(Attempt::new(), &[request(&stranger)]).await.expect("an answer");
    match &replies[0] {
        Reply::Unknown { incarnation, .. } => incarnation.clone(),
        other => panic!("a SKU never seen is {other:?}"),
    }
}

#[track_caller]
pub fn granted(reply: &Reply) -> FenceToken {
    match reply {
        Reply::Granted(token) => *token,
        other => panic!("not granted: {other:?}"),
    }
}

#[track_caller]
pub fn assert_granted(reply: &Reply) {
    assert!(matches!(reply, Reply::Granted(_)), "not granted: {reply:?}");
}

#[track_caller]
pub fn assert_unknown(reply: &Reply, expected: Cause) {
    match reply {
        Reply::Unknown { cause, .. } => assert_eq!(*cause, expected),
        other => panic!("not unknown: {other:?}"),
    }
}

#[track_caller]
pub fn assert_held(reply: &Reply) {
    assert!(matches!(reply, Reply::Held { remaining } if *remaining <= TTL), "not held: {reply:?}");
}
