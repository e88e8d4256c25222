//! No password in any output, at `log.filter = "trace"`, whatever goes right or wrong.

use crate::servers::{RabbitMq, postgres};
use crate::shift;
use crate::support::redis_cluster::redis_cli;
use crate::support::redis_server::free_port;
use crate::support::{Backend, Certificates, Finished, Rabbit, RedisServer, Sandbox};

/// With characters that a URL must escape.
const SECRET: &str = "t0p-s3cret/?#";
const IN_A_URL: &str = "t0p-s3cret%2F%3F%23";

/// Every form in which some library could print it: enough of it to be of use to a reader.
pub fn expect_no_secret(printed: &str, doing: &str) {
    let part = "t0p-s3cret";
    let decimal = part.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    let hexadecimal: String = part.bytes().map(|byte| format!("{byte:02x}")).collect();
    let spaced = part.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    for form in [part, &decimal, &hexadecimal, &hexadecimal.to_uppercase(), &spaced, "dDBwLXMzY3JldC"] {
        let line = printed.lines().find(|line| line.contains(form));
        assert_eq!(line, None, "{doing} shows the password as {form:?}");
    }
}

async fn expect_quiet(sandbox: &Sandbox, arguments: &[&str], code: i32) {
    let Finished { stdout, stderr, .. } = sandbox.run(arguments).await.expect_code(code);
    let place = [sandbox.get("database.url"), sandbox.get("redis.url"), sandbox.get("broker.url")].join(" ");
    assert!(!stderr.is_empty(), "it says something: {arguments:?}, {place}");
    expect_no_secret(&format!("{stdout}{stderr}"), &format!("{arguments:?} with {place}"));
}

async fn loud(backend: Backend) -> Sandbox {
    let mut sandbox = Sandbox::empty(backend).await;
    sandbox.set("log.filter", "trace");
    sandbox.set("startup.wait_ms", 300);
    sandbox
}

/// The command that meets a service, and the exit code when it is not there.
const SERVICES: [(&str, &str, &[&str]); 4] = [
    ("database.url", "postgres://shop:", &["migrate", "up"]),
    ("database.url", "mysql://shop:", &["migrate", "up"]),
    ("redis.url", "redis://shop:", &["leases"]),
    ("broker.url", "amqp://shop:", &["topology"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections_show_no_password() {
    let mut sandbox = loud(Backend::Sqlite).await;
    for (key, scheme, command) in SERVICES {
        let right = sandbox.get(key).to_owned();
        sandbox.set(key, format!("{scheme}{IN_A_URL}@127.0.0.1:{}{}", free_port(), path(key)));
        expect_quiet(&sandbox, command, 69).await;
        sandbox.set(key, right);
    }
}

/// Redis has databases by number.
fn path(key: &str) -> &'static str {
    if key == "redis.url" { "/0" } else { "/shop" }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_settings_show_no_password() {
    let mut sandbox = loud(Backend::Sqlite).await;
    for (key, scheme, command) in SERVICES {
        let right = sandbox.get(key).to_owned();
        let (kind, _) = scheme.split_once(':').expect("a scheme");
        for wrong in [
            format!("{scheme}{IN_A_URL}@127.0.0.1:port/x"),
            format!("{scheme}{SECRET}@127.0.0.1:1/x"),
            format!("{scheme}{IN_A_URL}@/x/y/z"),
            format!("{kind}:shop:{IN_A_URL}@127.0.0.1"),
            format!("{kind}+other://shop:{IN_A_URL}@127.0.0.1"),
            format!("ftp://shop:{IN_A_URL}@127.0.0.1"),
            format!("{scheme}{IN_A_URL}@[::1/x"),
            IN_A_URL.to_owned(),
        ] {
            sandbox.set(key, wrong);
            let Finished { code, stdout, stderr } = sandbox.run(command).await;
            assert!([1, 69, 78].contains(&code), "{code}: {stderr}");
            expect_no_secret(&format!("{stdout}{stderr}"), &format!("{command:?} with {}", sandbox.get(key)));
        }
        sandbox.set(key, right);
    }
}

/// In a place where no address belongs, it is quoted by the library that reads settings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn misplaced_addresses_show_no_password() {
    let address = format!("amqp://shop:{IN_A_URL}@127.0.0.1/x");
    for key in ["broker", "lease.ttl_ms", "broker.declare", "broker.uri", "log.format", "retry.delays_ms"] {
        let mut sandbox = loud(Backend::Sqlite).await;
        sandbox.set(key, &address);
        expect_quiet(&sandbox, &["topology"], 78).await;
    }
    let sandbox = loud(Backend::Sqlite).await;
    let file = sandbox.folder().join("wrong.toml");
    for text in [
        format!("[broker]\nurl = {address}\n"),
        format!("[broker]\nprefetch = \"{address}\"\n"),
        format!("\"{address}\""),
    ] {
        std::fs::write(&file, text).expect("a file");
        expect_quiet(&sandbox, &["topology", "--config", &file.to_string_lossy()], 78).await;
    }
}

/// All three services want a password, first the right one, then a wrong one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_show_no_password() {
    let certificates = Certificates::make();
    let database = postgres(&certificates, "host all all 127.0.0.1/32 scram-sha-256", SECRET);
    let broker = RabbitMq::start(&certificates);
    broker.ctl(&["add_user", "shop", SECRET]);
    broker.ctl(&["set_permissions", "-p", "/", "shop", ".*", ".*", ".*"]);
    let redis = RedisServer::start(&[]);
    assert_eq!(
        redis_cli(redis.port(), &["ACL", "SETUSER", "shop", "on", &format!(">{SECRET}"), "~*", "+@all"]).trim(),
        "OK"
    );
    let mut sandbox = loud(Backend::Sqlite).await;
    let shared = sandbox.get("broker.url").to_owned();
    sandbox.rabbit = Rabbit::connect(&broker.url("guest:guest", false), sandbox.get("broker.name_prefix")).await;
    let urls = [
        ("database.url", format!("postgres://postgres:{IN_A_URL}@127.0.0.1:{}/postgres", database.port)),
        ("redis.url", format!("redis://shop:{IN_A_URL}@127.0.0.1:{}", redis.port())),
        ("broker.url", broker.url(&format!("shop:{IN_A_URL}"), false)),
    ];
    urls.iter().for_each(|(key, url)| sandbox.set(key, url));
    for command in [["migrate", "up"], ["topology", "--json"]] {
        expect_quiet(&sandbox, &command, 0).await;
    }
    shift::prepare(&mut sandbox).await;
    let log = shift::work(&sandbox).await;
    assert!(log.contains("TRACE"), "the libraries say all they know");
    expect_no_secret(&log, "a worker");
    for (key, right) in &urls {
        sandbox.set(key, right.replace("t0p-s3cret", "wrong-t0p-s3cret"));
        expect_quiet(&sandbox, &["worker"], 78).await;
        sandbox.set(key, right);
    }
    // For the clean-up.
    sandbox.set("redis.url", redis.url());
    sandbox.set("broker.url", shared);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_mariadb_refuses_shows_no_password() {
    let mut sandbox = loud(Backend::MariaDb).await;
    let url = sandbox.get("database.url").to_owned();
    let (_, place) = url.split_once('@').expect("a user");
    sandbox.set("database.url", format!("mysql://shop:{IN_A_URL}@{place}"));
    expect_quiet(&sandbox, &["migrate", "up"], 78).await;
    sandbox.set("database.url", url);
}
