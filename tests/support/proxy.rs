//! A TCP proxy before a server: links that are cut, slow, one-way or dead without a word.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::Instant;

/// What is done with the bytes of one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flow {
    /// They pass at once.
    Passes,
    /// They pass after this time, each piece.
    Slow(Duration),
    /// They are kept, without a word to either end, until they may pass again: half-open when one direction is held, a
    /// network that swallows everything when both are.
    Held,
}

/// What is done with the links. Those that are open obey it, too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Links {
    /// From the client to the server.
    pub up: Flow,
    /// From the server to the client.
    pub down: Flow,
    /// A new link is closed as soon as it was accepted, as if nobody were there.
    pub refused: bool,
}

impl Links {
    /// As if there were no proxy.
    pub const OPEN: Self = Self { up: Flow::Passes, down: Flow::Passes, refused: false };
    /// Nothing arrives anywhere, and nobody is told.
    pub const HELD: Self = Self { up: Flow::Held, down: Flow::Held, refused: false };
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// The port to which new links lead.
    server: u16,
    links: Links,
    /// Links of an earlier generation are cut.
    generation: u64,
    /// Counts links.
    accepted: u64,
    /// Links up to this one are held for ever.
    forsaken: u64,
}

impl State {
    /// What a direction of a link does now.
    fn flow(&self, number: u64, direction: fn(&Links) -> Flow) -> Flow {
        if number <= self.forsaken { Flow::Held } else { direction(&self.links) }
    }
}

/// See the module. Runs on a thread of its own, so that a test may block; gone, with all links, when it is dropped.
pub struct Proxy {
    port: u16,
    state: Arc<watch::Sender<State>>,
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Stands before a server on this host.
    pub fn before(server: u16) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener for tokio");
        let port = listener.local_addr().expect("an address").port();
        let (state, _) = watch::channel(State { server, links: Links::OPEN, generation: 0, accepted: 0, forsaken: 0 });
        let state = Arc::new(state);
        let accepting = Arc::clone(&state);
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((client, _)) = listener.accept().await {
                if !accepting.borrow().links.refused {
                    accepting.send_modify(|state| state.accepted += 1);
                    tokio::spawn(link(client, accepting.subscribe()));
                }
            }
        });
        Self { port, state, runtime: Some(runtime) }
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes what is done with all links, open ones and new ones.
    pub fn set(&self, links: Links) {
        self.state.send_modify(|state| state.links = links);
    }

    /// Cuts every open link, both ends at once; new ones are accepted.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Cuts every open link; new ones lead to another server, as a virtual address moves in a fail-over.
    pub fn switch(&self, server: u16) {
        self.state.send_modify(|state| {
            state.server = server;
            state.generation += 1;
        });
    }

    /// Nothing passes any more on the links that are open now, ever, and nobody is told; new ones are as good as any. This
    /// is what a firewall does that has forgotten them.
    pub fn forsake(&self) {
        self.state.send_modify(|state| state.forsaken = state.accepted);
    }

    /// Cuts every open link and refuses new ones, until [`Proxy::set`] opens it again.
    pub fn close(&self) {
        self.state.send_modify(|state| {
            state.links.refused = true;
            state.generation += 1;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// One link. The end of either direction, or a cut, ends both.
async fn link(client: TcpStream, mut state: watch::Receiver<State>) {
    let State { server, generation, accepted: number, .. } = *state.borrow();
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let cut = state.clone();
    tokio::select! {
        _ended = pump(from_client, to_server, number, cut.clone(), |links| links.up) => {}
        _ended = pump(from_server, to_client, number, cut, |links| links.down) => {}
        _cut = state.wait_for(|state| state.generation != generation) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: u64,
    mut state: watch::Receiver<State>,
    direction: fn(&Links) -> Flow,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let passing = state.wait_for(|state| state.flow(number, direction) != Flow::Held).await;
        let flows = passing.map(|state| state.flow(number, direction));
        match flows {
            Ok(Flow::Slow(delay)) => tokio::time::sleep_until(Instant::now() + delay).await,
            Ok(Flow::Passes | Flow::Held) => {}
            Err(_gone) => return Ok(()),
        }
        to.write_all(&buffer[..length]).await?;
    }
}
