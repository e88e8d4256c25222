//! Sends spans, as the OTEL_* variables of the environment say.

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, Key, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{info, warn};
use url::Url;

use super::client::Client;
use super::spans::TRACER;
use super::{ENDPOINTS, variable};

/// How long a worker that has finished waits for its last spans to be taken.
const FAREWELL: Duration = Duration::from_secs(2);

/// Spans on their way, from a thread of their own. What is not taken in time is dropped; nobody waits for it.
#[derive(Debug)]
pub struct Sending(Option<SdkTracerProvider>);

impl Sending {
    /// Begins to send, when the environment names an endpoint. What is wrong with it is a line in the log and no more:
    /// traces are never worth an order. `worker` tells this process from others.
    #[must_use]
    pub fn start(worker: &str) -> Self {
        let is = |name, value| variable(name).is_some_and(|found| found.eq_ignore_ascii_case(value));
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Self(None);
        }
        let Some((name, endpoint)) = ENDPOINTS.into_iter().find_map(|name| Some((name, variable(name)?))) else {
            return Self(None);
        };
        match provider(&endpoint, worker) {
            Ok((provider, place)) => {
                let scope = InstrumentationScope::builder("lastunit").with_version(env!("CARGO_PKG_VERSION"));
                // Set before: another worker in this process, whose provider goes on.
                drop(TRACER.set(provider.tracer_with_scope(scope.build())));
                info!(endpoint = place, "traces are sent");
                Self(Some(provider))
            }
            Err(fault) => {
                warn!("no traces are sent, because of {name}: {fault}");
                Self(None)
            }
        }
    }

    /// Sends what is left, for two seconds at most.
    pub async fn finish(self) {
        let Some(provider) = self.0 else { return };
        let sent = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FAREWELL));
        if !matches!(tokio::time::timeout(FAREWELL, sent).await, Ok(Ok(Ok(())))) {
            warn!("the last traces were not sent");
        }
    }
}

/// By the SDK's own reading of the environment. With it the endpoint as it may be shown: a path may hold a token, as what
/// stands before an `@` does.
fn provider(endpoint: &str, worker: &str) -> Result<(SdkTracerProvider, String), String> {
    // The exporter's own words would show the value.
    let url = Url::parse(endpoint).map_err(|fault| fault.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("the address must begin with http:// or https://".into());
    }
    let place = url.origin().ascii_serialization();
    let exporter = SpanExporter::builder()
        .with_http()
        // The only one that is built in.
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(Client::new(place.clone(), url.scheme() == "https")?)
        .build()
        .map_err(|fault| fault.to_string())?;
    let provider = SdkTracerProvider::builder().with_resource(resource(worker)).with_batch_exporter(exporter).build();
    Ok((provider, place))
}

/// Who sends: what the environment says comes first.
fn resource(worker: &str) -> Resource {
    let said = Resource::builder().build();
    let is_said = |name| said.get(&Key::new(name)).is_some_and(|value| !value.as_str().starts_with("unknown_service"));
    let own =
        [("service.name", "lastunit"), ("service.version", env!("CARGO_PKG_VERSION")), ("service.instance.id", worker)];
    let own = own.into_iter().filter(|(name, _)| !is_said(*name));
    let own: Vec<KeyValue> = own.map(|(name, value)| KeyValue::new(name, value.to_owned())).collect();
    Resource::builder().with_attributes(own).build()
}
