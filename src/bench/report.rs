//! Medians, spread and ratios of what was measured: a table for people, and serialisable for programs.

use std::fmt;
use std::time::Duration;

use comfy_table::{CellAlignment, LineStyle, Table, presets};
use serde::Serialize;

use super::Plan;
use super::contender::Contender;
use super::database::Books;
use super::process::Usage;
use super::workload::Workload;

/// One measurement.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) orders: u32,
    /// Orders a second.
    pub(super) rate: f64,
    pub(super) usage: Usage,
    /// Under light load, from when each order should have been sent to its event.
    pub(super) latencies: Vec<Duration>,
    pub(super) books: Option<Books>,
}

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What all names began with: nothing of that is left.
    pub names: String,
    /// Measurements of each contender under each workload.
    pub repeat: u32,
    /// Reservations that lay in the tables before.
    pub history: u64,
    /// Orders that waited behind those that were measured.
    pub backlog: u32,
    /// Smallest size of an order's message, bytes; 0: as long as what has to be in it.
    pub order_bytes: usize,
    /// Whether order ids were random instead of ascending.
    pub scattered_ids: bool,
    /// One per workload and contender.
    pub lines: Vec<Line>,
}

/// A contender under a workload.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Which load.
    pub workload: &'static str,
    /// Who.
    pub contender: &'static str,
    /// Orders of each measurement.
    pub orders: u32,
    /// Orders a second.
    pub rate: Spread,
    /// The rate in parts of pass-through's, within a round.
    pub to_pass_through: Option<Spread>,
    /// The rate in multiples of one at a time's, within a round.
    pub to_one_at_a_time: Option<Spread>,
    /// At 200 orders a second, milliseconds; `None` when there was no light load.
    pub latency_ms: Option<Latency>,
    /// Orders in one transaction, on average.
    pub batch: Option<Spread>,
    /// Transactions.
    pub commits: Option<Spread>,
    /// CPU time of all its processes per order, start included, microseconds.
    pub cpu_us_per_order: Spread,
    /// Largest resident size of one process, MiB.
    pub peak_mib: Spread,
    #[serde(skip)]
    kind: (Workload, Contender),
    #[serde(skip)]
    samples: Vec<(u32, Sample)>,
}

/// The middle of several measurements, and how far they lie apart.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// Times from publishing to the event, of all measurements together, milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Half of the orders were faster.
    pub p50: f64,
    /// 99 of 100 were.
    pub p99: f64,
    /// 999 of 1,000 were.
    pub p999: f64,
    /// How many were measured.
    pub orders: usize,
}

impl Report {
    pub(super) fn new(plan: &Plan, names: &str, history: u64) -> Self {
        let kinds = plan
            .workloads
            .iter()
            .flat_map(|&workload| plan.contenders.iter().map(move |&contender| Line::new((workload, contender))));
        let &Plan { repeat, backlog, order_bytes, scattered_ids, .. } = plan;
        let (names, lines) = (names.to_owned(), kinds.collect());
        Self { names, repeat, history, backlog, order_bytes, scattered_ids, lines }
    }

    /// Takes a measurement in, and works its lines out anew.
    pub(super) fn add(&mut self, workload: Workload, contender: Contender, round: u32, sample: Sample) {
        let Some(line) = self.line(workload, contender) else { return };
        line.samples.push((round, sample));
        line.summarise();
        for other in Contender::ALL {
            let to_pass_through = self.ratios(workload, other, Contender::PassThrough);
            let to_one_at_a_time = self.ratios(workload, other, Contender::OneAtATime);
            if let Some(line) = self.line(workload, other) {
                (line.to_pass_through, line.to_one_at_a_time) = (to_pass_through, to_one_at_a_time);
            }
        }
    }

    fn line(&mut self, workload: Workload, contender: Contender) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.kind == (workload, contender))
    }

    /// Of two rates of the same round, for all rounds that have both.
    fn ratios(&self, workload: Workload, of: Contender, to: Contender) -> Option<Spread> {
        let samples = |contender| {
            let line = self.lines.iter().find(|line| line.kind == (workload, contender));
            line.map(|line| &line.samples[..]).unwrap_or_default()
        };
        let ratio = |(round, sample): &(u32, Sample)| {
            let (_, basis) = samples(to).iter().find(|(other, _)| other == round)?;
            Some(sample.rate / basis.rate)
        };
        Spread::of(samples(of).iter().filter_map(ratio))
    }
}

impl Line {
    fn new(kind: (Workload, Contender)) -> Self {
        Self {
            workload: kind.0.name(),
            contender: kind.1.name(),
            orders: 0,
            rate: Spread::default(),
            to_pass_through: None,
            to_one_at_a_time: None,
            latency_ms: None,
            batch: None,
            commits: None,
            cpu_us_per_order: Spread::default(),
            peak_mib: Spread::default(),
            kind,
            samples: Vec::new(),
        }
    }

