//! Renames everything whose name does not matter, so that states which differ in nothing else are one.
//!
//! Only the equality of attempts and of incarnations matters, and only the sequence of grants and of epochs: a new epoch
//! is always above all others. The same holds for the sequences within an epoch as long as the counter that may still go
//! on in it is the highest; where it is not (which no sound rule brings about), they are left as they are.

use lastunit::fence::{Epoch, FenceToken};

use super::state::{Age, Body, State, Step};

/// The state with its names in normal form. `with_tokens` says whether tokens may be renamed too.
pub fn normalise(mut state: State, with_tokens: bool) -> State {
    forget_what_is_gone(&mut state);
    rename_by_appearance(&mut attempts(&mut state));
    rename_by_appearance(&mut incarnations(&mut state));
    rename_ages(&mut state);
    if with_tokens {
        rename_tokens(&mut state);
    }
    state.wire.sort();
    state
}

/// An attempt that has no lease, and no request for one on its way, can neither be continued nor released.
fn forget_what_is_gone(state: &mut State) {
    let leased = state.memories().filter_map(|memory| memory.lease.as_ref().map(|lease| lease.attempt));
    let asked = state.wire.iter().filter_map(|message| match message.body {
        Body::Acquire { attempt, .. } => Some(attempt),
        Body::Count { .. } | Body::Seed { .. } | Body::Release { .. } => None,
    });
    let known: Vec<_> = leased.chain(asked).collect();
    for worker in &mut state.workers {
        worker.previous.take_if(|previous| !known.contains(previous));
    }
    state.wire.retain(|message| match message.body {
        Body::Release { attempt } => known.contains(&attempt),
        Body::Acquire { .. } | Body::Count { .. } | Body::Seed { .. } => true,
    });
}

/// Gives the names 0, 1, … in the sequence in which they first appear.
fn rename_by_appearance(names: &mut [&mut u8]) {
    let mut seen: Vec<u8> = Vec::with_capacity(8);
    for name in names {
        let place = seen.iter().position(|other| *other == **name).unwrap_or_else(|| {
            seen.push(**name);
            seen.len() - 1
        });
        **name = u8::try_from(place).expect("few names");
    }
}

/// Every place where an attempt is named; the workers' own first.
fn attempts(state: &mut State) -> Vec<&mut u8> {
    let mut all = Vec::with_capacity(16);
    for worker in &mut state.workers {
        all.push(&mut worker.attempt);
        all.extend(&mut worker.previous);
    }
    let memories = state.servers.iter_mut().flatten().map(|server| &mut server.memory).chain([&mut state.copy]);
    all.extend(memories.filter_map(|memory| memory.lease.as_mut()).map(|lease| &mut lease.attempt));
    for message in &mut state.wire {
        match &mut message.body {
            Body::Acquire { attempt, previous, .. } => {
                all.push(attempt);
                all.extend(previous);
            }
            Body::Count { attempt } | Body::Release { attempt } => all.push(attempt),
            Body::Seed { .. } => {}
        }
    }
    all
}

/// Every place where an incarnation is named; the servers' own first.
fn incarnations(state: &mut State) -> Vec<&mut u8> {
    let mut all = Vec::with_capacity(16);
    let mut memories = vec![&mut state.copy];
    for server in state.servers.iter_mut().flatten() {
        all.push(&mut server.incarnation);
        memories.push(&mut server.memory);
    }
    for memory in memories {
        all.extend(memory.lease.as_mut().map(|lease| &mut lease.incarnation));
        all.extend(memory.counter.as_mut().map(|counter| &mut counter.incarnation));
    }
    for worker in &mut state.workers {
        match &mut worker.step {
            Step::Told { incarnation, .. }
            | Step::Read { incarnation, .. }
            | Step::Won { incarnation, .. }
            | Step::Seeding { incarnation, .. } => all.push(incarnation),
            Step::Ready | Step::Asking | Step::Counting | Step::Leased { .. } | Step::Planned { .. } => {}
        }
    }
    for message in &mut state.wire {
        if let Body::Seed { incarnation, .. } = &mut message.body {
            all.push(incarnation);
        }
    }
    all
}

fn rename_ages(state: &mut State) {
    let mut granted: Vec<Age> = state.workers.iter().map(|worker| worker.age).collect();
    granted.retain(|age| matches!(age, Age::Granted(_)));
    granted.sort_unstable();
    for worker in &mut state.workers {
        if let Ok(rank) = granted.binary_search(&worker.age) {
            worker.age = Age::Granted(u8::try_from(rank).expect("few workers"));
        }
    }
}

/// Every token, and every epoch as its floor.
fn tokens(state: &mut State) -> Vec<&mut FenceToken> {
    let mut all = Vec::with_capacity(24);
    all.push(&mut state.fence);
    let memories = state.servers.iter_mut().flatten().map(|server| &mut server.memory).chain([&mut state.copy]);
    for memory in memories {
        all.extend(memory.lease.as_mut().map(|lease| &mut lease.token));
        all.extend(memory.counter.as_mut().map(|counter| &mut counter.token));
    }
    for worker in &mut state.workers {
        all.push(&mut worker.floor);
        match &mut worker.step {
            Step::Read { fence: token, .. }
            | Step::Won { floor: token, .. }
            | Step::Seeding { floor: token, .. }
            | Step::Leased { token }
            | Step::Planned { token, .. } => all.push(token),
            Step::Ready | Step::Asking | Step::Counting | Step::Told { .. } => {}
        }
    }
    for message in &mut state.wire {
        match &mut message.body {
            Body::Acquire { floor, .. } | Body::Seed { floor, .. } => all.push(floor),
            Body::Count { .. } | Body::Release { .. } => {}
        }
    }
    all
}

fn rename_tokens(state: &mut State) {
    let growing: Vec<FenceToken> = state
        .servers
        .iter()
        .flatten()
        .filter_map(|server| server.memory.counter.as_ref().filter(|counter| counter.incarnation == server.incarnation))
        .map(|counter| counter.token)
        .collect();
    let mut places = tokens(state);
    let mut known: Vec<FenceToken> = places.iter().map(|token| **token).collect();
    known.push(FenceToken::ZERO);
    known.sort_unstable();
    known.dedup();
    let overtaken = |epoch: Epoch| {
        let highest = known.iter().rev().find(|token| token.epoch() == epoch);
        growing.iter().any(|token| token.epoch() == epoch && Some(token) != highest)
    };
    let mut renamed = Vec::with_capacity(known.len());
    let (mut epoch, mut sequence) = (0, 0);
    for (index, token) in known.iter().enumerate() {
        let is_new_epoch = index > 0 && known[index - 1].epoch() != token.epoch();
        if is_new_epoch {
            (epoch, sequence) = (epoch + 1, 0);
        }
        sequence = match token.sequence() {
            0 => 0,
            kept if overtaken(token.epoch()) => kept,
            _renamed => sequence + 1,
        };
        renamed.push(FenceToken::new(Epoch::new(epoch).expect("few epochs"), sequence).expect("few tokens"));
    }
    for token in &mut places {
        let index = known.binary_search(token).expect("every token is known");
        **token = renamed[index];
    }
}
