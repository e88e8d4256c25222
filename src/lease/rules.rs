//! PURE. The rules of leases and fencing tokens for one SKU: the specification of the Lua scripts beside it.
//!
//! Every function takes one SKU's memory in Redis and changes it in one atomic step, as the script of the same name does.
//! A random differential test holds the two against each other on a real server, and the model of the protocol
//! (`tests/model`) explores these functions exhaustively. Attempts and incarnations are type parameters, so that the model
//! can use small numbers for them.

use std::time::{Duration, Instant};

use super::Cause;
use crate::fence::{Epoch, FenceToken, OutOfRange};

/// The lease key: who may decide for the SKU, and by which token.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Lease<A, I> {
    /// Whose it is.
    pub attempt: A,
    /// The server that granted it. Another server's is void: it was copied, and so was its remaining time.
    pub incarnation: I,
    /// What it was granted with.
    pub token: FenceToken,
    /// Milliseconds until it ends by itself.
    pub remaining_ms: u64,
}

/// The fence hash: the last token handed out.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Counter<I> {
    /// The server that counted. What another one counted is worth nothing.
    pub incarnation: I,
    /// The last token, or an epoch's floor.
    pub token: FenceToken,
}

/// All that Redis remembers about one SKU; each part can vanish, or return from the past, at any moment.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Memory<A, I> {
    /// The lease key.
    pub lease: Option<Lease<A, I>>,
    /// The fence hash.
    pub counter: Option<Counter<I>>,
}

impl<A, I> Default for Memory<A, I> {
    fn default() -> Self {
        Self { lease: None, counter: None }
    }
}

/// A lease asked for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Ask<A> {
    /// Who asks. The same attempt gets the same answer again.
    pub attempt: A,
    /// The attempt whose lease this one may take over.
    pub previous: Option<A>,
    /// The fence as last seen in the database: a counter below it went backwards.
    pub floor: FenceToken,
    /// Milliseconds that the lease lasts.
    pub ttl_ms: u64,
}

/// What becomes of an [`Ask`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Answer {
    /// The lease, with this token.
    Granted(FenceToken),
    /// Somebody else's, for this many milliseconds at most.
    Held {
        /// Until it ends by itself.
        remaining_ms: u64,
    },
    /// The counter is not to be trusted; nothing was granted.
    Unknown(Cause),
}

/// What becomes of a seed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Seeding {
    /// The counter stands at this epoch's floor.
    Installed,
    /// The counter already had this epoch or a later one.
    Kept,
    /// The seed was meant for another incarnation.
    Refused,
}

/// Grants the lease with its token, in one step.
///
/// `now_ms` is the server's clock since 2025-01-01, which lifts the sequence; the rules hold without it (0).
///
/// # Errors
/// [`OutOfRange`] when the sequence is used up; nothing was granted.
pub fn acquire<A: Clone + Eq, I: Clone + Eq>(
    memory: &mut Memory<A, I>,
    here: &I,
    ask: &Ask<A>,
    now_ms: u64,
) -> Result<Answer, OutOfRange> {
    let live = memory.lease.as_mut().filter(|lease| lease.incarnation == *here && lease.remaining_ms <= ask.ttl_ms);
    if let Some(lease) = &live
        && lease.attempt != ask.attempt
        && ask.previous.as_ref() != Some(&lease.attempt)
    {
        return Ok(Answer::Held { remaining_ms: lease.remaining_ms });
    }
    let last = match trusted(memory.counter.as_ref(), here, ask.floor) {
        Ok(token) => token,
        Err(cause) => return Ok(Answer::Unknown(cause)),
    };
    // Its reply was lost: the same token. A token that the floor refuses has been used or overtaken since: a new one.
    if let Some(lease) = live.filter(|lease| lease.attempt == ask.attempt && lease.token.passes(ask.floor)) {
        lease.remaining_ms = ask.ttl_ms;
        return Ok(Answer::Granted(lease.token));
    }
    let token = FenceToken::new(last.epoch(), (last.sequence() + 1).max(now_ms))?;
    memory.counter = Some(Counter { incarnation: here.clone(), token });
    memory.lease =
        Some(Lease { attempt: ask.attempt.clone(), incarnation: here.clone(), token, remaining_ms: ask.ttl_ms });
    Ok(Answer::Granted(token))
}

fn trusted<I: Eq>(counter: Option<&Counter<I>>, here: &I, floor: FenceToken) -> Result<FenceToken, Cause> {
    match counter {
        None => Err(Cause::Missing),
        Some(counter) if counter.incarnation != *here => Err(Cause::Incarnation),
        Some(counter) if counter.token < floor => Err(Cause::Behind),
        Some(counter) => Ok(counter.token),
    }
}

/// Installs a counter after a recovery: `meant_for` is the incarnation that was found not to know, `epoch` the one that
/// the database moved to. A seed is sent once per epoch: after a loss a second one would count over the same tokens.
pub fn seed<A, I: Clone + Eq>(memory: &mut Memory<A, I>, here: &I, meant_for: &I, epoch: Epoch) -> Seeding {
    if meant_for != here {
        return Seeding::Refused;
    }
    let known = memory.counter.as_ref().filter(|counter| counter.incarnation == *here);
    if known.is_some_and(|counter| counter.token.epoch() >= epoch) {
        return Seeding::Kept;
    }
    memory.counter = Some(Counter { incarnation: here.clone(), token: epoch.floor() });
    Seeding::Installed
}

/// Gives the lease back if it is still this attempt's; says whether it was.
pub fn release<A: Eq, I>(memory: &mut Memory<A, I>, attempt: &A) -> bool {
    memory.lease.take_if(|lease| lease.attempt == *attempt).is_some()
}

/// How long a lease is believed in. An optimisation, not a guard: who believes too long is refused by the fence.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trust {
    until: Instant,
}

impl Trust {
    /// Counts from before the request was sent, because the lease may have been granted at once; ends a margin early.
    #[must_use]
    pub fn new(asked_at: Instant, ttl: Duration, safety_margin: Duration) -> Self {
        Self { until: asked_at + ttl.saturating_sub(safety_margin) }
    }

    /// Whether the lease is still believed in.
    #[must_use]
    pub fn holds(self, now: Instant) -> bool {
        now < self.until
    }

    /// When it ends.
    #[must_use]
    pub const fn until(self) -> Instant {
        self.until
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
