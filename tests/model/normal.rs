//! Renames everything whose name does not matter, so that states which differ in nothing else are one.
//!
//! Only the equality of attempts and of incarnations matters, and only the sequence of grants and of epochs: a new epoch
//! is always above all others. The same holds for the sequences within an epoch as long as the counter that may still go
//! on in it is the highest; where it is not (which no sound rule brings about), they are left as they are.

use lastunit::fence::{Epoch, FenceToken};

use super::state::{Age, Body, GONE, Server, State, Step};
use super::void;

/// The state in normal form. Only where all rules hold, tokens may be renamed too; and workers are not told apart, which
/// would make a bad story.
pub fn normalise(mut state: State, is_sound: bool) -> State {
    forget_what_is_gone(&mut state);
    if is_sound {
        void::forget(&mut state);
        rename_tokens(&mut state);
    }
    rename_ages(&mut state);
    if is_sound {
        sort_what_is_alike(&mut state);
        sort_servers(&mut state);
    }
    rename_by_appearance(&mut attempts(&mut state));
    rename_by_appearance(&mut incarnations(&mut state));
    state.wire.sort_unstable();
    state
}

/// An attempt that has no lease, and no request for one on its way, can neither be continued nor released.
fn forget_what_is_gone(state: &mut State) {
    let leased = state.memories().filter_map(|memory| memory.lease.as_ref().map(|lease| lease.attempt));
    let asked = state.wire.iter().filter_map(|message| match message.body {
        Body::Acquire { attempt, .. } => Some(attempt),
        Body::Seed { .. } | Body::Release { .. } => None,
    });
    let known: Vec<_> = leased.chain(asked).collect();
    for worker in &mut state.workers {
        worker.previous.take_if(|previous| !known.contains(previous));
    }
    for message in &mut state.wire {
        if let Body::Acquire { previous, .. } = &mut message.body {
            previous.take_if(|previous| !known.contains(previous));
        }
    }
    state.wire.retain(|message| match message.body {
        Body::Release { attempt } => known.contains(&attempt),
        Body::Acquire { .. } | Body::Seed { .. } => true,
    });
}

/// Two masters that are alive are alike: the one with the lower counter comes first.
fn sort_servers(state: &mut State) {
    let [Some(first), Some(second)] = &state.servers else { return };
    let key =
        |server: &Server| (server.memory.counter.as_ref().map(|counter| counter.token), server.memory.lease.is_some());
    if key(first) <= key(second) {
        return;
    }
    state.servers.swap(0, 1);
    for worker in &mut state.workers {
        match &mut worker.step {
            Step::Told { server, .. } | Step::Seeding { server, .. } => *server = 1 - *server,
            Step::Ready | Step::Counting | Step::Leased { .. } | Step::Planned { .. } => {}
        }
    }
    for message in &mut state.wire {
        message.server = 1 - message.server;
    }
}

/// Workers are alike, and so are orders.
fn sort_what_is_alike(state: &mut State) {
    let Some(first) = state.workers.iter().find_map(|worker| match worker.step {
        Step::Planned { order, .. } => Some(order),
        _ => None,
    }) else {
        state.orders.sort_unstable();
        state.workers.sort_unstable();
        return;
    };
    state.workers.sort_unstable();
    let swap = match state.orders[0].cmp(&state.orders[1]) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => first == 1,
        std::cmp::Ordering::Greater => true,
    };
    if swap {
        state.orders.swap(0, 1);
        for worker in &mut state.workers {
            if let Step::Planned { order, .. } = &mut worker.step {
                *order = 1 - *order;
            }
        }
    }
}

/// Gives the names 0, 1, … in the sequence in which they first appear.
fn rename_by_appearance(names: &mut [&mut u8]) {
    let mut seen: Vec<u8> = Vec::with_capacity(8);
    for name in names.iter_mut().filter(|name| ***name != GONE) {
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
            Body::Acquire { attempt, previous } => {
                all.push(attempt);
                all.extend(previous);
            }
            Body::Release { attempt } => all.push(attempt),
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
            Step::Told { incarnation, .. } | Step::Seeding { incarnation, .. } => all.push(incarnation),
            Step::Ready | Step::Counting | Step::Leased { .. } | Step::Planned { .. } => {}
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
        match &mut worker.step {
            Step::Seeding { floor: token, .. } | Step::Leased { token } | Step::Planned { token, .. } => {
                all.push(token)
            }
            Step::Ready | Step::Counting | Step::Told { .. } => {}
        }
    }
    for message in &mut state.wire {
        match &mut message.body {
            Body::Seed { floor, .. } => all.push(floor),
            Body::Acquire { .. } | Body::Release { .. } => {}
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