    fn summarise(&mut self) {
        let each = || self.samples.iter().map(|(_, sample)| sample);
        let books = || each().filter_map(|sample| sample.books);
        let spread = |values: &mut dyn Iterator<Item = f64>| Spread::of(values).unwrap_or_default();
        let cpu = |sample: &Sample| sample.usage.cpu.as_secs_f64() * 1e6 / f64::from(sample.orders);
        self.rate = spread(&mut each().map(|sample| sample.rate));
        self.cpu_us_per_order = spread(&mut each().map(cpu));
        self.peak_mib = spread(&mut each().map(|sample| sample.usage.peak_bytes as f64 / f64::from(1 << 20)));
        self.commits = Spread::of(books().map(|books| books.commits as f64));
        self.batch = Spread::of(books().map(|books| books.decisions as f64 / books.commits as f64));
        self.latency_ms = Latency::of(each().flat_map(|sample| sample.latencies.iter().copied()).collect());
        self.orders = each().map(|sample| sample.orders).max().unwrap_or_default();
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), min, max })
    }
}

impl Latency {
    fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        // The smallest time that so many of 1,000 do not exceed.
        let at = |per_mille: usize| {
            let rank = (times.len() * per_mille).div_ceil(1000).max(1);
            times.get(rank - 1).map(|time| time.as_secs_f64() * 1e3)
        };
        Some(Self { p50: at(500)?, p99: at(990)?, p999: at(999)?, orders: times.len() })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')));
        table.set_header([
            "",
            "orders/s",
            "min–max",
            "× pass-\nthrough",
            "× one at\na time",
            "p50\nms",
            "p99\nms",
            "p99.9\nms",
            "batch",
            "commits",
            "CPU µs\n/order",
            "peak\nMiB",
        ]);
        let mut workload = "";
        for line in &self.lines {
            if line.workload != workload {
                workload = line.workload;
                table.add_row([workload]);
            }
            table.add_row(line.cells());
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 1));
            if index > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        write!(f, "{table}\nmedians of {} (ratios: within a round)", self.repeat)?;
        if self.lines.iter().any(|line| line.latency_ms.is_some()) {
            f.write_str("; latency at 200 orders/s")?;
        }
        f.write_str("\nbatch: orders per commit; CPU time of all processes of a contender, peak of the largest")?;
        for (count, what) in [
            (self.history, "reservations before"),
            (self.backlog.into(), "orders behind those that were measured"),
            (self.order_bytes as u64, "bytes in each order at least"),
        ] {
            if count > 0 {
                write!(f, "\n{count} {what}")?;
            }
        }
        if self.scattered_ids {
            f.write_str("\norder ids in no sequence")?;
        }
        if self.lines.iter().any(Line::is_short) {
            f.write_str("\nmeasured for less than a second here and there, which says little: give it more --orders")?;
        }
        Ok(())
    }
}

impl Line {
    /// Whether the contender was done before its rate could settle.
    fn is_short(&self) -> bool {
        self.rate.max > f64::from(self.orders)
    }

    fn cells(&self) -> [String; 12] {
        let some = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let latency = |of: fn(Latency) -> f64| some(self.latency_ms.map(|latency| format!("{:.1}", of(latency))));
        [
            format!("  {}", self.contender),
            format!("{:.0}", self.rate.median),
            format!("{:.0}–{:.0}", self.rate.min, self.rate.max),
            some(self.to_pass_through.map(|ratio| format!("{:.2}", ratio.median))),
            some(self.to_one_at_a_time.map(|ratio| format!("{:.1}", ratio.median))),
            latency(|latency| latency.p50),
            latency(|latency| latency.p99),
            latency(|latency| latency.p999),
            some(self.batch.map(|batch| format!("{:.0}", batch.median))),
            some(self.commits.map(|commits| format!("{:.0}", commits.median))),
            format!("{:.0}", self.cpu_us_per_order.median),
            format!("{:.0}", self.peak_mib.median),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: f64) -> Sample {
        let latencies = (1..=1000).map(Duration::from_millis).collect();
        let books = Some(Books { decisions: 1000, commits: 10 });
        Sample { orders: 1000, rate, usage: Usage::default(), latencies, books }
    }

    fn report() -> Report {
        let workloads = vec![Workload::Hot];
        let contenders = vec![Contender::PassThrough, Contender::Lastunit];
        let light = Duration::ZERO;
        let (history, backlog, order_bytes, scattered_ids) = (0, 0, 0, false);
        let plan = Plan {
            orders: 1000,
            repeat: 2,
            light,
            history,
            backlog,
            order_bytes,
            scattered_ids,
            workloads,
            contenders,
        };
        let mut report = Report::new(&plan, "names", 0);
        for (round, pass_through, lastunit) in [(0, 10_000.0, 8_000.0), (1, 1_000.0, 600.0)] {
            report.add(Workload::Hot, Contender::PassThrough, round, sample(pass_through));
            report.add(Workload::Hot, Contender::Lastunit, round, sample(lastunit));
        }
        report
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let ratio = report().lines[1].to_pass_through.expect("both were measured");
        assert!((ratio.median - 0.7).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.min - 0.6).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn what_was_not_measured_has_no_ratio() {
        assert!(report().lines[1].to_one_at_a_time.is_none());
        assert!(report().to_string().contains('–'));
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let table = report().to_string();
        assert!(table.lines().all(|line| line.trim_end().chars().count() <= 120), "{table}");
    }

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let latency = report().lines[0].latency_ms.expect("measured");
        assert_eq!((latency.p50, latency.p99, latency.p999), (500.0, 990.0, 999.0));
    }
}
