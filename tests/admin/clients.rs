//! Requests of every kind, and clients that mean no good.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::probe::Observed;
use crate::support::{Backend, SOON, Sandbox};

/// More than the worker serves at once.
const CLIENTS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_three_paths_are_there_and_only_to_be_read() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    let observed = Observed::ready(&mut sandbox).await;
    for path in ["/", "/health", "/livez/", "/metrics/..", "/%2e%2e/etc/passwd"] {
        assert_eq!(observed.get(path).await.status, 404, "{path}");
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(observed.get(path).await.status, 200, "{path}");
        assert_eq!(observed.get(&format!("{path}?verbose")).await.status, 200, "{path}");
        let head = observed.request("HEAD", path).await.expect("an answer");
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
            let refused = observed.request(method, path).await.expect("an answer");
            assert_eq!(refused.status, 405, "{method} {path}");
            assert!(refused.head.contains("allow: get, head"), "{}", refused.head);
        }
    }
    sandbox.finish(vec![observed.worker]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_silent_and_garbage_clients_harm_nothing() {
    let mut sandbox = Sandbox::ready(Backend::Sqlite).await;
    sandbox.stock("X", 1).await;
    let observed = Observed::ready(&mut sandbox).await;
    let huge = format!("GET /readyz HTTP/1.1\r\nHost: {}", "x".repeat(100_000));
    let garbage: [&[u8]; 5] = [b"", b"GET /ready", b"\x16\x03\x01\x02\x00\x01\x00", b"\0\r\n\r\n", huge.as_bytes()];
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        // A worker that has enough of them hangs up at once.
        if let Ok(mut client) = TcpStream::connect(("127.0.0.1", observed.port)).await {
            drop(client.write_all(garbage[number % garbage.len()]).await);
            clients.push(client);
        }
    }
    let listener = sandbox.rabbit.listen().await;
    sandbox.rabbit.send([r#"{"order_id":"A-1","sku":"X","quantity":1}"#]).await;
    listener.wait_for(1, SOON).await;
    // None is kept for ever, so that there is room for a probe again while all of them still hold on.
    let answered = crate::support::eventually("a probe is answered", SOON, async || {
        observed.request("GET", "/readyz").await.map(|answer| answer.status)
    });
    assert_eq!(answered.await, 200);
    for mut client in clients {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(SOON, client.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "hung up on");
    }
    sandbox.finish(vec![observed.worker]).await;
}
