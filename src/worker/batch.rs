//! The life of a batch: look up, lease, read, plan, commit.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use chrono::{SubsecRound, Utc};
use tracing::{error, info, warn};
use uuid::Uuid;

use super::context::{Context, Trouble};
use super::decision::decision;
use super::leasing::{self, Grants};
use super::settle::Settled;
use super::succession::{End, Place};
use super::waiting::{Contest, Job};
use crate::checkpoint::{Point, answer_is_lost, reach};
use crate::fence::FenceToken;
use crate::lease::{Attempt, Request};
use crate::ledger::{self, Batch, Commit, NewDecision, Recorded, Refusal, Snapshot};
use crate::order::{InvalidCode, Malformed, Order, OrderId, Sku};
use crate::outcome::{Decided, Failure, Settlement};
use crate::plan::{StockRow, plan};
use crate::telemetry::Stage;

/// Plans that were overtaken before they could be committed, one after the other, before the batch steps back.
const MAX_OVERTAKEN: u32 = 10;
/// How long it then pauses.
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(20);

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Outcome {
    /// These are decided, or will never be: publish and acknowledge.
    pub settled: Vec<Settled>,
    /// These are as they were, and go back to where they waited.
    pub back: Vec<Job>,
    /// SKUs that could not be had.
    pub contests: HashMap<Sku, Contest>,
    /// The leases that may still stand, to be kept or given back.
    pub leases: HashMap<Sku, Attempt>,
    /// A service failed.
    pub trouble: Option<Trouble>,
}

/// Decides the orders of a batch as far as it can.
pub async fn decide(context: &Context, mut jobs: Vec<Job>, requests: Vec<Request>, place: &mut Place) -> Outcome {
    context.metrics.batch(jobs.len());
    if context.duplicates.are_likely() {
        jobs.iter_mut().for_each(|job| job.look_up = true);
    }
    let mut work = Work::new(context, jobs, requests, place);
    if let Err(trouble) = work.run().await {
        // A transaction may have become durable without our hearing of it.
        work.outcome.back.extend(work.open.drain(..).map(|job| Job { look_up: true, ..job }));
        work.outcome.trouble = Some(trouble);
    }
    // A batch that needed no lease ends behind the others all the same.
    work.place.comes().await;
    if work.outcome.back.len() == work.set_aside {
        work.place.end.send_replace(End::Done);
    }
    work.outcome
}

struct Work<'a> {
    context: &'a Context,
    /// Not decided yet, oldest first.
    open: Vec<Job>,
    requests: Vec<Request>,
    grants: Option<Grants>,
    /// The tokens have authorised a commit, or their trust has run out: new ones before the next commit.
    spent: bool,
    /// How many orders go into one transaction: halved by a failure that repeats.
    share: usize,
    /// Among this worker's batches.
    place: &'a mut Place,
    /// The next batch may have the leases by now.
    lent: bool,
    /// Orders that went back before that: none for a SKU that was lent.
    set_aside: usize,
    outcome: Outcome,
}

/// How a transaction went, for what comes next.
enum Step {
    /// Some orders are decided, or left the batch.
    Progress,
    /// Somebody else was faster; read and plan again.
    Overtaken,
    /// The database refuses these orders for good.
    Refused(String),
}

impl<'a> Work<'a> {
    fn new(context: &'a Context, jobs: Vec<Job>, requests: Vec<Request>, place: &'a mut Place) -> Self {
        let share = jobs.len();
        // Leases that were kept: whether this batch needs them or not, they go on or are given back.
        let kept = requests.iter().filter_map(|request| Some((request.sku.clone(), request.previous?)));
        let outcome = Outcome { leases: kept.collect(), ..Outcome::default() };
        let (grants, spent, lent, set_aside) = (None, true, false, 0);
        Self { context, open: jobs, requests, grants, spent, share, place, lent, set_aside, outcome }
    }

