//! What traces are sent to: takes OTLP over HTTP, or fails to.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;

/// How it answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Manner {
    Takes,
    /// 500.
    Fails,
    /// Not at all.
    Hangs,
}

#[derive(Debug)]
struct State {
    manner: Manner,
    requests: usize,
    taken: Vec<ExportTraceServiceRequest>,
    tokens: Vec<String>,
}

/// See the module. It ends with its test's runtime.
pub struct Collector {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Collector {
    /// Listens on a free port.
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = State { manner, requests: 0, taken: Vec::new(), tokens: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| answer(request, Arc::clone(&state)));
                // A client that goes away, or is killed, is none of its business.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { port, state }
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` says.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on.
    pub fn set(&self, manner: Manner) {
        self.state.lock().expect("no panic in there").manner = manner;
    }

    /// How often it was asked, whatever it answered.
    pub fn requests(&self) -> usize {
        self.state.lock().expect("no panic in there").requests
    }

    /// What it has taken.
    pub fn taken(&self) -> Vec<ExportTraceServiceRequest> {
        self.state.lock().expect("no panic in there").taken.clone()
    }

    /// The spans of that.
    pub fn spans(&self) -> Vec<Span> {
        let resources = self.taken().into_iter().flat_map(|request| request.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    /// The values of the header `x-token`, one for each request that was taken.
    pub fn tokens(&self) -> Vec<String> {
        self.state.lock().expect("no panic in there").tokens.clone()
    }
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let manner = {
        let mut state = state.lock().expect("no panic in here");
        state.requests += 1;
        state.manner
    };
    let status = match manner {
        Manner::Takes => StatusCode::OK,
        Manner::Fails => StatusCode::INTERNAL_SERVER_ERROR,
        Manner::Hangs => std::future::pending().await,
    };
    if status.is_success() {
        assert_eq!((head.method.as_str(), head.uri.path()), ("POST", "/v1/traces"));
        assert_eq!(head.headers["content-type"], "application/x-protobuf");
        let body = body.collect().await.expect("a whole request").to_bytes();
        let token = head.headers.get("x-token").and_then(|token| token.to_str().ok()).unwrap_or_default();
        let mut state = state.lock().expect("no panic in here");
        state.taken.push(ExportTraceServiceRequest::decode(body).expect("OTLP"));
        state.tokens.push(token.to_owned());
    }
    let mut answer = Response::new(Empty::new());
    *answer.status_mut() = status;
    Ok(answer)
}

/// An attribute's value as text.
pub fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

/// An attribute's value as a number.
pub fn number(attributes: &[KeyValue], key: &str) -> Option<i64> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::IntValue(number) => Some(*number),
        _other => None,
    }
}
