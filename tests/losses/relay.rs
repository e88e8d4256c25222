//! A TCP relay whose target can be switched, as a virtual address moves in a fail-over, or taken away.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// See the module. Gone when it is dropped, with its connections.
pub struct Relay {
    port: u16,
    target: Arc<watch::Sender<Option<u16>>>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Relays connections to a port of this host.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let target = Arc::new(watch::Sender::new(Some(port)));
        let current = Arc::clone(&target);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, current.subscribe()));
            }
        });
        Self { port: own, target, accepting }
    }

    /// Where it listens, on this host.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections; new ones go to another port.
    pub fn switch(&self, port: u16) {
        self.target.send_replace(Some(port));
    }

    /// Cuts all connections; new ones are cut at once.
    pub fn cut(&self) {
        self.target.send_replace(None);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
        self.accepting.abort();
    }
}

/// One connection, until either end closes it or the target changes.
async fn relay(mut client: TcpStream, mut target: watch::Receiver<Option<u16>>) {
    let Some(port) = *target.borrow_and_update() else { return };
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    tokio::select! {
        ended = tokio::io::copy_bidirectional(&mut client, &mut server) => drop(ended),
        changed = target.changed() => drop(changed),
    }
}