    async fn run(&mut self) -> Result<(), Trouble> {
        let mut overtaken = 0;
        while !self.open.is_empty() {
            if self.open.iter().any(|job| job.look_up) {
                self.look_up().await?;
                continue;
            }
            if self.spent {
                // What was lent may be the next batch's by now, which goes back as well.
                if self.lent {
                    break;
                }
                self.lease().await?;
                if !self.place.comes().await {
                    break;
                }
                continue;
            }
            match self.transact().await? {
                Step::Progress => overtaken = 0,
                Step::Overtaken if overtaken < MAX_OVERTAKEN => overtaken += 1,
                Step::Overtaken => self.step_back(),
                Step::Refused(detail) => self.narrow(detail),
            }
        }
        self.outcome.back.append(&mut self.open);
        Ok(())
    }

    /// Orders that may have been decided before are settled from their decision: no lease is needed for that.
    async fn look_up(&mut self) -> Result<(), Trouble> {
        let ids: Vec<OrderId> = self.open.iter().filter(|job| job.look_up).map(|job| job.order.id.clone()).collect();
        match self.context.metrics.timed(Stage::LookUp, self.context.ledger.read(&[], &ids)).await {
            Ok(snapshot) => self.settle_recorded(&snapshot.recorded),
            Err(ledger::Error::Failed(detail)) => {
                warn!(detail, "decisions cannot be read; they are read one by one");
                self.look_up_singly().await?;
            }
            Err(trouble) => return Err(trouble.into()),
        }
        self.open.iter_mut().for_each(|job| job.look_up = false);
        Ok(())
    }

    /// A decision that can never be read is its own order's fault, and no other's.
    async fn look_up_singly(&mut self) -> Result<(), Trouble> {
        let doubtful = self.open.iter().filter(|job| job.look_up);
        for id in doubtful.map(|job| job.order.id.clone()).collect::<Vec<_>>() {
            match self.context.ledger.read(&[], std::slice::from_ref(&id)).await {
                Ok(snapshot) => self.settle_recorded(&snapshot.recorded),
                Err(ledger::Error::Failed(detail)) => {
                    let unreadable: Vec<Job> = self.open.extract_if(.., |job| job.order.id == id).collect();
                    unreadable.into_iter().for_each(|job| self.give_up(job, detail.clone()));
                }
                Err(trouble) => return Err(trouble.into()),
            }
        }
        Ok(())
    }

    /// Takes leases, new ones or the next tokens of those it has, for the orders that are still open.
    async fn lease(&mut self) -> Result<(), Trouble> {
        reach(&self.context.holder, Point::BeforeLease).await;
        let wanted: HashSet<&Sku> =
            self.open.iter().flat_map(|job| job.order.lines.iter().map(|line| &line.sku)).collect();
        let mut requests: Vec<Request> =
            self.requests.iter().filter(|request| wanted.contains(&request.sku)).cloned().collect();
        for request in &mut requests {
            request.previous = self.outcome.leases.get(&request.sku).copied().or(request.previous);
        }
        let grants = self.context.metrics.timed(Stage::Lease, leasing::take(self.context, &requests)).await?;
        reach(&self.context.holder, Point::AfterLease).await;
        self.outcome.leases.extend(grants.tokens.keys().map(|sku| (sku.clone(), grants.attempt)));
        let lacking = |sku: &Sku| !grants.tokens.contains_key(sku) && !grants.missing.contains(sku);
        let back = self.open.extract_if(.., |job| job.order.lines.iter().any(|line| lacking(&line.sku)));
        self.outcome.back.extend(back);
        let held = grants.held.iter().map(|(sku, remaining)| (sku.clone(), Contest::Held(*remaining)));
        let exhausted = grants.exhausted.iter().map(|sku| (sku.clone(), Contest::Exhausted));
        self.outcome.contests.extend(held.chain(exhausted));
        self.grants = Some(grants);
        self.spent = false;
        Ok(())
    }

