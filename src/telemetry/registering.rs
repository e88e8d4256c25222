//! Registering families of metrics whose label values are known beforehand, so that each is found by its place.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// A label's name and all its values.
pub(super) type Label<const N: usize> = (&'static str, [&'static str; N]);

type Labels<const N: usize> = [(&'static str, String); N];

pub(super) fn info(registry: &mut Registry, name: &str, help: &str, label: &'static str, value: &'static str) {
    registry.register(name, help, Info::new([(label, value)]));
}

pub(super) fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

pub(super) fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

pub(super) fn histogram(registry: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let histogram = Histogram::new(buckets.iter().copied());
    registry.register(name, help, histogram.clone());
    histogram
}

/// One counter per label value, in their sequence.
pub(super) fn counters<S: AsRef<str>>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    (label, values): &(&'static str, impl AsRef<[S]>),
) -> Vec<Counter> {
    family(registry, name, help, values.as_ref().iter().map(|value| [(*label, value.as_ref())]))
}

/// One counter per set of labels, in their sequence.
pub(super) fn family<'a, const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    labels: impl Iterator<Item = [(&'static str, &'a str); N]>,
) -> Vec<Counter> {
    let family = Family::<Labels<N>, Counter>::default();
    registry.register(name, help, family.clone());
    let own = |labels: [(&'static str, &str); N]| labels.map(|(name, value)| (name, value.to_owned()));
    labels.map(|labels| family.get_or_create_owned(&own(labels))).collect()
}

/// One gauge per label value, in their sequence.
pub(super) fn gauges<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    (label, values): &Label<N>,
) -> Vec<Gauge> {
    let family = Family::<Labels<1>, Gauge>::default();
    registry.register(name, help, family.clone());
    values.iter().map(|value| family.get_or_create_owned(&[(*label, (*value).to_owned())])).collect()
}

/// One histogram per label value, in their sequence.
pub(super) fn histograms<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    (label, values): &Label<N>,
    buckets: &'static [f64],
) -> Vec<Histogram> {
    let new = move || Histogram::new(buckets.iter().copied());
    let family = Family::<Labels<1>, Histogram, _>::new_with_constructor(new);
    registry.register(name, help, family.clone());
    values.iter().map(|value| family.get_or_create_owned(&[(*label, (*value).to_owned())])).collect()
}
