//! TLS with an authority of one's own and client certificates, for all services: who is trusted works, who is not is
//! refused with a line that names the setting.

use crate::servers::{RabbitMq, mariadb, postgres};
use crate::shift;
use crate::support::redis_server::free_port;
use crate::support::{Backend, Certificates, Rabbit, RedisServer, Sandbox};

const CONFIG: i32 = 78;
const UNAVAILABLE: i32 = 69;

/// `section.tls_ca` and the client's files; no client without a name.
fn trust(sandbox: &mut Sandbox, section: &str, certificates: &Certificates, ca: &str, has_client: bool) {
    let client = |name: &str| if has_client { certificates.path(name) } else { String::new() };
    sandbox.set(&format!("{section}.tls_ca"), certificates.path(ca));
    sandbox.set(&format!("{section}.tls_client_cert"), client("client.crt"));
    sandbox.set(&format!("{section}.tls_client_key"), client("client.key"));
    sandbox.set("startup.wait_ms", 300);
}

/// A stranger's authority ends it at once; without a client certificate nobody gets in. The databases say so; the others cut
/// the connection, which could be anything.
async fn expect_refusals(
    sandbox: &mut Sandbox,
    section: &str,
    certificates: &Certificates,
    command: &[&str],
    (code, complaint): (i32, &str),
) {
    trust(sandbox, section, certificates, "stranger.crt", true);
    let refused = sandbox.run(command).await.expect_code(CONFIG).stderr;
    for part in ["certificate is not trusted", &format!("{section}.tls_ca")] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    trust(sandbox, section, certificates, "ca.crt", false);
    let refused = sandbox.run(command).await.expect_code(code).stderr;
    assert!(refused.contains(complaint), "{complaint}: {refused}");
    trust(sandbox, section, certificates, "ca.crt", true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_over_tls() {
    let certificates = Certificates::make();
    let server = postgres(&certificates, "hostssl all all 127.0.0.1/32 trust clientcert=verify-ca", "unused");
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    sandbox.set("database.url", format!("postgres://postgres@localhost:{}/postgres", server.port));
    let migrate = ["migrate", "up"];
    let nameless = (CONFIG, "valid client certificate");
    expect_refusals(&mut sandbox, "database", &certificates, &migrate, nameless).await;
    sandbox.prepare().await;
    shift::prepare(&mut sandbox).await;
    shift::work(&sandbox).await;
    sandbox.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_over_tls() {
    let certificates = Certificates::make();
    let server = mariadb(
        &certificates,
        "create database shop;\ncreate user shop@'127.0.0.1' identified by 'shop' require x509;\n\
         grant all on shop.* to shop@'127.0.0.1';\n",
    );
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    sandbox.set("database.url", format!("mysql://shop:shop@localhost:{}/shop", server.port));
    let nameless = (CONFIG, "database.tls_client_cert");
    expect_refusals(&mut sandbox, "database", &certificates, &["migrate", "up"], nameless).await;
    sandbox.prepare().await;
    shift::prepare(&mut sandbox).await;
    shift::work(&sandbox).await;
    sandbox.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbitmq_over_tls() {
    let certificates = Certificates::make();
    let broker = RabbitMq::start(&certificates);
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    let plain = broker.url("guest:guest", false);
    sandbox.rabbit = Rabbit::connect(&plain, sandbox.get("broker.name_prefix")).await;
    sandbox.set("broker.url", broker.url("guest:guest", true));
    let nameless = (UNAVAILABLE, "broker.tls_client_cert");
    expect_refusals(&mut sandbox, "broker", &certificates, &["topology"], nameless).await;
    sandbox.prepare().await;
    shift::prepare(&mut sandbox).await;
    shift::work(&sandbox).await;
    // For the clean-up, which has no certificate.
    sandbox.set("broker.url", plain);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_over_tls() {
    let certificates = Certificates::make();
    let tls_port = free_port();
    let file = |name: &str| certificates.path(name);
    let server = RedisServer::start(&[
        "--tls-port",
        &tls_port.to_string(),
        "--tls-cert-file",
        &file("server.crt"),
        "--tls-key-file",
        &file("server.key"),
        "--tls-ca-cert-file",
        &file("ca.crt"),
    ]);
    let mut sandbox = Sandbox::empty(Backend::Sqlite).await;
    sandbox.set("redis.url", format!("rediss://localhost:{tls_port}"));
    let nameless = (UNAVAILABLE, "redis.tls_client_cert");
    expect_refusals(&mut sandbox, "redis", &certificates, &["leases"], nameless).await;
    sandbox.prepare().await;
    shift::prepare(&mut sandbox).await;
    shift::work(&sandbox).await;
    // For the clean-up, which has no certificate.
    sandbox.set("redis.url", server.url());
}