    /// Reads, plans and commits the oldest open orders.
    async fn transact(&mut self) -> Result<Step, Trouble> {
        let Some(grants) = &self.grants else { return Ok(Step::Progress) };
        let share = self.share.min(self.open.len());
        // Nobody reads whether a new order was decided before: the insert tells, and it hardly ever was.
        let skus = granted_skus(&self.open[..share], grants);
        let snapshot = match self.context.metrics.timed(Stage::Read, self.context.ledger.read(&skus, &[])).await {
            Err(ledger::Error::Failed(detail)) => return Ok(Step::Refused(detail)),
            answer => answer?,
        };
        let (batch, planned) = self.plan(share, snapshot, grants);
        if !grants.trust.holds(Instant::now()) {
            info!("a batch took longer than its leases are trusted; it takes new ones");
            self.spent = true;
            return Ok(Step::Overtaken);
        }
        if !self.lent && share == self.open.len() {
            self.place.lend(grants.attempt, lendable(grants, &self.outcome.back));
            (self.lent, self.set_aside) = (true, self.outcome.back.len());
        }
        reach(&self.context.holder, Point::BeforeCommit).await;
        match self.context.metrics.timed(Stage::Commit, self.context.ledger.commit(batch)).await {
            Ok(Commit::Committed) => {
                self.context.metrics.decided(planned.values().map(|decided| decided.rejected));
                reach(&self.context.holder, Point::AfterCommit).await;
                if answer_is_lost(&self.context.holder, Point::AfterCommit) {
                    return Err(ledger::Error::Unavailable("the answer to a commit was lost".into()).into());
                }
                self.settle_planned(planned);
                Ok(Step::Progress)
            }
            Ok(Commit::AlreadyDecided) => {
                self.context.duplicates.seen();
                self.open[..share].iter_mut().for_each(|job| job.look_up = true);
                Ok(Step::Overtaken)
            }
            Ok(Commit::Refused(refusals)) => Ok(self.give_up_stale(&refusals)),
            Err(ledger::Error::Failed(detail)) => Ok(Step::Refused(detail)),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Settles the open orders that have a decision.
    fn settle_recorded(&mut self, recorded: &HashMap<OrderId, Recorded>) {
        let first = self.outcome.settled.len();
        let settled = self.open.extract_if(.., |job| recorded.contains_key(&job.order.id));
        let settled = settled.filter_map(|job| {
            let settlement = settlement_of(&job.order, recorded.get(&job.order.id)?);
            Some(Settled { delivery: job.delivery, settlement })
        });
        self.outcome.settled.extend(settled);
        self.context.metrics.repeated(self.outcome.settled[first..].iter().map(|settled| &settled.settlement));
    }

    /// Plans the first `share` open orders: the transaction, and each order's place in `open` with its decision.
    ///
    /// A second copy of an order waits for the first one's decision.
    fn plan(&self, share: usize, snapshot: Snapshot, grants: &Grants) -> (Batch, HashMap<u64, Decided>) {
        let mut seen = HashSet::new();
        let jobs: Vec<&Job> = self.open[..share].iter().filter(|job| seen.insert(&job.order.id)).collect();
        let stock: HashMap<Sku, StockRow> =
            snapshot.stock.into_iter().filter(|(sku, _)| grants.tokens.contains_key(sku)).collect();
        let plan = plan(jobs.iter().map(|job| &*job.order), &stock);
        let decided_at = Utc::now().trunc_subsecs(3);
        let decisions: Vec<NewDecision> = jobs
            .iter()
            .zip(&plan.verdicts)
            .map(|(job, verdict)| decision(&self.context.settings, &job.order, verdict, decided_at, &grants.tokens))
            .collect();
        let planned = jobs.iter().zip(&decisions).map(|(job, new)| (job.arrival, Decided::from_new(new))).collect();
        let stock = plan.take.into_iter().filter_map(|(sku, take)| {
            let token = *grants.tokens.get(&sku)?;
            Some((sku, (take, token)))
        });
        let batch = Batch { commit_id: Uuid::new_v4(), decided_at, decisions, stock: stock.collect() };
        (batch, planned)
    }

    /// The transaction is durable: these orders are decided, and the tokens have served. Second copies find that out.
    fn settle_planned(&mut self, mut planned: HashMap<u64, Decided>) {
        if planned.len() < self.open.len() {
            let decided: HashSet<&OrderId> = planned.values().map(|decided| &decided.order_id).collect();
            self.open.iter_mut().for_each(|job| job.look_up = decided.contains(&job.order.id));
        }
        for job in std::mem::take(&mut self.open) {
            match planned.remove(&job.arrival) {
                Some(decided) => {
                    let settlement = Settlement::Decided(decided);
                    self.outcome.settled.push(Settled { delivery: job.delivery, settlement });
                }
                None => self.open.push(job),
            }
        }
        self.spent = true;
        self.share = self.open.len();
    }

    /// The fence refused some SKUs: their orders step out, with the row's fence as floor, and spoil nobody else's.
    fn give_up_stale(&mut self, refusals: &HashMap<Sku, Refusal>) -> Step {
        let stale: HashMap<&Sku, FenceToken> = refusals
            .iter()
            .filter_map(|(sku, refusal)| match refusal {
                Refusal::Stale { row } => Some((sku, *row)),
                // Stock has changed since it was read: planning again deals with it.
                Refusal::Short { .. } | Refusal::Gone => None,
            })
            .collect();
        if stale.is_empty() {
            return Step::Overtaken;
        }
        self.context.metrics.refused(stale.len());
        for (sku, row) in &stale {
            let token = self.grants.as_mut().and_then(|grants| grants.tokens.remove(*sku));
            let token = token.map(|token| token.to_string());
            info!(%sku, %row, token, "the fence refused a stale token; its orders take a new lease");
            self.outcome.contests.insert((*sku).clone(), Contest::Stale(*row));
        }
        let out = self.open.extract_if(.., |job| job.order.lines.iter().any(|line| stale.contains_key(&line.sku)));
        self.outcome.back.extend(out);
        Step::Progress
    }

    /// Too many others at the same rows: everything goes back and tries again in a moment.
    fn step_back(&mut self) {
        warn!(orders = self.open.len(), "a batch was overtaken again and again; it steps back for a moment");
        let skus = self.open.iter().flat_map(|job| job.order.lines.iter().map(|line| line.sku.clone()));
        self.outcome.contests.extend(skus.map(|sku| (sku, Contest::Held(OVERTAKEN_PAUSE))));
        self.outcome.back.append(&mut self.open);
    }

    /// The database refuses this share of the batch for good: smaller shares, until the culprit stands alone.
    fn narrow(&mut self, detail: String) {
        let share = self.share.min(self.open.len());
        if share > 1 {
            warn!(orders = share, detail, "a transaction failed and would fail again; its orders are tried in halves");
            self.share = share / 2;
            return;
        }
        let job = self.open.remove(0);
        self.give_up(job, detail);
        self.share = self.open.len();
    }

    fn give_up(&mut self, job: Job, detail: String) {
        error!(order = %job.order.id, detail, "an order cannot be decided; it goes to the dead letters for the operator");
        let settlement = Settlement::Failed { failure: Failure::Internal, detail };
        self.outcome.settled.push(Settled { delivery: job.delivery, settlement });
    }
}

/// The granted SKUs of these orders, each once.
fn granted_skus(jobs: &[Job], grants: &Grants) -> Vec<Sku> {
    let skus: HashSet<&Sku> = jobs.iter().flat_map(|job| job.order.lines.iter().map(|line| &line.sku)).collect();
    skus.into_iter().filter(|sku| grants.tokens.contains_key(*sku)).cloned().collect()
}

/// The granted SKUs that no order wants which this batch has set aside: it comes before those that wait.
fn lendable(grants: &Grants, back: &[Job]) -> Vec<Sku> {
    let wanted: HashSet<&Sku> = back.iter().flat_map(|job| job.order.lines.iter().map(|line| &line.sku)).collect();
    grants.tokens.keys().filter(|sku| !wanted.contains(sku)).cloned().collect()
}

/// A known order id: the same order is told its decision again; another one under this id is refused.
#[must_use]
pub fn settlement_of(order: &Order, recorded: &Recorded) -> Settlement {
    if recorded.content_hash == order.content_hash {
        return Settlement::Decided(Decided::from_recorded(order.id.clone(), recorded.clone()));
    }
    let detail = format!("order {:?} was decided before with other lines or another hold time", order.id);
    Settlement::Invalid(Malformed::new(InvalidCode::ConflictingDuplicate, detail))
}
