//! The HTTP client of the SDK's sending thread. It says once that the endpoint fails, and once that it works again.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tracing::{info, warn};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::variable;

/// Milliseconds for one request, from its address's look-up to the end of the answer.
const TIME_LIMITS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
/// The standard's.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(10);
/// A file of the authorities that are trusted, instead of the system's.
const AUTHORITIES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
/// Of an answer: it tells how many spans were refused, and why.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Client {
    agent: ureq::Agent,
    /// The endpoint, as it may be shown.
    place: String,
    failing: AtomicBool,
}

impl Client {
    /// Nothing is sent yet. Fails, and says why, when whom to trust cannot be read.
    pub(super) fn new(place: String, tls: bool) -> Result<Self, String> {
        let limit = TIME_LIMITS.into_iter().find_map(variable).and_then(|limit| limit.parse().ok());
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(limit.map_or(DEFAULT_TIME_LIMIT, Duration::from_millis)))
            .http_status_as_error(false)
            // The headers may hold a secret, which is for the endpoint alone.
            .max_redirects(0)
            .max_redirects_will_error(false);
        if tls {
            config = config.tls_config(TlsConfig::builder().root_certs(authorities()?).build());
        }
        Ok(Self { agent: config.build().new_agent(), place, failing: AtomicBool::new(false) })
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (parts, body) = request.into_parts();
        let (parts, mut body) = self.agent.run(Request::from_parts(parts, &body[..]))?.into_parts();
        let body = body.with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }

    fn tell(&self, fault: Option<String>) {
        let failing = fault.is_some();
        if self.failing.swap(failing, Ordering::Relaxed) == failing {
            return;
        }
        match fault {
            Some(error) => {
                warn!(endpoint = self.place, error, "traces cannot be sent; they are dropped until they can")
            }
            None => info!(endpoint = self.place, "traces are sent again"),
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.send(request);
        self.tell(match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(fault) => Some(fault.to_string()),
        });
        Ok(answer?)
    }
}

/// Whom a TLS endpoint is trusted by.
fn authorities() -> Result<RootCerts, String> {
    let Some(path) = AUTHORITIES.into_iter().find_map(variable) else {
        let found = rustls_native_certs::load_native_certs().certs;
        return Ok(found.iter().map(|der| Certificate::from_der(der).to_owned()).into());
    };
    let pem = fs::read(&path).map_err(|fault| format!("{path}: {fault}"))?;
    let found = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        Ok(_) | Err(_) => None,
    });
    let found: Vec<Certificate<'static>> = found.collect();
    if found.is_empty() { Err(format!("{path} holds no certificate")) } else { Ok(found.into()) }
}
