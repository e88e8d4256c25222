//! Orders whose SKUs did not come in time: through a delay queue, so that they block nobody, and after too many passes
//! rejected as lost.

use std::collections::HashMap;

use chrono::{SubsecRound, Utc};
use tracing::info;
use uuid::Uuid;

use super::batch::settlement_of;
use super::context::{Context, Trouble};
use super::decision::decision;
use super::settle::Settled;
use super::waiting::{Contest, Job, Overdue};
use crate::ledger::{self, Batch, Commit};
use crate::outcome::{Decided, Failure, Settlement};
use crate::plan::{Reason, Verdict};

/// Decides what becomes of an overdue order.
///
/// # Errors
/// The job, as it was, and the [`Trouble`]: it goes back to where it waited.
pub async fn resolve(context: &Context, overdue: Overdue) -> Result<Settled, (Job, Trouble)> {
    let Overdue { job, cause } = overdue;
    let retry = &context.settings.retry;
    let settlement = if job.delivery.attempts < retry.max_attempts {
        // Attempt n waits in the n-th queue, later ones in the last; settings keep the list from being empty.
        let last = retry.delays_ms.len() - 1;
        let index = usize::try_from(job.delivery.attempts).map_or(last, |index| index.min(last));
        Settlement::Retry { delay_ms: retry.delays_ms[index] }
    } else {
        match reject(context, &job, cause).await {
            Ok(settlement) => settlement,
            Err(Trouble::Ledger(ledger::Error::Failed(detail))) => {
                Settlement::Failed { failure: Failure::Internal, detail }
            }
            Err(trouble) => return Err((job, trouble)),
        }
    };
    Ok(Settled { delivery: job.delivery, settlement })
}

/// Rejects an order for good, in the table first. This needs neither lease nor fence: where somebody has decided the
/// order meanwhile, that decision stands.
async fn reject(context: &Context, job: &Job, cause: Contest) -> Result<Settlement, Trouble> {
    let reason = match cause {
        Contest::Held(_) | Contest::Exhausted => Reason::LeaseTimeout,
        Contest::Stale(_) => Reason::StaleFence,
    };
    let order = &job.order;
    let decided_at = Utc::now().trunc_subsecs(3);
    let verdict = Verdict::Rejected { reason, short: Vec::new() };
    let decision = decision(&context.settings, order, &verdict, decided_at, &HashMap::new());
    let decided = Decided::from_new(&decision);
    let batch = Batch {
        commit_id: Uuid::new_v4(),
        decided_at,
        decisions: vec![decision],
        stock: std::collections::BTreeMap::new(),
    };
    if context.ledger.commit(batch).await? == Commit::Committed {
        context.metrics.decided(std::iter::once(Some(reason)));
        info!(order = %order.id, reason = reason.as_str(), attempts = job.delivery.attempts, "gave up on an order");
        return Ok(Settlement::Decided(decided));
    }
    let recorded: HashMap<_, _> = context.ledger.read(&[], std::slice::from_ref(&order.id)).await?.recorded;
    match recorded.get(&order.id) {
        Some(recorded) => Ok(settlement_of(order, recorded)),
        None => {
            Err(ledger::Error::Unavailable(format!("the decision on order {:?} cannot be seen yet", order.id)).into())
        }
    }
}
