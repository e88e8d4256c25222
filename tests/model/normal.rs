//! Renames everything whose name does not matter, so that states which differ in nothing else are one.
//!
//! Only the equality of attempts and of incarnations matters, and only the sequence of grants and of epochs: a new epoch
//! is always above all others. The same holds for the sequences within an epoch as long as the counter that may still go
//! on in it is the highest; where it is not (which no sound rule brings about), they are left as they are.

use lastunit::fence::{Epoch, FenceToken};
use lastunit::lease::Cause;
use lastunit::lease::rules::{self, Answer, Ask, Counter};

use super::state::{Age, Body, GONE, Memory, Order, Server, State, Step};

/// The state in normal form. Only where all rules hold, tokens may be renamed too; and workers are not told apart, which
/// would make a bad story.
pub fn normalise(mut state: State, is_sound: bool) -> State {
    forget_what_is_gone(&mut state);
    if is_sound {
        forget_what_is_void(&mut state);
        rename_ages(&mut state);
        rename_tokens(&mut state);
        sort_what_is_alike(&mut state);
        sort_servers(&mut state);
    }
    rename_by_appearance(&mut attempts(&mut state));
    rename_by_appearance(&mut incarnations(&mut state));
    rename_ages(&mut state);
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
    state.wire.retain(|message| match message.body {
        Body::Release { attempt } => known.contains(&attempt),
        Body::Acquire { .. } | Body::Seed { .. } => true,
    });
}

/// What counts for nothing may as well not be there, or be always the same: memories of incarnations that are gone, and
/// tokens that the fence has left behind. That the worker's rules see it so is asserted where it is not plain.
fn forget_what_is_void(state: &mut State) {
    let asking: Vec<u8> = state
        .workers
        .iter()
        .filter(|worker| worker.step == Step::Ready)
        .map(|worker| worker.attempt)
        .chain(state.wire.iter().filter_map(|message| match message.body {
            Body::Acquire { attempt, .. } => Some(attempt),
            Body::Seed { .. } | Body::Release { .. } => None,
        }))
        .collect();
    let fence = state.fence;
    let open = state.orders.iter().position(|order| *order == Order::Open).unwrap_or_default();
    let overtaken = FenceToken::new(Epoch::default(), 1).expect("a token");
    for server in state.servers.iter_mut().flatten() {
        assert_void_is_void(server);
        let here = server.incarnation;
        server.memory.lease.take_if(|lease| lease.incarnation != here);
        if let Some(lease) = &mut server.memory.lease {
            // Only the attempt that has had no reply will hear of the token again.
            if !asking.contains(&lease.attempt) {
                lease.token = FenceToken::ZERO;
            } else if lease.token < fence {
                lease.token = overtaken;
            }
        }
        match &mut server.memory.counter {
            // All that is handed out in an epoch before the fence's is refused, and all such epochs are alike.
            Some(counter) if counter.token.epoch() < fence.epoch() => counter.token = FenceToken::ZERO,
            Some(_) | None => {}
        }
        // As unknown as a missing one.
        server.memory.counter.take_if(|counter| counter.incarnation != here);
    }
    // Whoever starts from the copy is another incarnation than wrote it: asserted above once it has started.
    let alive: Vec<u8> = state.servers.iter().flatten().map(|server| server.incarnation).collect();
    for worker in &mut state.workers {
        match &mut worker.step {
            Step::Told { incarnation, .. } if !alive.contains(incarnation) => *incarnation = GONE,
            Step::Seeding { incarnation, floor, .. } if !alive.contains(incarnation) => {
                (*incarnation, *floor) = (GONE, FenceToken::ZERO);
            }
            Step::Seeding { floor, .. } if floor.epoch() < fence.epoch() => *floor = FenceToken::ZERO,
            Step::Leased { token } if *token < fence => {
                *token = FenceToken::ZERO;
                worker.age = Age::Overtaken;
            }
            // Refused whatever it has planned.
            Step::Planned { token, order, take } if *token < fence => {
                (*token, *order, *take) = (FenceToken::ZERO, open, 0);
                worker.age = Age::Overtaken;
            }
            Step::Ready | Step::Counting | Step::Told { .. } | Step::Seeding { .. } => {}
            Step::Leased { .. } | Step::Planned { .. } => {}
        }
    }
    for message in &mut state.wire {
        if let Body::Seed { floor, .. } = &mut message.body
            && floor.epoch() < fence.epoch()
        {
            *floor = FenceToken::ZERO;
        }
    }
    state.wire.retain(|message| match message.body {
        Body::Seed { incarnation, .. } => alive.contains(&incarnation),
        Body::Acquire { .. } | Body::Release { .. } => true,
    });
}

/// A memory of another incarnation gives nobody anything, whatever is in it.
fn assert_void_is_void(server: &Server) {
    let here = server.incarnation;
    if let Some(counter) = server.memory.counter.as_ref().filter(|counter| counter.incarnation != here) {
        let high = FenceToken::from_row(i64::MAX >> 1).expect("a token");
        for token in [FenceToken::ZERO, counter.token, high] {
            let mut memory = Memory { lease: None, counter: Some(Counter { incarnation: counter.incarnation, token }) };
            let ask = Ask { attempt: 0, previous: None, floor: FenceToken::ZERO, ttl_ms: 0 };
            let answer = rules::acquire(&mut memory, &here, &ask, 0);
            assert_eq!(answer, Ok(Answer::Unknown(Cause::Incarnation)));
        }
    }
    if let Some(lease) = server.memory.lease.as_ref().filter(|lease| lease.incarnation != here) {
        for attempt in [lease.attempt, lease.attempt + 1] {
            let ask = Ask { attempt, previous: None, floor: FenceToken::ZERO, ttl_ms: 0 };
            let counter = Some(Counter { incarnation: here, token: FenceToken::ZERO });
            let mut with = Memory { lease: Some(lease.clone()), counter: counter.clone() };
            let mut without = Memory { lease: None, counter };
            assert_eq!(rules::acquire(&mut with, &here, &ask, 0), rules::acquire(&mut without, &here, &ask, 0));
            assert_eq!(with, without);
        }
    }
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
