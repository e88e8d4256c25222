//! Liveness, readiness and metrics over HTTP, on `admin.listen`.
//!
//! For probes and scrapers, not for the world: no TLS, no passwords, nothing that changes anything. A client that is slow,
//! silent or sends garbage costs one of a bounded number of connections for a bounded time.

mod answer;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::{debug, info};

use crate::health::Health;
use crate::telemetry::Metrics;

/// Connections at once; more are closed at once. Each takes a few KiB.
const MAX_CONNECTIONS: usize = 256;
/// A connection is one request, and lasts no longer than this.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// The smallest that the HTTP library takes; probes and scrapers send a fraction of it.
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// After an error that concerns no single connection (no file handles left).
const PAUSE: Duration = Duration::from_millis(100);

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("admin.listen: cannot listen on {address}")]
pub struct Error {
    /// The address.
    pub address: SocketAddr,
    /// What the operating system said.
    pub source: std::io::Error,
}

impl Error {
    /// Whether somebody else listens there, who may soon be gone.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.source.kind() == std::io::ErrorKind::AddrInUse
    }
}

/// Listens, and returns what answers; with port 0 on a free one, which is logged.
///
/// # Errors
/// See [`Error`].
pub async fn listen(
    address: SocketAddr,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) -> Result<impl Future<Output = ()> + Send + use<>, Error> {
    let fault = |source| Error { address, source };
    let listener = TcpListener::bind(address).await.map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    info!(%address, "health and metrics are served");
    Ok(serve(listener, health, metrics))
}

async fn serve(listener: TcpListener, health: Arc<Health>, metrics: Arc<Metrics>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!(%error, "a connection for health and metrics could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
        let (health, metrics) = (Arc::clone(&health), Arc::clone(&metrics));
        tokio::spawn(async move {
            let _slot = slot;
            if tokio::time::timeout(TIME_LIMIT, connection(stream, &health, &metrics)).await.is_err() {
                debug!("a client of health and metrics took too long");
            }
        });
    }
}

async fn connection(stream: TcpStream, health: &Health, metrics: &Metrics) {
    let service = service_fn(|request| async move { Ok::<_, Infallible>(answer::answer(&request, health, metrics)) });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(TIME_LIMIT).keep_alive(false).max_buf_size(MAX_REQUEST_BYTES);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        debug!(%error, "a client of health and metrics");
    }
}
