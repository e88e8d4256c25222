//! One measurement after the other.

use std::time::{Duration, Instant};

use futures_util::stream;
use indicatif::{ProgressBar, ProgressStyle};

use super::contender::Contender;
use super::database::Books;
use super::light;
use super::listener::Listener;
use super::place::{self, Place};
use super::process::Usage;
use super::report::{Report, Sample};
use super::workload::{Orders, Workload};
use super::{Error, Plan};
use crate::broker::client::{Observer, publish_orders};
use crate::broker::{DeadQueue, Names, Publisher};
use crate::demo::crew::Crew;
use crate::ledger::Ledger;

/// Without an event for so long, something is wrong.
pub(super) const STALLED_AFTER: Duration = Duration::from_secs(60);
/// How often a contender is looked at: one that has ended says so at once.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Old reservations are copies of so many, at most.
const HISTORY_ORIGINALS: u32 = 10_000;
/// Orders of many lines that make the SKUs' counters known before anything is measured.
const WARM_UP_ORDERS: u32 = 3000;

/// All that the measurements share.
pub(super) struct Session<'a> {
    pub(super) place: &'a Place,
    pub(super) crew: &'a mut Crew,
    pub(super) names: Names,
    pub(super) publisher: Publisher,
    plan: &'a Plan,
    ledger: Ledger,
    observer: Observer,
    bar: ProgressBar,
    runs: u32,
}

/// What is measured once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) contender: Contender,
    pub(super) workload: Workload,
    orders: u32,
    backlog: u32,
    order_bytes: usize,
    light: Duration,
}

impl Run {
    /// Decides so many orders, so that something is there.
    fn before(workload: Workload, orders: u32) -> Self {
        Self { contender: Contender::Lastunit, workload, orders, backlog: 0, order_bytes: 0, light: Duration::ZERO }
    }
}

impl<'a> Session<'a> {
    /// Measures all that the plan asks for.
    pub(super) async fn run(plan: &'a Plan, place: &'a Place, crew: &'a mut Crew) -> Result<Report, Error> {
        let mut session = Self::open(plan, place, crew).await?;
        session.put_plenty_in_place().await?;
        let history = session.write_history().await?;
        let mut report = Report::new(plan, session.names.prefix(), history);
        for round in 0..plan.repeat {
            for &workload in &plan.workloads {
                for &contender in &plan.contenders {
                    let orders = contender.scaled(workload.scaled(plan.orders));
                    let &Plan { backlog, order_bytes, light, .. } = plan;
                    let run = Run { contender, workload, orders, backlog, order_bytes, light };
                    let sample = session.measure(run).await?;
                    report.add(workload, contender, round, sample);
                    session.bar.inc(1);
                }
            }
        }
        session.bar.finish_and_clear();
        Ok(report)
    }

    async fn open(plan: &'a Plan, place: &'a Place, crew: &'a mut Crew) -> Result<Self, Error> {
        let ledger = place.prepare(crew).await?;
        let broker = &place.settings().broker;
        Ok(Self {
            place,
            crew,
            names: Names::new(&broker.name_prefix),
            publisher: Publisher::connect(broker).await?,
            plan,
            ledger,
            observer: Observer::connect(broker).await?,
            bar: progress_bar(plan),
            runs: 0,
        })
    }

    /// Stock of what does not sell out; and each SKU's counter is made known, which is a cost of its first order ever.
    async fn put_plenty_in_place(&mut self) -> Result<(), Error> {
        let many = Workload::Lines;
        for shelf in [Contender::OneAtATime.shelf(), Contender::Lastunit.shelf()] {
            place::stock(&self.ledger, many.skus(shelf), many.units(self.plan.orders)).await?;
        }
        let ours = self.plan.contenders.iter().any(|contender| contender.shelf() == Contender::Lastunit.shelf());
        if ours {
            self.measure(Run::before(many, WARM_UP_ORDERS)).await?;
        }
        Ok(())
    }

    /// A worker decides some orders, and copies of their rows make up the rest. Returns how many reservations there are.
    async fn write_history(&mut self) -> Result<u64, Error> {
        let wanted = self.plan.history;
        if wanted == 0 {
            return Ok(0);
        }
        let originals = wanted.min(HISTORY_ORIGINALS).min(self.plan.orders);
        self.measure(Run::before(Workload::Uniform, originals)).await?;
        let written = |copied: u64| self.bar.set_message(format!("history: {copied} of {wanted} reservations"));
        let copied = self.place.database().copy(&self.id(), wanted.div_ceil(originals) - 1, written).await?;
        Ok(u64::from(originals) + copied)
    }

    /// What the order ids of the present measurement hold, before a hyphen.
    fn id(&self) -> String {
        format!("r{:04}", self.runs)
    }

    /// One measurement, from a full queue to an empty one.
    async fn measure(&mut self, run: Run) -> Result<Sample, Error> {
        self.runs += 1;
        let (id, shelf) = (self.id(), self.shelf(run).await?);
        let doing =
            |what: &str| self.bar.set_message(format!("{}: {}{what}", run.workload.name(), run.contender.name()));
        let count = run.orders as usize + run.backlog as usize;
        let messages = self.orders(run, &shelf, &id).take(count).map(|(id, body)| (Some(id), body));
        let mut waiting = 0;
        let published = |orders| {
            waiting += orders;
            doing(&format!(" ({waiting} of {count} orders are in the queue)"));
        };
        publish_orders(&self.publisher, &self.names, stream::iter(messages), published).await?;
        doing("");

        let mut listener = Listener::open(&self.place.settings().broker).await?;
        for command in run.contender.processes(run.workload) {
            self.crew.start(command)?;
        }
        let (rate, usage) = self.full_load(run, &mut listener).await?;
        let latencies = self.light_load(run, &shelf, &id, &mut listener).await?;
        self.crew.stop().await?;
        self.sweep(run).await?;
        let books = self.books(run, &id).await?;
        Ok(Sample { orders: run.orders, rate, usage, latencies, books })
    }

