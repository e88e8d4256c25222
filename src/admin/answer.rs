//! What is answered to which request.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

use crate::health::Health;
use crate::telemetry::{METRICS_TYPE, Metrics};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// The answer to one request; what it carries as a body is not looked at.
pub fn answer<B>(request: &Request<B>, health: &Health, metrics: &Metrics) -> Response<Full<Bytes>> {
    let route: fn(&Health, &Metrics) -> Response<Full<Bytes>> = match request.uri().path() {
        "/livez" => |health, _| livez(health),
        "/readyz" => |health, _| readyz(health),
        "/metrics" => |health, metrics| respond(StatusCode::OK, METRICS_TYPE, metrics.render(&health.report())),
        _ => return respond(StatusCode::NOT_FOUND, TEXT, "there is /livez, /readyz and /metrics\n".into()),
    };
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refusal = respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".into());
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    route(health, metrics)
}

fn livez(health: &Health) -> Response<Full<Bytes>> {
    #[derive(Serialize)]
    struct Alive {
        alive: bool,
    }
    let alive = health.report().alive;
    json(alive, &Alive { alive })
}

fn readyz(health: &Health) -> Response<Full<Bytes>> {
    let report = health.report();
    json(report.ready, &report)
}

fn json(well: bool, body: &impl Serialize) -> Response<Full<Bytes>> {
    let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    // Strings and truth values only: there is nothing in it that cannot be written.
    respond(status, JSON, serde_json::to_string(body).unwrap_or_default())
}

fn respond(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
