//! The worker's loop: owns the waiting orders, starts a task per batch, and drains at the end.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tracing::{debug, error, info, warn};

use super::batch::{self, Outcome};
use super::context::{Context, Trouble};
use super::idle::Idle;
use super::intake::{self, Intake};
use super::outage::{Action, Outage};
use super::pace::{Crowd, Pace};
use super::settle::{Settled, settle};
use super::succession::Succession;
use super::waiting::{Batch, BatchId, BatchLimits, Job, Overdue, Waiting};
use super::{Error, Parts, leasing, overdue, standing};
use crate::broker::{Consumer, Event};
use crate::config;
use crate::health::Phase;
use crate::lease::Attempt;
use crate::order::Sku;
use crate::telemetry::Span;

/// Deliveries taken in at once before batches are formed.
const INTAKE: usize = 1024;

/// Orders wait, are decided, or are published and acknowledged: when all three are as busy, the prefetch is shared by them.
const STAGES: usize = 3;

/// The worker's loop.
pub struct Dispatcher {
    context: Arc<Context>,
    consumer: Consumer,
    intake: Intake,
    waiting: Waiting,
    /// Batches before their commit.
    pace: Pace,
    succession: Succession,
    tasks: JoinSet<()>,
    reports: mpsc::UnboundedReceiver<Report>,
    reporter: mpsc::UnboundedSender<Report>,
    outage: Option<Outage>,
    idle: Idle,
    draining: bool,
}

/// What a task tells the loop. In one channel, because a batch's reports must come before those of its successor.
#[derive(Debug)]
pub enum Report {
    /// A batch is about to commit; the next one may go on with these SKUs, in succession to the leases of this attempt.
    Lent { batch: BatchId, attempt: Attempt, skus: Vec<Sku> },
    /// A batch is through with its SKUs, after having waited behind others; it goes on to publish by itself.
    Batch { id: BatchId, waited: Duration, skus: Vec<Sku>, outcome: Outcome },
    /// An overdue order could not be resolved.
    Back(Job, Trouble),
    /// The services were asked whether they are back.
    Probed(Result<(), Trouble>),
}

impl Dispatcher {
    /// Nothing has happened yet.
    pub fn new(parts: Parts, consumer: Consumer) -> Self {
        let context = Arc::new(Context::new(parts, consumer.control.clone()));
        let settings = &context.settings;
        let config::Batch { max_orders, max_lines, max_in_flight } = settings.batch;
        let enough = max_orders.min(usize::from(settings.broker.prefetch) / STAGES).max(1);
        let limits = BatchLimits { max_orders, max_lines, enough };
        let pace = Pace::new(max_in_flight);
        let (reporter, reports) = mpsc::unbounded_channel();
        Self {
            intake: Intake::new(settings, Arc::clone(&context.metrics)),
            waiting: Waiting::new(limits, settings.lease.wait_ms.duration()),
            context,
            consumer,
            pace,
            succession: Succession::new(reporter.clone()),
            tasks: JoinSet::new(),
            reports,
            reporter,
            outage: None,
            idle: Idle::new(Instant::now()),
            draining: false,
        }
    }

