//! Takes the leases of a batch and gives them back, and recovers the counters that Redis has forgotten.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::context::{Context, Trouble};
use crate::checkpoint::{Point, answer_is_lost, reach};
use crate::fence::FenceToken;
use crate::lease::{self, Attempt, Cause, Incarnation, Reply, Request, Seed, Trust};
use crate::ledger::Advance;
use crate::order::Sku;
use crate::retry::Backoff;

/// Asking again for what is still unknown: other workers may recover the same SKUs, each time with a higher epoch.
const MAX_ROUNDS: u32 = 8;
/// Asking again when a reply was lost; under the same attempt, so that what was granted is granted again.
const MAX_ASKS: u32 = 3;

/// What a batch was given.
#[derive(Debug)]
pub struct Grants {
    /// Under this name.
    pub attempt: Attempt,
    /// The tokens, one per SKU, each good for one commit.
    pub tokens: HashMap<Sku, FenceToken>,
    /// Held by others, for at most this time.
    pub held: HashMap<Sku, Duration>,
    /// SKUs without a stock row.
    pub missing: HashSet<Sku>,
    /// SKUs whose fence epochs are used up: an operator must act.
    pub exhausted: HashSet<Sku>,
    /// How long the leases are believed in.
    pub trust: Trust,
}

/// Takes leases, in a fixed number of round trips whatever the number of SKUs.
///
/// # Errors
/// [`Trouble`]; what was granted by then ends by itself.
pub async fn take(context: &Context, requests: &[Request]) -> Result<Grants, Trouble> {
    let mut grants = Grants {
        attempt: Attempt::new(),
        tokens: HashMap::with_capacity(requests.len()),
        held: HashMap::new(),
        missing: HashSet::new(),
        exhausted: HashSet::new(),
        trust: context.leases.trust(Instant::now()),
    };
    let mut pending = requests.to_vec();
    let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(50));
    for round in 1..=MAX_ROUNDS {
        let replies = ask(context, grants.attempt, &pending).await?;
        let unknown = sort(&mut grants, &pending, replies);
        if unknown.is_empty() {
            return Ok(grants);
        }
        if round > 1 {
            backoff.wait().await;
        }
        recover(context, &unknown, &mut grants).await?;
        let is_lost = |sku: &Sku| grants.missing.contains(sku) || grants.exhausted.contains(sku);
        pending.retain(|request| unknown.contains_key(&request.sku) && !is_lost(&request.sku));
        if pending.is_empty() {
            return Ok(grants);
        }
    }
    // Others recover these SKUs again and again: let them, and come back.
    grants.held.extend(pending.into_iter().map(|request| (request.sku, Duration::from_millis(50))));
    Ok(grants)
}

/// Asks once, and again when the reply was lost.
async fn ask(context: &Context, attempt: Attempt, requests: &[Request]) -> Result<Vec<Reply>, lease::Error> {
    let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
    let mut asked = 1;
    loop {
        let mut answer = context.leases.acquire(attempt, requests).await;
        reach(&context.holder, Point::AcquireReply).await;
        if answer_is_lost(&context.holder, Point::AcquireReply) {
            answer = Err(lease::Error::Unavailable("the reply was lost".into()));
        }
        match answer {
            Err(lease::Error::Unavailable(_)) if asked < MAX_ASKS => backoff.wait().await,
            answer => return answer,
        }
        asked += 1;
    }
}

/// Gives leases back. Only this attempt's: one that ended and went to somebody else is left alone.
pub async fn give_back(context: &Context, attempt: Attempt, skus: &[Sku]) {
    reach(&context.holder, Point::BeforeRelease).await;
    if let Err(error) = context.leases.release(attempt, skus).await {
        warn!(%error, skus = skus.len(), "leases were not given back; they end by themselves");
    }
}

type Unknown = HashMap<Sku, (Incarnation, Cause)>;

/// Sorts replies into the grants; returns the SKUs to recover.
fn sort(grants: &mut Grants, requests: &[Request], replies: Vec<Reply>) -> Unknown {
    let mut unknown = HashMap::new();
    for (request, reply) in requests.iter().zip(replies) {
        let sku = request.sku.clone();
        match reply {
            Reply::Granted(token) => drop(grants.tokens.insert(sku, token)),
            Reply::Held { remaining } => drop(grants.held.insert(sku, remaining)),
            Reply::Unknown { incarnation, cause } => drop(unknown.insert(sku, (incarnation, cause))),
        }
    }
    unknown
}

/// Moves the epoch of each SKU in the database, and tells Redis of those that this worker moved.
async fn recover(context: &Context, unknown: &Unknown, grants: &mut Grants) -> Result<(), Trouble> {
    reach(&context.holder, Point::BeforeAdvance).await;
    let skus: Vec<Sku> = unknown.keys().cloned().collect();
    let mut seeds = Vec::with_capacity(skus.len());
    for (sku, advance) in context.ledger.advance_epochs(&skus).await? {
        match advance {
            Advance::Won(epoch) => {
                let Some((incarnation, _)) = unknown.get(&sku) else { continue };
                seeds.push(Seed { sku, incarnation: incarnation.clone(), epoch });
            }
            // Whoever moved it seeds it.
            Advance::Lost => {}
            Advance::NoRow => drop(grants.missing.insert(sku)),
            Advance::Exhausted => {
                error!(%sku, "the SKU has used up its fence epochs; its orders wait: run `lastunit audit`");
                grants.exhausted.insert(sku);
            }
        }
    }
    report_recovery(context, &seeds, unknown);
    reach(&context.holder, Point::BeforeSeed).await;
    // Whether it arrived or not, it is never sent again: the next acquire tells, and recovers with the next epoch. But not
    // at once: a server that refuses seeds would use up an epoch with each.
    if !seeds.is_empty() {
        context.leases.seed(&seeds).await?;
    }
    Ok(())
}

/// One line per recovery and cause, however many SKUs it covers.
fn report_recovery(context: &Context, seeds: &[Seed], unknown: &Unknown) {
    for cause in [Cause::Missing, Cause::Incarnation, Cause::Behind] {
        let mut recovered = seeds.iter().filter(|seed| unknown.get(&seed.sku).is_some_and(|(_, why)| *why == cause));
        let Some(first) = recovered.next() else { continue };
        let count = 1 + recovered.count();
        context.metrics.recovered(cause, count);
        let why = match cause {
            Cause::Missing => "redis has no counter (first use, flush, eviction or expiry)",
            Cause::Incarnation => "redis was restarted or failed over",
            Cause::Behind => "redis went back in time",
        };
        info!(skus = count, sku = %first.sku, epoch = %first.epoch, "recovered the fence: {why}");
    }
}
