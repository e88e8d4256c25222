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
/// Orders of many lines that make the SKUs' counters known before anything is measured.
const WARM_UP_ORDERS: u32 = 3000;

/// All that the measurements share.
pub(super) struct Session<'a> {
    pub(super) place: &'a Place,
    pub(super) crew: &'a mut Crew,
    pub(super) names: Names,
    pub(super) publisher: Publisher,
    light: Duration,
    ledger: Ledger,
    observer: Observer,
    runs: u32,
}

/// What is measured once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) contender: Contender,
    pub(super) workload: Workload,
    orders: u32,
}

impl<'a> Session<'a> {
    /// Measures all that the plan asks for.
    pub(super) async fn run(plan: &Plan, place: &'a Place, crew: &'a mut Crew) -> Result<Report, Error> {
        let mut session = Self::open(plan, place, crew).await?;
        session.put_plenty_in_place(plan).await?;
        let bar = progress_bar(plan);
        let mut report = Report::new(plan, session.names.prefix());
        for round in 0..plan.repeat {
            for &workload in &plan.workloads {
                for &contender in &plan.contenders {
                    bar.set_message(format!("{}: {}", workload.name(), contender.name()));
                    let orders = contender.scaled(workload.scaled(plan.orders));
                    let sample = session.measure(Run { contender, workload, orders }, plan.light).await?;
                    report.add(workload, contender, round, sample);
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        Ok(report)
    }

    async fn open(plan: &Plan, place: &'a Place, crew: &'a mut Crew) -> Result<Self, Error> {
        let ledger = place.prepare(crew).await?;
        let broker = &place.settings().broker;
        Ok(Self {
            place,
            crew,
            names: Names::new(&broker.name_prefix),
            publisher: Publisher::connect(broker).await?,
            light: plan.light,
            ledger,
            observer: Observer::connect(broker).await?,
            runs: 0,
        })
    }

    /// Stock of what does not sell out; and each SKU's counter is made known, which is a cost of its first order ever.
    async fn put_plenty_in_place(&mut self, plan: &Plan) -> Result<(), Error> {
        let many = Workload::Lines;
        for shelf in [Contender::OneAtATime.shelf(), Contender::Lastunit.shelf()] {
            place::stock(&self.ledger, many.skus(shelf), many.units(plan.orders)).await?;
        }
        let ours = plan.contenders.iter().any(|contender| contender.shelf() == Contender::Lastunit.shelf());
        if ours {
            let warm_up = Run { contender: Contender::Lastunit, workload: many, orders: WARM_UP_ORDERS };
            self.measure(warm_up, Duration::ZERO).await?;
        }
        Ok(())
    }

    /// One measurement, from a full queue to an empty one.
    async fn measure(&mut self, run: Run, light: Duration) -> Result<Sample, Error> {
        self.light = light;
        self.runs += 1;
        let (id, shelf) = (format!("r{:04}", self.runs), self.shelf(run).await?);
        let orders = Orders::new(run.workload, &shelf, &id).take(run.orders as usize);
        let messages = orders.map(|(id, body)| (Some(id), body));
        publish_orders(&self.publisher, &self.names, stream::iter(messages), |_| ()).await?;

        let mut listener = Listener::open(&self.place.settings().broker).await?;
        for command in run.contender.processes(run.workload) {
            self.crew.start(command)?;
        }
        let (rate, usage) = self.full_load(run, &mut listener).await?;
        let latencies = self.light_load(run, &shelf, &id, &mut listener).await?;
        self.crew.stop().await?;
        self.sweep().await?;
        let books = self.books(run, &id).await?;
        Ok(Sample { orders: run.orders, rate, usage, latencies, commits: books.map(|books| books.commits) })
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
        if self.light.is_zero() {
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
        let orders = Orders::new(run.workload, shelf, &format!("{id}light"));
        light::latencies(self, run, orders, self.light, listener).await
    }

    /// Dead letters of this run are of no use to anybody.
    async fn sweep(&self) -> Result<(), Error> {
        for queue in DeadQueue::ALL {
            self.observer.purge(&self.names.dead_queue(queue)).await?;
        }
        let left = self.observer.purge(&self.names.orders()).await?;
        if left > 0 {
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
        if books.decisions == u64::from(run.orders) {
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
