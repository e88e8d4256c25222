//! A relay before the lease server that counts the seeds on the wire, and can lose the answer of the first one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Only a seed carries its script along: everything else is called by its short name.
const SEED: &[u8] = b"$4\r\nEVAL\r\n";

/// See the module.
pub struct Spy {
    port: u16,
    seen: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Spy {
    /// Stands before a server on this host.
    pub async fn before(server: u16, loses_first_answer: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&seen);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, server, Arc::clone(&counter), loses_first_answer));
            }
        });
        Self { port, seen, accepting }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Seeds seen so far.
    pub fn seeds(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }
}

impl Drop for Spy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One connection. Each end's closing ends it.
async fn relay(mut client: TcpStream, server: u16, seen: Arc<AtomicUsize>, loses_first_answer: bool) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    // What was sent so far: a command may come in pieces.
    let mut sent = Vec::new();
    let mut before = 0;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                sent.extend_from_slice(&asked[..length]);
                let seeds = sent.windows(SEED.len()).filter(|window| *window == SEED).count();
                let earlier = seen.fetch_add(seeds - before, Ordering::SeqCst);
                let is_first = earlier == 0 && seeds > before;
                before = seeds;
                if server.write_all(&asked[..length]).await.is_err() {
                    return;
                }
                if loses_first_answer && is_first {
                    // The server has run it when it answers; the answer goes nowhere.
                    drop(server.read(&mut answered).await);
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