    /// Orders as the plan wants them, with ids that hold `id`.
    fn orders(&self, run: Run, shelf: &str, id: &str) -> Orders {
        Orders::new(run.workload, shelf, id).with_bytes(run.order_bytes).scattered(self.plan.scattered_ids)
    }

    /// The shelf's name. What sells out is a new SKU each time.
    async fn shelf(&self, run: Run) -> Result<String, Error> {
        let shelf = run.contender.shelf();
        if run.workload != Workload::SoldOut {
            return Ok(shelf.to_owned());
        }
        let shelf = format!("{shelf}-{}", self.runs);
        place::stock(&self.ledger, run.workload.skus(&shelf), run.workload.units(run.orders)).await?;
        Ok(shelf)
    }

    /// Events a second between the first tenth and the last; and what the contender used for all.
    async fn full_load(&mut self, run: Run, listener: &mut Listener) -> Result<(f64, Usage), Error> {
        let orders = run.orders as usize;
        let (first, last) = (orders.div_ceil(10), (orders * 9).div_ceil(10).max(2));
        let (mut heard, mut begun, mut ended) = (0, Instant::now(), Instant::now());
        let mut watch = Watch::new(run);
        let before = Usage::of(&self.crew.process_ids());
        while heard < orders {
            tokio::select! {
                event = listener.next() => {
                    event?;
                    heard += 1;
                    if heard == first {
                        begun = Instant::now();
                    } else if heard == last {
                        ended = Instant::now();
                    }
                }
                () = watch.tick() => watch.check(self.crew, heard, orders)?,
            }
        }
        let usage = Usage::of(&self.crew.process_ids()) - before;
        Ok(((last - first) as f64 / (ended - begun).as_secs_f64(), usage))
    }

    /// The time to each order's event at 200 orders a second.
    async fn light_load(
        &mut self,
        run: Run,
        shelf: &str,
        id: &str,
        listener: &mut Listener,
    ) -> Result<Vec<Duration>, Error> {
        if run.light.is_zero() {
            return Ok(Vec::new());
        }
        if let Some(instead) = run.contender.under_light_load() {
            self.crew.stop().await?;
            self.crew.start(instead)?;
            while self.observer.consumers(&self.names.orders()).await? == 0 {
                self.crew.check()?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let orders = self.orders(run, shelf, &format!("{id}light"));
        light::latencies(self, run, orders, run.light, listener).await
    }

    /// Dead letters of this run are of no use to anybody, nor is its backlog.
    async fn sweep(&self, run: Run) -> Result<(), Error> {
        for queue in DeadQueue::ALL {
            self.observer.purge(&self.names.dead_queue(queue)).await?;
        }
        let left = self.observer.purge(&self.names.orders()).await?;
        if left > u64::from(run.backlog) {
            tracing::warn!(orders = left, "a contender gave orders back that it had decided");
        }
        Ok(())
    }

    /// A contender that was fast because it lost orders has not been measured.
    async fn books(&self, run: Run, id: &str) -> Result<Option<Books>, Error> {
        if !run.contender.has_books() {
            return Ok(None);
        }
        let books = self.place.database().count(id).await?;
        // Before it is stopped it goes on with the backlog.
        let possible = u64::from(run.orders)..=u64::from(run.orders) + u64::from(run.backlog);
        if possible.contains(&books.decisions) {
            return Ok(Some(books));
        }
        Err(Error::Books { contender: run.contender.name(), events: run.orders, decisions: books.decisions })
    }
}

/// Notices a contender that has ended or does not go on.
pub(super) struct Watch {
    contender: &'static str,
    look: tokio::time::Interval,
    heard: usize,
    progressed: Instant,
}

impl Watch {
    pub(super) fn new(run: Run) -> Self {
        let look = tokio::time::interval(LOOK_EVERY);
        Self { contender: run.contender.name(), look, heard: 0, progressed: Instant::now() }
    }

    pub(super) async fn tick(&mut self) {
        self.look.tick().await;
    }

    /// Fails when a process is gone, or `heard` has not changed for long.
    pub(super) fn check(&mut self, crew: &mut Crew, heard: usize, orders: usize) -> Result<(), Error> {
        crew.check()?;
        if heard > self.heard {
            (self.heard, self.progressed) = (heard, Instant::now());
        } else if self.progressed.elapsed() > STALLED_AFTER {
            return Err(Error::Stalled { contender: self.contender, heard, orders, limit: STALLED_AFTER });
        }
        Ok(())
    }
}

fn progress_bar(plan: &Plan) -> ProgressBar {
    let total = plan.repeat as usize * plan.workloads.len() * plan.contenders.len();
    let style = ProgressStyle::with_template("  measured {bar:40.green} {pos}/{len}  {eta} left  {msg}");
    // A template that cannot be read is a slip of the pen; the bench goes on with the plain bar.
    ProgressBar::new(total as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
