//! PURE. Orders that wait for their SKUs: first come, first served per SKU.
//!
//! Every SKU has a *lane*: the waiting orders that want it, oldest first, and whether it is free, busy in a batch of this
//! worker, or contested by another worker. An order can start when it stands first in all of its lanes and all of them
//! are free; so one that has to wait holds back the later orders for its SKUs, and no others. A batch takes the oldest
//! orders that can start, and then those that could start if the ones before them were gone: within a batch they are
//! decided one after the other.
//!
//! A batch that has read and planned *lends* its SKUs: the next batch may already take leases for them, in succession to
//! this one's, while this one commits. It must then wait for this one's end before it reads.
//!
//! Each step costs time in the number of lines it touches, never in the number of orders that wait.

mod lane;
mod lending;
mod ready;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::{Lane, LaneState};
use ready::Ready;

use super::pace::Crowd;
use crate::broker::Delivery;
use crate::fence::FenceToken;
use crate::lease::Request;
use crate::order::{Order, Sku};

/// One in this many of the orders that are enough for a batch: when so many are decided and not published yet, deciding more
/// would only make them wait there.
const CONGESTED: usize = 2;

/// An order in the worker's hands.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its place in the sequence of arrival.
    pub arrival: u64,
    /// When it arrived.
    pub arrived: Instant,
    /// The message.
    pub delivery: Arc<Delivery>,
    /// What it says.
    pub order: Arc<Order>,
    /// It may have been decided before: look it up before a lease is taken for it.
    pub look_up: bool,
}

/// Names a batch of this worker.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BatchId(pub(super) u64);

/// Orders to be decided together.
#[derive(Debug)]
pub struct Batch {
    /// Its name.
    pub id: BatchId,
    /// Oldest first.
    pub jobs: Vec<Job>,
    /// The leases to ask for.
    pub requests: Vec<Request>,
    /// The batches that lent it SKUs: it may take leases at once, but must not read before these have ended.
    pub behind: HashSet<BatchId>,
}

/// Why a SKU could not be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Contest {
    /// Another worker's lease, for at most this time.
    Held(Duration),
    /// The fence refused: the row's token is the floor of the next acquire.
    Stale(FenceToken),
    /// No token can be had before an operator acts.
    Exhausted,
}

/// An order whose SKUs did not come in time.
#[derive(Debug)]
pub struct Overdue {
    /// The order.
    pub job: Job,
    /// What stood in its way.
    pub cause: Contest,
}

/// What a batch may hold.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Orders.
    pub max_orders: usize,
    /// Lines of all orders together; an order with more goes alone.
    pub max_lines: usize,
    /// Waiting orders that are not worth collecting any further: as many as it may hold, or as can be expected.
    pub enough: usize,
}

/// The waiting orders and their lanes.
#[derive(Debug)]
pub struct Waiting {
    limits: BatchLimits,
    /// How long an order waits for contested SKUs.
    patience: Duration,
    jobs: HashMap<u64, Job>,
    /// Lines of all of them.
    lines: usize,
    lanes: HashMap<Sku, Lane>,
    ready: Ready,
    /// Contested lanes by the time of their next try.
    alarms: BTreeSet<(Instant, Sku)>,
    /// Batches so far.
    batches: u64,
    /// How long SKUs were contested before they could be had, since this was last asked.
    waits: Vec<Duration>,
}

/// A batch while it is put together.
struct Taking {
    id: BatchId,
    mine: HashMap<Sku, Request>,
    behind: HashSet<BatchId>,
    /// Ready because all before them are in this batch.
    next: Vec<u64>,
}

impl Taking {
    fn new(id: BatchId) -> Self {
        Self { id, mine: HashMap::new(), behind: HashSet::new(), next: Vec::new() }
    }
}

impl Waiting {
    /// Nobody waits yet.
    #[must_use]
    pub fn new(limits: BatchLimits, patience: Duration) -> Self {
        Self {
            limits,
            patience,
            jobs: HashMap::new(),
            lines: 0,
            lanes: HashMap::new(),
            ready: Ready::default(),
            alarms: BTreeSet::new(),
            batches: 0,
            waits: Vec::new(),
        }
    }