    /// Works until `shutdown`, then drains.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        tokio::pin!(shutdown);
        let mut events = Vec::with_capacity(INTAKE);
        let ended = loop {
            let alarm = self.context.health.turned(self.next_alarm());
            tokio::select! {
                () = &mut shutdown => break Ok(()),
                count = self.consumer.events.recv_many(&mut events, INTAKE) => {
                    if count == 0 {
                        break Ok(());
                    }
                    self.take_in(events.drain(..));
                }
                Some(report) = self.reports.recv() => self.on_report(report),
                Some(ended) = self.tasks.join_next() => if let Err(error) = panicked(ended) { break Err(error) },
                () = tokio::time::sleep_until(alarm.into()) => {}
            }
            self.advance(Instant::now());
            self.context.metrics.load(self.waiting.len(), self.pace.in_work());
        };
        let drained = self.drain().await;
        ended.and(drained)
    }

    /// Reads deliveries; what is no order is settled at once.
    fn take_in(&mut self, events: impl Iterator<Item = Event>) {
        let mut malformed = Vec::new();
        for event in events {
            match event {
                Event::Delivery(delivery) => match self.intake.read(delivery) {
                    Ok(job) => self.waiting.push(job),
                    Err(settled) => malformed.push(settled),
                },
                Event::Lost { session } => {
                    self.context.end_session(session);
                    let context = &self.context;
                    self.waiting.retain(|job| context.is_live(job.delivery.tag));
                }
            }
        }
        if !malformed.is_empty() {
            intake::report_malformed(&malformed);
            self.spawn_settle(malformed);
        }
    }

    fn on_report(&mut self, report: Report) {
        let now = Instant::now();
        match report {
            Report::Lent { batch, attempt, skus } => {
                self.pace.commits(batch);
                self.waiting.lend(batch, attempt, skus, now);
            }
            Report::Batch { id, waited, skus, outcome } => {
                self.pace.end(id, waited, now);
                self.succession.end(id);
                self.on_batch(id, skus, outcome, now);
            }
            Report::Back(job, trouble) => {
                self.put_back(vec![job], now);
                self.on_trouble(trouble, now);
            }
            Report::Probed(answer) => self.on_probed(answer, now),
        }
    }

    /// Frees a batch's SKUs. The next batch may go on with their leases; those that it does not want are given back.
    fn on_batch(&mut self, id: BatchId, skus: Vec<Sku>, outcome: Outcome, now: Instant) {
        let Outcome { settled: _, back, contests, mut leases, trouble } = outcome;
        let had = skus.iter().filter(|sku| !contests.contains_key(*sku));
        let unused = self.waiting.free(id, had.map(|sku| (sku.clone(), leases.remove(sku))), now);
        self.context.metrics.waited(self.waiting.take_waits());
        if trouble.is_none() && !back.is_empty() {
            self.context.control.survived();
        }
        self.waiting.contest(id, contests, now);
        // A batch that waits for leases shows nothing.
        let is_through = trouble.is_none() && back.is_empty();
        self.put_back(back, now);
        match trouble {
            Some(trouble) => self.on_trouble(trouble, now),
            None if is_through => self.end_outage(now),
            None => {}
        }
        self.advance(now);
        let unwanted = self.waiting.unkeep(&skus);
        self.spawn_release(unused.into_iter().chain(unwanted).chain(leases));
    }

    fn put_back(&mut self, jobs: Vec<Job>, now: Instant) {
        let context = &self.context;
        let jobs = jobs.into_iter().filter(|job| context.is_live(job.delivery.tag)).collect();
        for overdue in self.waiting.put_back(jobs, now) {
            self.spawn_overdue(overdue);
        }
    }

    /// One log line per outage, however many batches meet it.
    fn on_trouble(&mut self, trouble: Trouble, now: Instant) {
        standing::service_fails(&self.context.health, &trouble);
        match &mut self.outage {
            None => {
                error!(error = %trouble, "a service is away; no order is taken on until it answers");
                self.outage = Some(Outage::begin(now));
            }
            Some(outage) if outage.on_trial() => {
                debug!(error = %trouble, "the service answers, but not to work");
                outage.still_away(now);
            }
            Some(_) => {}
        }
    }

    /// The services were asked whether they work.
    fn on_probed(&mut self, answer: Result<(), Trouble>, now: Instant) {
        self.idle.answered(now);
        let quiet = self.is_quiet();
        match (answer, &mut self.outage) {
            // Nothing came that could be tried, and they have answered once more.
            (Ok(()), Some(outage)) if outage.on_trial() && quiet => self.end_outage(now),
            (Ok(()), _) => self.try_again(now),
            (Err(trouble), None) => self.on_trouble(trouble, now),
            (Err(trouble), Some(outage)) => {
                outage.still_away(now);
                standing::service_fails(&self.context.health, &trouble);
            }
        }
    }

    /// Whether there is nothing from which to learn how the services are.
    fn is_quiet(&self) -> bool {
        let idle = self.waiting.is_empty() && self.pace.in_work() == 0;
        idle && !self.draining && self.outage.as_ref().is_none_or(Outage::on_trial)
    }

    fn try_again(&mut self, now: Instant) {
        if self.outage.as_mut().is_some_and(|outage| outage.answered(now)) {
            self.context.control.resume();
        }
    }

    /// A batch went through, or a worker without work has asked twice.
    fn end_outage(&mut self, now: Instant) {
        if let Some(outage) = self.outage.take_if(|outage| outage.on_trial()) {
            standing::services_work(&self.context.health);
            info!(seconds = outage.lasted(now).as_secs_f64(), "all services work again; going on");
        }
    }

    /// Does whatever can be done now.
    fn advance(&mut self, now: Instant) {
        self.waiting.tick(now);
        if self.idle.due(self.is_quiet(), now) {
            self.spawn_probe();
        }
        while let Some(action) = self.outage.as_mut().and_then(|outage| outage.due(now)) {
            match action {
                Action::Probe => self.spawn_probe(),
                Action::GiveBack => {
                    warn!(
                        orders = self.waiting.len(),
                        "the outage lasts; messages in hand are given back to the queue"
                    );
                    self.context.control.pause();
                    self.waiting.retain(|_| false);
                }
            }
        }
        while !self.draining && self.may_start(now) {
            let Some(batch) = self.waiting.take_batch(now) else { return };
            self.spawn_batch(batch, now);
        }
    }

    /// During an outage one batch is tried at a time, once the services have answered.
    fn may_start(&self, now: Instant) -> bool {
        match &self.outage {
            None => self.pace.may_start(self.crowd(), now),
            Some(outage) => outage.on_trial() && self.pace.in_work() == 0,
        }
    }

    fn crowd(&self) -> Crowd {
        self.waiting.crowd(self.context.outbound.count())
    }

    fn next_alarm(&self) -> Option<Instant> {
        let outage = self.outage.as_ref().and_then(Outage::next_alarm);
        let pace = self.pace.next_alarm(self.crowd()).filter(|_| self.outage.is_none() && self.waiting.can_start());
        self.waiting.next_alarm().into_iter().chain(outage).chain(pace).min()
    }

    fn spawn_batch(&mut self, batch: Batch, now: Instant) {
        let (context, reporter) = (self.context.clone(), self.reporter.clone());
        let Batch { id, jobs, requests, behind } = batch;
        self.pace.start(id, now);
        let mut place = self.succession.start(id, &behind, self.pace.patience());
        self.tasks.spawn(async move {
            let span = context.begin_span(jobs.len(), jobs.iter().map(|job| &*job.delivery));
            let work = async {
                let skus = requests.iter().map(|request| request.sku.clone()).collect();
                let mut outcome = batch::decide(&context, jobs, requests, &mut place).await;
                Span::decided(outcome.settled.len(), outcome.back.len(), outcome.trouble.as_ref());
                let settled = std::mem::take(&mut outcome.settled);
                report(&reporter, Report::Batch { id, waited: place.waited, skus, outcome });
                drop(place);
                settle(&context, settled).await;
            };
            span.around(work).await;
        });
    }

    fn spawn_settle(&mut self, settled: Vec<Settled>) {
        let context = self.context.clone();
        self.tasks.spawn(async move {
            let span = context.begin_span(settled.len(), settled.iter().map(|settled| &*settled.delivery));
            span.around(settle(&context, settled)).await;
        });
    }

    fn spawn_overdue(&mut self, overdue: Overdue) {
        let (context, reporter) = (self.context.clone(), self.reporter.clone());
        self.tasks.spawn(async move {
            match overdue::resolve(&context, overdue).await {
                Ok(settled) => settle(&context, vec![settled]).await,
                Err((job, trouble)) => report(&reporter, Report::Back(job, trouble)),
            }
        });
    }

    fn spawn_release(&mut self, leases: impl Iterator<Item = (Sku, Attempt)>) {
        let mut by_attempt: HashMap<Attempt, Vec<Sku>> = HashMap::new();
        for (sku, attempt) in leases {
            by_attempt.entry(attempt).or_default().push(sku);
        }
        for (attempt, skus) in by_attempt {
            let context = self.context.clone();
            self.tasks.spawn(async move { leasing::give_back(&context, attempt, &skus).await });
        }
    }

    fn spawn_probe(&mut self) {
        let (context, reporter) = (self.context.clone(), self.reporter.clone());
        // A database that was away may come back as another one. While it is there its schema may be ahead of this worker.
        let may_differ = self.outage.is_some();
        self.tasks.spawn(async move { report(&reporter, Report::Probed(probe(&context, may_differ).await)) });
    }

    /// Takes nothing new, waits for what is in flight, and gives the rest back.
    async fn drain(mut self) -> Result<(), Error> {
        self.draining = true;
        self.context.health.lock().enter(Phase::Draining);
        self.context.begin_drain();
        let grace = self.context.settings.shutdown.grace_ms.duration();
        info!(batches = self.pace.in_work(), waiting = self.waiting.len(), "finishing what is in flight");
        let finished = tokio::time::timeout(grace, self.finish()).await;
        let left = self.tasks.len();
        self.tasks.abort_all();
        self.consumer.control.close().await;
        match finished {
            Ok(finished) => finished,
            Err(_) => Err(Error::Unfinished(left)),
        }
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.consumer.control.stop().await;
        loop {
            tokio::select! {
                biased;
                Some(report) = self.reports.recv() => {
                    self.on_report(report);
                    self.context.metrics.load(self.waiting.len(), self.pace.in_work());
                }
                ended = self.tasks.join_next() => match ended {
                    Some(ended) => panicked(ended)?,
                    None => return Ok(()),
                },
            }
        }
    }
}

/// Asks both services to write something that changes nothing: reading works on a full or read-only server, too.
async fn probe(context: &Context, may_differ: bool) -> Result<(), Trouble> {
    if may_differ {
        context.ledger.verify_schema().await?;
    }
    context.ledger.probe().await?;
    context.leases.ping().await?;
    Ok(())
}

/// The loop outlives its tasks; when it is gone, so is the process.
fn report(reporter: &mpsc::UnboundedSender<Report>, report: Report) {
    if reporter.send(report).is_err() {
        warn!("a task ended after the worker's loop");
    }
}

fn panicked(ended: Result<(), JoinError>) -> Result<(), Error> {
    match ended {
        Err(error) if error.is_panic() => Err(Error::Panicked(error.to_string())),
        Ok(()) | Err(_) => Ok(()),
    }
}
