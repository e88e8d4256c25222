//! What a worker depends on goes away, becomes slow, full, read-only, or silent: it takes no new messages, burns no
//! attempt, dead-letters nothing, says so once, and goes on by itself.

#[path = "../support/mod.rs"]
mod support;

mod broker;
mod cluster;
mod database;
mod full;
mod private_broker;
mod redis_outages;
mod rolling;
mod scene;
mod topology;
mod waiting;

/// Makes a test of each function for each database server.
#[macro_export]
macro_rules! on_each_server {
    ($($property:ident),+ $(,)?) => { $(
        mod $property {
            use $crate::support::Backend;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$property(Backend::Postgres).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mariadb() {
                super::$property(Backend::MariaDb).await;
            }
        }
    )+ };
}
