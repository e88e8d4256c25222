//! What can happen next, and what becomes of it. The decisions are the worker's own: [`rules`](lastunit::lease::rules), [`FenceToken::passes`] and
//! [`Epoch::next`](lastunit::fence::Epoch::next).

use lastunit::fence::FenceToken;
use lastunit::lease::Cause;
use lastunit::lease::rules::{Answer, Ask, Seeding};

use super::faults::Fault;
use super::notes::{Note, Notes};
use super::state::{Body, Incarnation, Memory, Message, Order, State, Step, Worker};
use super::variant::Variant;

/// One thing that happens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// A worker asks for the lease, or again under the same name, and is answered. It may have seen a fence before, but
    /// none above the present one: whatever its floor is, the answer is that to the present fence or that to none.
    Acquire { worker: usize, server: usize, has_floor: bool },
    /// Only in the variant of two steps: a worker asks for the token.
    Count { worker: usize, server: usize },
    /// A lease ends by itself.
    Expire { server: usize },
    /// A worker moves the epoch: the compare-and-set that it wins. (One that it loses changes nothing.)
    Advance { worker: usize },
    /// The seed of the epoch that it won arrives.
    Seed { worker: usize },
    /// A worker reads the stock and decides an order.
    Plan { worker: usize, order: usize },
    /// The transaction.
    Commit { worker: usize },
    /// A worker does not trust its lease any longer and takes another.
    Renew { worker: usize },
    /// A worker gives its last lease back.
    Release { worker: usize },
    /// A request that its worker gave up arrives after all.
    Arrive(Message),
    /// The copy catches up with a server.
    Copy { server: usize },
    /// Something goes wrong.
    Fault(Fault),
}

impl Action {
    /// Whether it may fail to happen for ever: liveness must not need it.
    pub fn is_needless(&self) -> bool {
        matches!(self, Self::Fault(_) | Self::Copy { .. })
    }
}

/// The protocol, sound or with one rule taken away.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    pub variant: Variant,
}

impl Protocol {
    /// Everything that can happen in a state.
    pub fn actions(self, state: &State, actions: &mut Vec<Action>) {
        // Nothing is written any more once all orders are decided.
        if state.broken.is_some() || state.is_done() {
            return;
        }
        for (index, server) in state.servers.iter().enumerate() {
            if server.as_ref().is_some_and(|server| server.memory.lease.is_some()) {
                actions.push(Action::Expire { server: index });
            }
        }
        for worker in 0..state.workers.len() {
            steps(state, worker, actions);
        }
        for (index, message) in state.wire.iter().enumerate() {
            // Equal messages are one choice.
            if index == 0 || state.wire[index - 1] != *message {
                actions.push(Action::Arrive(message.clone()));
            }
        }
        super::faults::possible(state, actions);
    }

    /// The state after an action; what came up is added to `notes`.
    pub fn apply(self, state: &State, action: &Action, notes: &mut Notes) -> State {
        let mut next = state.clone();
        match action {
            Action::Acquire { worker, server, has_floor } => {
                let floor = if *has_floor { state.fence } else { FenceToken::ZERO };
                self.acquire(&mut next, (*worker, *server), floor, true, notes);
            }
            Action::Count { worker, server } => super::variant::count(&mut next, *worker, *server),
            Action::Expire { server } => next.expire(*server, notes),
            Action::Advance { worker } => self.advance(&mut next, *worker),
            Action::Seed { worker } => self.send_seed(&mut next, *worker, notes),
            Action::Plan { worker, order } => next.plan(*worker, *order),
            Action::Commit { worker } => self.commit(&mut next, *worker, true, notes),
            Action::Renew { worker } => next.start_attempt(*worker),
            Action::Release { worker } => next.release(*worker, notes),
            Action::Arrive(message) => self.arrive(&mut next, message, notes),
            Action::Copy { server } => {
                next.left.copies -= 1;
                next.copy = next.servers[*server].clone().expect("a server").memory;
            }
            Action::Fault(fault) => super::faults::apply(self, &mut next, fault, notes),
        }
        next
    }

    /// A request for the lease is answered; `is_told` says whether the answer reaches the worker.
    pub fn acquire(
        self,
        state: &mut State,
        (index, server): (usize, usize),
        floor: FenceToken,
        is_told: bool,
        notes: &mut Notes,
    ) {
        let worker = &state.workers[index];
        let ask = Ask { attempt: worker.attempt, previous: worker.previous, floor, ttl_ms: 0 };
        let (answer, incarnation) = self.answer(state, server, &ask, notes);
        if !is_told {
            return;
        }
        state.workers[index].step = match answer {
            Answer::Granted(_) if self.variant == Variant::TwoSteps => Step::Counting,
            Answer::Granted(token) => Step::Leased { token },
            Answer::Held { .. } => {
                notes.add(Note::Held);
                Step::Ready
            }
            Answer::Unknown(cause) => {
                notes.add(if cause == Cause::Behind { Note::Behind } else { Note::Missing });
                Step::Told { server, incarnation }
            }
        };
    }

