//! What counts for nothing may as well not be there, or be always the same: memories of incarnations that are gone, and
//! tokens that the fence has left behind. That the worker's rules see it so is asserted where it is not plain.

use lastunit::fence::{Epoch, FenceToken};
use lastunit::lease::Cause;
use lastunit::lease::rules::{self, Answer, Ask, Counter};

use super::state::{Age, Body, GONE, Memory, Order, Server, State, Step};

/// Makes alike what the sound rules cannot tell apart.
pub fn forget(state: &mut State) {
    in_servers(state);
    let alive: Vec<u8> = state.servers.iter().flatten().map(|server| server.incarnation).collect();
    in_workers(state, &alive);
    let fence = state.fence;
    for message in &mut state.wire {
        message.from = 0;
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

fn in_servers(state: &mut State) {
    let ready = state.workers.iter().filter(|worker| worker.step == Step::Ready).map(|worker| worker.attempt);
    let late = state.wire.iter().filter_map(|message| match message.body {
        Body::Acquire { attempt, .. } => Some(attempt),
        Body::Seed { .. } | Body::Release { .. } => None,
    });
    let asking: Vec<u8> = ready.chain(late).collect();
    let fence = state.fence;
    let overtaken = FenceToken::new(Epoch::default(), 1).expect("a token");
    for server in state.servers.iter_mut().flatten() {
        assert_void_is_void(server);
        let here = server.incarnation;
        server.memory.lease.take_if(|lease| lease.incarnation != here);
        // As unknown as a missing one.
        server.memory.counter.take_if(|counter| counter.incarnation != here);
        if let Some(lease) = &mut server.memory.lease {
            // Only the attempt that has had no reply will hear of the token again.
            if !asking.contains(&lease.attempt) {
                lease.token = FenceToken::ZERO;
            } else if lease.token < fence {
                lease.token = overtaken;
            }
        }
        // All that is handed out in an epoch before the fence's is refused, and all such epochs are alike.
        if let Some(counter) = server.memory.counter.as_mut().filter(|counter| counter.token.epoch() < fence.epoch()) {
            counter.token = FenceToken::ZERO;
        }
    }
}

fn in_workers(state: &mut State, alive: &[u8]) {
    let fence = state.fence;
    let open = state.orders.iter().position(|order| *order == Order::Open).unwrap_or_default();
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
