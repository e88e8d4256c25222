//! A worker does all its work with the rights that docs/OPERATIONS.md grants, word for word, and with no others.

use std::thread;

use sea_orm::{ConnectionTrait as _, Database};
use url::Url;
use uuid::Uuid;

use crate::secrets::expect_no_secret;
use crate::servers::RabbitMq;
use crate::shift;
use crate::support::grants::{documented, redis_acl};
use crate::support::redis_cluster::redis_cli;
use crate::support::{Backend, Certificates, Rabbit, RedisServer, Sandbox};

/// What [`expect_no_secret`] looks for.
const PASSWORD: &str = "t0p-s3cret";

/// A user of a shared database server, gone when this is dropped: after the database, which holds its grants.
struct User {
    name: String,
    backend: Backend,
    server: String,
}

impl User {
    async fn create(backend: Backend) -> Self {
        let name = format!("lastunit_test_{}", &Uuid::new_v4().simple().to_string()[..12]);
        let user = Self { name, backend, server: backend.server().expect("a server") };
        let name = &user.name;
        let create = match backend {
            Backend::Postgres => format!("create role {name} login password '{PASSWORD}'"),
            Backend::MariaDb | Backend::Sqlite => format!("create user {name} identified by '{PASSWORD}'"),
        };
        run(&user.server, &create).await;
        user
    }

    /// The sandbox's database, as this user.
    fn url(&self, sandbox: &Sandbox) -> String {
        let mut url = Url::parse(sandbox.get("database.url")).expect("a URL");
        url.set_username(&self.name).and_then(|()| url.set_password(Some(PASSWORD))).expect("a URL with a user");
        url.into()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let kind = if self.backend == Backend::Postgres { "role" } else { "user" };
        let (server, drop) = (self.server.clone(), format!("drop {kind} {}", self.name));
        let dropped = thread::spawn(move || {
            tokio::runtime::Runtime::new().expect("a runtime").block_on(run(&server, &drop));
        });
        if dropped.join().is_err() {
            eprintln!("{} could not be dropped", self.name);
        }
    }
}

async fn run(server: &str, statement: &str) {
    let connection = Database::connect(server).await.expect("the server");
    connection.execute_unprepared(statement).await.unwrap_or_else(|fault| panic!("{statement}: {fault}"));
    connection.close().await.expect("closed");
}

async fn expect_enough(backend: Backend, service: &str) {
    // Before the sandbox, so that it goes after it.
    let user = User::create(backend).await;
    let mut sandbox = Sandbox::ready(backend).await;
    shift::prepare(&mut sandbox).await;
    let admin = sandbox.get("database.url").to_owned();
    let database = Url::parse(&admin).expect("a URL").path().trim_start_matches('/').to_owned();
    for grant in documented(service, &user.name) {
        run(&admin, &grant.replace("lastunit.", &format!("{database}."))).await;
    }
    sandbox.set("database.url", user.url(&sandbox));
    sandbox.set("log.filter", "trace");
    expect_no_secret(&shift::work(&sandbox).await, "a worker");
    // It has no others: what would reset a fence is refused.
    let worker = Database::connect(sandbox.get("database.url")).await.expect("the worker's own connection");
    for forbidden in ["delete from stock", "drop table stock", "create table t (n int)"] {
        assert!(worker.execute_unprepared(forbidden).await.is_err(), "{forbidden}");
    }
    worker.close().await.expect("closed");
    sandbox.set("database.url", admin);
    sandbox.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grants_on_postgres_are_enough() {
    expect_enough(Backend::Postgres, "PostgreSQL").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grants_on_mariadb_are_enough() {
    expect_enough(Backend::MariaDb, "MySQL and MariaDB").await;
}

/// On Cluster and Sentinel the same is shown by the losses' topologies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grants_on_redis_are_enough() {
    let server = RedisServer::start(&[]);
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    let acl = redis_acl("lastunit_worker", PASSWORD, sandbox.get("redis.key_prefix"));
    let words: Vec<&str> = acl.iter().map(String::as_str).collect();
    assert_eq!(redis_cli(server.port(), &words).trim(), "OK", "{words:?}");
    sandbox.set("redis.url", format!("redis://lastunit_worker:{PASSWORD}@127.0.0.1:{}/3", server.port()));
    shift::prepare(&mut sandbox).await;
    shift::work(&sandbox).await;
    sandbox.run(&["leases"]).await.expect_code(0);
    for forbidden in [&["FLUSHALL"][..], &["CONFIG", "GET", "*"], &["SET", "other:key", "1"], &["KEYS", "*"]] {
        let login = ["--user", "lastunit_worker", "--pass", PASSWORD, "--no-auth-warning"];
        let said = redis_cli(server.port(), &[&login[..], forbidden].concat());
        assert!(said.starts_with("NOPERM"), "{forbidden:?}: {said}");
    }
    // For the clean-up.
    sandbox.set("redis.url", server.url());
}

/// The worker, a sender and a reader, each with what the document grants it; somebody else declared everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grants_on_rabbitmq_are_enough() {
    let broker = RabbitMq::start(&Certificates::make());
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    let prefix = sandbox.get("broker.name_prefix").to_owned();
    let (admin, escaped) = (broker.url("guest:guest", false), prefix.replace('.', "\\."));
    sandbox.set("broker.url", &admin);
    sandbox.prepare().await;
    shift::prepare(&mut sandbox).await;
    for user in ["lastunit_worker", "sender", "reader"] {
        broker.ctl(&["add_user", user, PASSWORD]);
    }
    let grant = documented("RabbitMQ", "lastunit_worker")[0].replace("lastunit\\.", &format!("{escaped}\\."));
    let words: Vec<_> = grant.split(' ').map(|word| word.trim_matches('\'')).collect();
    let ["rabbitmqctl", "set_permissions", "-p", "VHOST", rest @ ..] = words.as_slice() else { panic!("{grant}") };
    assert!(grant.contains(&escaped), "{grant}");
    broker.ctl(&[&["set_permissions", "-p", "/"], rest].concat());
    let (orders, own) = (format!("^{escaped}\\.orders$"), format!("^{escaped}\\.test\\..*$"));
    broker.ctl(&["set_permissions", "-p", "/", "sender", "^$", &orders, "^$"]);
    let readable = format!("^{escaped}\\.(test\\..*|outcomes)$");
    broker.ctl(&["set_permissions", "-p", "/", "reader", &own, &own, &readable]);
    let login = |user: &str| broker.url(&format!("{user}:{PASSWORD}"), false);
    sandbox.set("broker.url", login("lastunit_worker"));
    sandbox.set("broker.declare", false);
    let roles = shift::Roles {
        sender: Rabbit::connect(&login("sender"), &prefix).await,
        reader: Rabbit::connect(&login("reader"), &prefix).await,
    };
    sandbox.rabbit = Rabbit::connect(&admin, &prefix).await;
    shift::work_among(&sandbox, Some(&roles)).await;
    // It has no others: neither new queues nor orders.
    sandbox.set("broker.declare", true);
    sandbox.set("retry.delays_ms", "77");
    let refused = sandbox.run(&["topology"]).await.expect_code(78).stderr;
    assert!(refused.contains("refused for user 'lastunit_worker'"), "{refused}");
    sandbox.set("broker.url", admin);
}