    /// How long SKUs were contested before they could be had, since this was last asked.
    pub fn take_waits(&mut self) -> impl Iterator<Item = Duration> {
        self.waits.drain(..)
    }

    /// How many orders wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether an order can start now.
    #[must_use]
    pub fn can_start(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether another batch makes sense, while so many orders are decided and not published yet.
    #[must_use]
    pub fn crowd(&self, outbound: usize) -> Crowd {
        let BatchLimits { max_orders, max_lines, enough } = self.limits;
        Crowd {
            ready: self.ready.len() >= max_orders || self.ready.lines() >= max_lines,
            waiting: self.jobs.len() >= enough || self.lines >= max_lines,
            congested: outbound >= enough.div_ceil(CONGESTED),
        }
    }

    /// An order takes its place, by its arrival, in the lanes of its SKUs.
    pub fn push(&mut self, job: Job) {
        let mut displaced = Vec::new();
        for line in &job.order.lines {
            let queue = &mut self.lanes.entry(line.sku.clone()).or_default().queue;
            displaced.extend(queue.first().filter(|first| **first > job.arrival));
            queue.insert(job.arrival);
        }
        // An order that comes back stands before later ones: they are not first in their lanes any more.
        for arrival in displaced {
            self.ready.remove(arrival);
        }
        let (arrival, order) = (job.arrival, job.order.clone());
        self.lines += order.lines.len();
        self.jobs.insert(arrival, job);
        if self.starts(arrival, &order, |_| false) {
            self.ready.insert(arrival, &order);
        }
    }

    /// Takes the next batch, oldest first, and makes its SKUs busy. `None` when no order can start.
    pub fn take_batch(&mut self, now: Instant) -> Option<Batch> {
        let mut taking = Taking::new(BatchId(self.batches));
        let mut jobs = Vec::new();
        let mut lines = 0;
        while let Some((arrival, size)) = self.ready.first() {
            if jobs.len() >= self.limits.max_orders || (!jobs.is_empty() && lines + size > self.limits.max_lines) {
                break;
            }
            self.ready.remove(arrival);
            lines += size;
            let Some(job) = self.jobs.remove(&arrival) else { continue };
            self.lines -= size;
            self.move_up(&job, &mut taking, now);
            jobs.push(job);
        }
        let Taking { id, mine, behind, next } = taking;
        // What became ready only through this batch, and did not get into it, has to wait for it.
        for arrival in next {
            self.ready.remove(arrival);
        }
        if jobs.is_empty() {
            return None;
        }
        self.batches += 1;
        Some(Batch { id, jobs, requests: mine.into_values().collect(), behind })
    }

    /// Takes a job that joins the batch out of its lanes, and lets those behind it step forward.
    fn move_up(&mut self, job: &Job, taking: &mut Taking, now: Instant) {
        for line in &job.order.lines {
            let Some(lane) = self.lanes.get_mut(&line.sku) else { continue };
            lane.queue.remove(&job.arrival);
            lane.state = LaneState::Busy(taking.id);
            lane.kept_since.get_or_insert(now);
            taking.behind.extend(lane.lender.map(|lender| lender.batch));
            if !taking.mine.contains_key(&line.sku) {
                let request = Request { sku: line.sku.clone(), previous: lane.kept.take(), floor: lane.floor };
                taking.mine.insert(line.sku.clone(), request);
            }
        }
        for line in &job.order.lines {
            let Some(&next) = self.lanes.get(&line.sku).and_then(|lane| lane.queue.first()) else { continue };
            let order = self.jobs[&next].order.clone();
            if self.starts(next, &order, |sku| taking.mine.contains_key(sku)) {
                self.ready.insert(next, &order);
                taking.next.push(next);
            }
        }
    }

    /// Whether an order stands first in all its lanes, each free or `mine`.
    fn starts(&self, arrival: u64, order: &Order, mine: impl Fn(&Sku) -> bool) -> bool {
        order.lines.iter().all(|line| {
            self.lanes.get(&line.sku).is_some_and(|lane| {
                lane.queue.first() == Some(&arrival) && (lane.state == LaneState::Free || mine(&line.sku))
            })
        })
    }

    /// A batch could not have these SKUs: they pause, with back-off, never longer than a foreign lease can last. What its
    /// successor has is the successor's to find out.
    pub fn contest(&mut self, batch: BatchId, contests: impl IntoIterator<Item = (Sku, Contest)>, now: Instant) {
        for (sku, cause) in contests {
            let Some(lane) = self.lanes.get_mut(&sku) else { continue };
            if lane.belongs_to(batch) {
                let pause = lane.contest(cause, now);
                self.pause(&sku, now + pause);
            } else if lane.has_lender(batch) {
                lane.lender = None;
            }
        }
    }

    /// Nobody takes this SKU before this time.
    fn pause(&mut self, sku: &Sku, until: Instant) {
        let Some(lane) = self.lanes.get_mut(sku) else { return };
        lane.state = LaneState::Paused(until);
        // A lane that was lent may have made it ready.
        if let Some(&first) = lane.queue.first() {
            self.ready.remove(first);
        }
        self.alarms.insert((until, sku.clone()));
    }

    /// Frees the lanes whose pause is over.
    pub fn tick(&mut self, now: Instant) {
        while let Some((at, _)) = self.alarms.first()
            && *at <= now
        {
            let Some((at, sku)) = self.alarms.pop_first() else { return };
            if let Some(lane) = self.lanes.get_mut(&sku)
                && lane.state == LaneState::Paused(at)
            {
                lane.state = LaneState::Free;
                lane.forget_contest();
                self.wake(&sku);
            }
        }
    }

    /// When [`Waiting::tick`] has something to do next.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Instant> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Puts orders back in their places, but for those that have waited too long for a contested SKU.
    ///
    /// The wait is counted from when the order arrived or, if that is later, from when the SKU was first contested: time
    /// spent behind the worker's own work does not count.
    #[must_use]
    pub fn put_back(&mut self, jobs: Vec<Job>, now: Instant) -> Vec<Overdue> {
        let mut overdue = Vec::new();
        for job in jobs {
            match self.overdue_cause(&job, now) {
                Some(cause) => overdue.push(Overdue { job, cause }),
                None => self.push(job),
            }
        }
        overdue
    }

    fn overdue_cause(&self, job: &Job, now: Instant) -> Option<Contest> {
        job.order.lines.iter().find_map(|line| {
            let contested = self.lanes.get(&line.sku)?.contested.as_ref()?;
            let since = contested.since.max(job.arrived);
            (now.saturating_duration_since(since) >= self.patience).then_some(contested.cause)
        })
    }

    /// Forgets orders that nobody wants from this worker any more: those of an ended session, or all of them.
    pub fn retain(&mut self, keep: impl Fn(&Job) -> bool) {
        let gone: Vec<Job> = self.jobs.extract_if(|_, job| !keep(job)).map(|(_, job)| job).collect();
        for job in &gone {
            self.lines -= job.order.lines.len();
            self.ready.remove(job.arrival);
            for line in &job.order.lines {
                if let Some(lane) = self.lanes.get_mut(&line.sku) {
                    lane.queue.remove(&job.arrival);
                }
            }
        }
        for line in gone.iter().flat_map(|job| &job.order.lines) {
            if let Some(lane) = self.lanes.get_mut(&line.sku) {
                lane.forget_contest();
            }
            self.wake(&line.sku);
        }
    }

    /// Makes the first order of a free lane ready if it can start, and forgets a lane that nobody needs.
    fn wake(&mut self, sku: &Sku) {
        let Some(lane) = self.lanes.get(sku) else { return };
        if let Some(&first) = lane.queue.first() {
            let order = self.jobs[&first].order.clone();
            if self.starts(first, &order, |_| false) {
                self.ready.insert(first, &order);
            }
        } else if lane.is_idle() {
            self.lanes.remove(sku);
        }
    }
}

#[cfg(test)]
mod tests;
