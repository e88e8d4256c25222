//! What tests against real services share: an environment of their own, real processes, an independent AMQP client.
//!
//! `LASTUNIT_TEST_*_URL` say where the services are (`scripts/services.sh` sets them); otherwise the standard local
//! ports. Tests run side by side: each [`Sandbox`] has its own database, key prefix and name prefix, and takes them away
//! again, after a panic too.

// Each test binary includes this module and uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod backend;
pub mod certificates;
pub mod grants;
pub mod mariadb_server;
pub mod postgres_server;
pub mod process;
pub mod proxy;
pub mod rabbit;
pub mod rabbit_node;
pub mod redis_cluster;
pub mod redis_server;
pub mod sandbox;
pub mod sql;
pub mod verdicts;
pub mod wait;

use std::env;
use std::path::PathBuf;

pub use backend::Backend;
pub use certificates::Certificates;
pub use mariadb_server::MariaDbServer;
pub use postgres_server::PostgresServer;
pub use process::{Finished, WorkerProcess};
pub use proxy::{Flow, Links, Proxy};
pub use rabbit::{Message, Rabbit};
pub use rabbit_node::RabbitNode;
pub use redis_cluster::RedisCluster;
pub use redis_server::RedisServer;
pub use sandbox::{Sandbox, Services};
pub use sql::Sql;
pub use wait::{SOON, eventually};

/// The value of a variable, or what holds without it.
pub fn setting(variable: &str, default: &str) -> String {
    env::var(variable).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
}

/// A file of `LASTUNIT_TEST_DATA`. `None`, with a line that says so, when it is not there.
pub fn data_file(name: &str) -> Option<PathBuf> {
    let found = env::var_os("LASTUNIT_TEST_DATA").map(|folder| PathBuf::from(folder).join(name));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: needs {name} in the folder that LASTUNIT_TEST_DATA names");
    }
    found
}

/// Shows what workers inside of a test's own process log, when the test fails.
pub fn show_logs() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let filter = setting("LASTUNIT_TEST_LOG", "info,lastunit=debug,sqlx=warn,sea_orm_migration=warn,lapin=warn");
        tracing_subscriber::fmt().with_test_writer().with_ansi(false).with_env_filter(filter).init();
    });
}

/// How often a rush is repeated: `LASTUNIT_TEST_RUNS`, or once.
pub fn runs() -> usize {
    setting("LASTUNIT_TEST_RUNS", "1").parse().expect("LASTUNIT_TEST_RUNS is a number")
}

/// Makes a test of each function for each database: `rush::postgres`, `rush::mariadb`, `rush::sqlite`.
#[macro_export]
macro_rules! on_each_backend {
    ($($property:ident),+ $(,)?) => {
        $( $crate::on_backends!($property: postgres Postgres, mariadb MariaDb, sqlite Sqlite); )+
    };
}

/// The same for each database that is a server of its own.
#[macro_export]
macro_rules! on_each_server {
    ($($property:ident),+ $(,)?) => {
        $( $crate::on_backends!($property: postgres Postgres, mariadb MariaDb); )+
    };
}

/// Makes a test of a function for each of these databases, in a module of the function's name.
#[macro_export]
macro_rules! on_backends {
    ($property:ident: $($name:ident $backend:ident),+) => {
        mod $property {
            use $crate::support::Backend;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$property(Backend::$backend).await;
                }
            )+
        }
    };
}
