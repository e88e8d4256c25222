//! What the spans say. Names of attributes are OpenTelemetry's conventions for messaging, as far as they have one.

use std::fmt::Display;
use std::future::Future;
use std::sync::OnceLock;

use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{FutureExt as _, Link, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;

/// Links of one span: what the SDK keeps by default.
const MAX_LINKS: usize = 128;

/// Set once, when traces are to be sent.
pub(super) static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// A batch's span, from when its messages were put together until they are acknowledged. None where nothing is sent.
#[derive(Debug)]
pub struct Span(Option<Context>);

impl Span {
    /// Begins: a trace of its own, because a batch belongs to many. `traces` are the `traceparent` and `tracestate` of its
    /// messages, where they have any; it is linked to the first 128 of them.
    #[must_use]
    pub fn batch<'a>(
        queue: impl FnOnce() -> String,
        messages: usize,
        traces: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Self {
        let Some(tracer) = TRACER.get() else { return Self(None) };
        let queue = queue();
        let attributes = vec![
            KeyValue::new("messaging.system", "rabbitmq"),
            KeyValue::new("messaging.operation.type", "process"),
            KeyValue::new("messaging.operation.name", "process"),
            KeyValue::new("messaging.destination.name", queue.clone()),
            KeyValue::new("messaging.batch.message_count", count(messages)),
        ];
        let builder = tracer
            .span_builder(format!("process {queue}"))
            .with_kind(SpanKind::Consumer)
            .with_attributes(attributes)
            .with_links(traces.take(MAX_LINKS).filter_map(link).collect());
        let root = Context::new();
        Self(Some(root.with_span(builder.start_with_context(tracer, &root))))
    }

    /// Does the work within the span, which ends with it.
    pub async fn around<W: Future>(self, work: W) -> W::Output {
        match self.0 {
            Some(context) => work.with_context(context).await,
            None => work.await,
        }
    }

    /// How the batch went that this is called in: messages with an end, messages that go back to where they waited, and the
    /// service that failed.
    pub fn decided(settled: usize, back: usize, trouble: Option<&impl Display>) {
        if TRACER.get().is_none() {
            return;
        }
        let context = Context::current();
        let span = context.span();
        span.set_attribute(KeyValue::new("lastunit.batch.settled", count(settled)));
        span.set_attribute(KeyValue::new("lastunit.batch.back", count(back)));
        if let Some(trouble) = trouble {
            span.set_status(Status::error(trouble.to_string()));
        }
    }
}

/// Does a stage's work within a span of that name, inside of a batch's.
pub(in crate::telemetry) async fn stage<W: Future>(name: &'static str, work: W) -> W::Output {
    let _span = TRACER.get().and_then(|tracer| {
        let batch = Context::current();
        batch.has_active_span().then(|| tracer.start_with_context(name, &batch))
    });
    work.await
}

fn link((parent, state): (&str, Option<&str>)) -> Option<Link> {
    let carried = Carried { parent, state };
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carried);
    let context = context.span().span_context().clone();
    context.is_valid().then(|| Link::with_context(context))
}

/// A trace context as the SDK reads it.
struct Carried<'a> {
    parent: &'a str,
    state: Option<&'a str>,
}

impl Extractor for Carried<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => Some(self.parent),
            "tracestate" => self.state,
            _others => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

fn count(messages: usize) -> i64 {
    i64::try_from(messages).unwrap_or(i64::MAX)
}