    /// What the server does, whoever hears of it.
    fn answer(self, state: &mut State, server: usize, ask: &Ask<u8>, notes: &mut Notes) -> (Answer, Incarnation) {
        let server = state.servers[server].as_mut().expect("a server");
        let counter = server.memory.counter.clone();
        let was_ours = server.memory.lease.as_ref().is_some_and(|lease| lease.attempt == ask.attempt);
        let answer = self.variant.acquire(server, ask);
        let is_new = if self.variant == Variant::TwoSteps { !was_ours } else { server.memory.counter != counter };
        let incarnation = server.incarnation;
        if let Answer::Granted(_) = answer {
            notes.add(if is_new { Note::Granted } else { Note::GivenAgain });
            let age = state.next_age();
            // One that already has its token commits with that one, whatever a late copy of its request brings about.
            let waits = |worker: &&mut Worker| worker.attempt == ask.attempt && worker.step == Step::Ready;
            if let Some(worker) = state.workers.iter_mut().find(waits).filter(|_| is_new) {
                worker.age = age;
            }
        }
        (answer, incarnation)
    }

    /// What a server starts from that is not the one it was. For the sound protocol its content is void, whatever it is
    /// (see [`normalise`](super::normal::normalise)), so that only the newest needs to be looked at.
    pub fn copy(self, state: &State) -> Memory {
        match (self.variant, state.servers.iter().flatten().next()) {
            (Variant::Sound, Some(server)) => server.memory.clone(),
            (_, _) => state.copy.clone(),
        }
    }

    fn advance(self, state: &mut State, index: usize) {
        let Step::Told { server, incarnation } = state.workers[index].step else { return };
        if self.variant != Variant::ReseedFromMax {
            state.fence = state.fence.epoch().next().expect("epochs are left").floor();
        }
        state.workers[index].step = Step::Seeding { server, incarnation, floor: state.fence };
    }

    /// The seed arrives, and the worker asks for its lease again.
    pub fn send_seed(self, state: &mut State, index: usize, notes: &mut Notes) {
        let Step::Seeding { server, incarnation, floor } = state.workers[index].step else { return };
        self.seed(state, server, incarnation, floor, notes);
        state.workers[index].step = Step::Ready;
    }

    /// A seed arrives.
    pub fn seed(self, state: &mut State, server: usize, incarnation: u8, floor: FenceToken, notes: &mut Notes) {
        let server = state.servers[server].as_mut().expect("a server");
        notes.add(match self.variant.seed(server, incarnation, floor) {
            Seeding::Installed => Note::Installed,
            Seeding::Kept => Note::Kept,
            Seeding::Refused => Note::Refused,
        });
    }

    fn arrive(self, state: &mut State, message: &Message, notes: &mut Notes) {
        let place = state.wire.iter().position(|other| other == message).expect("a request on its way");
        let Message { server, body, .. } = state.wire.swap_remove(place);
        match body {
            Body::Acquire { attempt, previous } => {
                self.answer(state, server, &Ask { attempt, previous, floor: FenceToken::ZERO, ttl_ms: 0 }, notes);
            }
            Body::Seed { incarnation, floor } => self.seed(state, server, incarnation, floor, notes),
            Body::Release { attempt } => state.release_at(server, attempt, notes),
        }
    }

    /// The transaction, all of it or nothing; `is_told` says whether the worker learns of it.
    pub fn commit(self, state: &mut State, index: usize, is_told: bool, notes: &mut Notes) {
        let Step::Planned { token, order, take } = state.workers[index].step else { return };
        if state.orders[order] != Order::Open {
            notes.add(Note::Duplicate);
            state.workers[index].step = Step::Leased { token };
        } else if !self.variant.passes(token, state.fence) {
            notes.add(Note::Stale);
            state.start_attempt(index);
        } else if state.available < take {
            notes.add(Note::Short);
            state.workers[index].step = Step::Leased { token };
        } else {
            state.write(index, token, order, take);
            notes.add(if take > 0 { Note::Reserved } else { Note::Rejected });
            if is_told {
                state.start_attempt(index);
            } else {
                // It does not know whether its token was used, and goes on with it.
                state.workers[index].step = Step::Leased { token };
            }
        }
    }
}

fn steps(state: &State, worker: usize, actions: &mut Vec<Action>) {
    let alive = (0..2).filter(|&server| state.servers[server].is_some());
    match &state.workers[worker].step {
        Step::Ready => {
            for server in alive {
                actions.push(Action::Acquire { worker, server, has_floor: false });
                if state.is_behind(server) {
                    actions.push(Action::Acquire { worker, server, has_floor: true });
                }
            }
            if state.workers[worker].previous.is_some() {
                actions.push(Action::Release { worker });
            }
        }
        Step::Counting => actions.extend(alive.map(|server| Action::Count { worker, server })),
        Step::Told { .. } => actions.push(Action::Advance { worker }),
        Step::Seeding { .. } => actions.push(Action::Seed { worker }),
        Step::Leased { .. } => {
            let open = (0..state.orders.len()).filter(|&order| state.orders[order] == Order::Open);
            actions.extend(open.map(|order| Action::Plan { worker, order }));
            actions.push(Action::Renew { worker });
        }
        Step::Planned { .. } => actions.push(Action::Commit { worker }),
    }
}
