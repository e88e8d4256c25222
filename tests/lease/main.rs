//! Leases and tokens on real Redis servers. What must not be done to a shared server is done to private ones.

#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/redis_cluster.rs"]
mod redis_cluster;
#[path = "../support/redis_server.rs"]
mod redis_server;

mod cost;
mod differential;
mod failures;
mod listing;
mod protocol;
mod scene;
mod topologies;
#[path = "../support/wait.rs"]
mod wait;
