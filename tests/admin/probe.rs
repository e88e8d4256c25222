//! A worker that serves health and metrics, and a client that reads them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{SOON, Sandbox, WorkerProcess, eventually};

/// What an answer takes at most, of a worker that has much to do on a machine that has much to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// A worker process that serves health and metrics on a free port.
pub struct Observed {
    pub worker: WorkerProcess,
    pub port: u16,
}

impl Observed {
    /// Starts it and waits until it serves them.
    pub async fn start(sandbox: &mut Sandbox) -> Self {
        sandbox.set("admin.listen", "127.0.0.1:0");
        let worker = sandbox.worker();
        let port = eventually("health and metrics are served", SOON, async || {
            let printed = worker.printed();
            let line = printed.lines().find(|line| line.contains("health and metrics are served"));
            let port = line.and_then(|line| line.split("127.0.0.1:").nth(1));
            let digits = port.map(|port| port.chars().take_while(char::is_ascii_digit).collect::<String>());
            digits.and_then(|digits| digits.parse().ok()).ok_or(printed)
        })
        .await;
        Self { worker, port }
    }

    /// The same, and waits until it is ready.
    pub async fn ready(sandbox: &mut Sandbox) -> Self {
        let observed = Self::start(sandbox).await;
        observed.becomes_ready(SOON).await;
        observed
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path).await.expect("an answer")
    }

    /// Any request without a body.
    pub async fn request(&self, method: &str, path: &str) -> std::io::Result<Answer> {
        let ask = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            let request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(PATIENCE, ask).await.expect("an answer in time")?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {answer:?}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Ok(Answer { status, head: head.to_lowercase(), body: body.to_owned() })
    }

    /// `/readyz`: the status, and what it says.
    pub async fn readiness(&self) -> (u16, Value) {
        let answer = self.get("/readyz").await;
        (answer.status, serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("no JSON: {answer:?}")))
    }

    pub async fn becomes_ready(&self, deadline: Duration) {
        eventually("the worker is ready", deadline, async || match self.readiness().await {
            (200, said) if said["ready"] == true => Ok(()),
            (_, said) => Err(said),
        })
        .await;
    }

    /// Waits until it is not ready because of this part, which gives a reason; it is alive all the same.
    pub async fn becomes_unready(&self, part: &str, deadline: Duration) -> String {
        let reason = eventually(&format!("{part} is not ready"), deadline, async || {
            let (status, said) = self.readiness().await;
            let told = &said["parts"][part];
            match (status, told["ready"].as_bool(), told["reason"].as_str()) {
                (503, Some(false), Some(reason)) => Ok(reason.to_owned()),
                _ => Err(said),
            }
        })
        .await;
        assert_eq!(self.get("/livez").await.status, 200, "starting it again would not help");
        reason
    }

    /// All samples of `/metrics`, by name and labels.
    pub async fn samples(&self) -> BTreeMap<String, f64> {
        let answer = self.get("/metrics").await;
        assert_eq!(answer.status, 200);
        assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
        let samples = answer.body.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line:?}"));
            (series.to_owned(), value.parse().unwrap_or_else(|_| panic!("no number: {line:?}")))
        };
        samples.map(sample).collect()
    }

    /// Waits until a sample has this value.
    pub async fn sample_becomes(&self, series: &str, value: f64) {
        eventually(&format!("{series} is {value}"), SOON, async || match self.samples().await.get(series) {
            Some(found) if *found == value => Ok(()),
            found => Err(format!("{found:?}")),
        })
        .await;
    }
}
