//! What can happen next, and what becomes of it. The decisions are the worker's own: [`rules`], [`FenceToken::passes`] and
//! [`Epoch::next`](lastunit::fence::Epoch::next).

use std::collections::BTreeSet;

use lastunit::fence::FenceToken;
use lastunit::lease::Cause;
use lastunit::lease::rules::{self, Answer, Ask, Seeding};

use super::state::{Age, Body, Broken, Incarnation, Message, Order, Server, State, Step, Worker};
use super::variant::Variant;

/// One thing that happens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// A worker sends its acquire, or sends it again under the same name.
    Ask { worker: usize, server: usize },
    /// A request arrives and is answered.
    Deliver(Message),
    /// A lease ends by itself.
    Expire { server: usize },
    /// A worker reads the fence.
    ReadFence { worker: usize },
    /// A worker moves the epoch, if the fence is still as it read it.
    Advance { worker: usize },
    /// A worker sends the seed of the epoch that it won.
    SendSeed { worker: usize },
    /// A worker that had no reply to its seed asks for its lease instead.
    DoubtSeed { worker: usize },
    /// Only in the variant that repeats seeds.
    RepeatSeed { worker: usize },
    /// A worker reads the stock and decides an order.
    Plan { worker: usize, order: usize },
    /// The transaction.
    Commit { worker: usize },
    /// A worker does not trust its lease any longer and takes another.
    Renew { worker: usize },
    /// A worker gives its last lease back.
    Release { worker: usize },
    /// The copy catches up with a server.
    Copy { server: usize },
    /// Something goes wrong.
    Fault(Fault),
}

/// One thing that goes wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// A server forgets everything.
    Flush { server: usize },
    /// A counter is evicted.
    Evict { server: usize },
    /// A server restarts and still knows everything.
    Restart { server: usize },
    /// A server starts from the copy: restarted, or promoted beside the other one.
    RollBack { server: usize },
    /// A request is lost.
    LoseRequest(Message),
    /// A request arrives, but its reply is lost.
    LoseReply(Message),
    /// A worker does not wait for a request that is still on its way.
    Impatience { worker: usize },
    /// The transaction is durable, but the worker is not told.
    LoseAnswer { worker: usize },
    /// A worker starts over and knows nothing.
    Crash { worker: usize },
}

/// What came up on the way: each must, or the model would prove less than it says.
pub type Notes = BTreeSet<&'static str>;

impl Action {
    /// Whether it may fail to happen for ever: liveness must not need it.
    pub fn is_needless(&self) -> bool {
        matches!(self, Self::Fault(_) | Self::Copy { .. } | Self::RepeatSeed { .. })
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
        if state.broken.is_some() {
            return;
        }
        for server in (0..2).filter(|&server| state.servers[server].is_some()) {
            if state.servers[server].as_ref().is_some_and(|server| server.memory.lease.is_some()) {
                actions.push(Action::Expire { server });
            }
        }
        for worker in 0..state.workers.len() {
            self.steps(state, worker, actions);
        }
        for (index, message) in state.wire.iter().enumerate() {
            // Equal messages are one choice.
            if index == 0 || state.wire[index - 1] != *message {
                actions.push(Action::Deliver(message.clone()));
            }
        }
        super::faults::possible(state, actions);
    }

    fn steps(self, state: &State, index: usize, actions: &mut Vec<Action>) {
        let worker = &state.workers[index];
        let waits = state.wire.iter().any(|message| message.from == index && message.is_awaited_by(worker));
        let ask = (0..2).filter(|&server| state.servers[server].is_some());
        match &worker.step {
            Step::Ready => {
                if !state.is_done() {
                    actions.extend(ask.map(|server| Action::Ask { worker: index, server }));
                }
                if worker.previous.is_some() {
                    actions.push(Action::Release { worker: index });
                }
            }
            Step::Asking | Step::Counting if !waits => {
                actions.extend(ask.map(|server| Action::Ask { worker: index, server }));
            }
            Step::Asking | Step::Counting => {}
            Step::Told { .. } => actions.push(Action::ReadFence { worker: index }),
            Step::Read { .. } => actions.push(Action::Advance { worker: index }),
            Step::Won { .. } => actions.push(Action::SendSeed { worker: index }),
            Step::Seeding { .. } if !waits => {
                actions.push(Action::DoubtSeed { worker: index });
                if self.variant == Variant::SeedTwice {
                    actions.push(Action::RepeatSeed { worker: index });
                }
            }
            Step::Seeding { .. } => {}
            Step::Leased { .. } => {
                let open = (0..state.orders.len()).filter(|&order| state.orders[order] == Order::Open);
                actions.extend(open.map(|order| Action::Plan { worker: index, order }));
                actions.push(Action::Renew { worker: index });
            }
            Step::Planned { .. } => actions.push(Action::Commit { worker: index }),
        }
    }

    /// The state after an action; what came up is added to `notes`.
    pub fn apply(self, state: &State, action: &Action, notes: &mut Notes) -> State {
        let mut next = state.clone();
        match action {
            Action::Ask { worker, server } => self.ask(&mut next, *worker, *server),
            Action::Deliver(message) => self.deliver(&mut next, message, true, notes),
            Action::Expire { server } => {
                notes.insert("a lease ended by itself");
                if let Some(server) = &mut next.servers[*server] {
                    server.memory.lease = None;
                }
            }
            Action::ReadFence { worker } => next.read_fence(*worker),
            Action::Advance { worker } => self.advance(&mut next, *worker, notes),
            Action::SendSeed { worker } | Action::RepeatSeed { worker } => next.send_seed(*worker),
            Action::DoubtSeed { worker } => next.workers[*worker].step = Step::Ready,
            Action::Plan { worker, order } => next.plan(*worker, *order),
            Action::Commit { worker } => self.commit(&mut next, *worker, true, notes),
            Action::Renew { worker } => next.start_attempt(*worker),
            Action::Release { worker } => next.release(*worker),
            Action::Copy { server } => {
                next.left.copies -= 1;
                next.copy = next.servers[*server].clone().expect("a server").memory;
            }
            Action::Fault(fault) => super::faults::apply(self, &mut next, fault, notes),
        }
        next
    }

    fn ask(self, state: &mut State, index: usize, server: usize) {
        let worker = &mut state.workers[index];
        let body = if worker.step == Step::Counting {
            Body::Count { attempt: worker.attempt }
        } else {
            worker.step = Step::Asking;
            Body::Acquire { attempt: worker.attempt, previous: worker.previous, floor: worker.floor }
        };
        state.wire.push(Message { from: index, server, body });
    }

    fn advance(self, state: &mut State, index: usize, notes: &mut Notes) {
        let Step::Read { server, incarnation, fence } = state.workers[index].step else { return };
        let won = if self.variant == Variant::ReseedFromMax {
            Some(fence)
        } else if fence == state.fence {
            state.fence = fence.epoch().next().expect("epochs are left").floor();
            Some(state.fence)
        } else {
            notes.insert("two workers recovered at once");
            None
        };
        state.workers[index].step = match won {
            Some(floor) => Step::Won { server, incarnation, floor },
            None => Step::Ready,
        };
    }

    /// A request arrives at its server; `is_told` says whether its reply reaches the worker.
    pub fn deliver(self, state: &mut State, message: &Message, is_told: bool, notes: &mut Notes) {
        let place = state.wire.iter().position(|other| other == message).expect("a request on its way");
        state.wire.swap_remove(place);
        let is_told = is_told && message.is_awaited_by(&state.workers[message.from]);
        match &message.body {
            Body::Acquire { attempt, previous, floor } => {
                let ask = Ask { attempt: *attempt, previous: *previous, floor: *floor, ttl_ms: 0 };
                self.acquire(state, message, &ask, is_told, notes);
            }
            Body::Count { attempt } => super::variant::count(state, message, *attempt, is_told),
            Body::Seed { incarnation, floor } => {
                let server = state.servers[message.server].as_mut().expect("a server");
                notes.insert(match self.variant.seed(server, *incarnation, *floor) {
                    Seeding::Installed => "a seed was installed",
                    Seeding::Kept => "a seed came late",
                    Seeding::Refused => "a seed was meant for another incarnation",
                });
                if is_told {
                    state.workers[message.from].step = Step::Ready;
                }
            }
            Body::Release { attempt } => {
                let server = state.servers[message.server].as_mut().expect("a server");
                let released = rules::release(&mut server.memory, attempt);
                notes.insert(if released {
                    "a lease was released"
                } else {
                    "a release left somebody else's lease alone"
                });
            }
        }
    }

    fn acquire(self, state: &mut State, message: &Message, ask: &Ask<u8>, is_told: bool, notes: &mut Notes) {
        let server = state.servers[message.server].as_mut().expect("a server");
        let before = server.memory.clone();
        let answer = self.variant.acquire(server, ask);
        let incarnation = server.incarnation;
        let is_new = match self.variant {
            Variant::TwoSteps => before.lease.is_none_or(|lease| lease.attempt != ask.attempt),
            _ => server.memory.counter != before.counter,
        };
        if let Answer::Granted(_) = answer {
            notes.insert(if is_new { "a lease was granted" } else { "a lost reply was given again" });
            if is_new && state.workers[message.from].attempt == ask.attempt {
                state.workers[message.from].age = state.latest_age();
            }
        }
        if !is_told {
            return;
        }
        state.workers[message.from].step = match answer {
            Answer::Granted(_) if self.variant == Variant::TwoSteps => Step::Counting,
            Answer::Granted(token) => Step::Leased { token },
            Answer::Held { .. } => {
                notes.insert("a lease was held");
                Step::Ready
            }
            Answer::Unknown(cause) => {
                notes.insert(match cause {
                    Cause::Missing => "a counter was missing",
                    Cause::Incarnation => "a counter was another incarnation's",
                    Cause::Behind => "a counter was behind the fence",
                });
                Step::Told { server: message.server, incarnation }
            }
        };
    }

    /// The transaction, all of it or nothing; `is_told` says whether the worker learns of it.
    pub fn commit(self, state: &mut State, index: usize, is_told: bool, notes: &mut Notes) {
        let Step::Planned { token, order, take } = state.workers[index].step else { return };
        if state.orders[order] != Order::Open {
            notes.insert("a duplicate had been decided meanwhile");
            state.workers[index].step = Step::Leased { token };
        } else if !self.variant.passes(token, state.fence) {
            notes.insert("a stale holder was refused");
            state.start_attempt(index);
            state.workers[index].floor = state.fence;
        } else if state.available < take {
            notes.insert("the stock was gone meanwhile");
            state.workers[index].step = Step::Leased { token };
        } else {
            state.write(index, token, order, take);
            notes.insert(if take > 0 { "an order was reserved" } else { "an order was rejected" });
            if is_told {
                state.start_attempt(index);
            } else {
                // It does not know whether its token was used, and goes on with it.
                state.workers[index].step = Step::Leased { token };
            }
        }
    }
}

impl Message {
    /// Whether the worker would take notice of the reply.
    pub fn is_awaited_by(&self, worker: &Worker) -> bool {
        match (&self.body, &worker.step) {
            (Body::Acquire { attempt, .. }, Step::Asking) | (Body::Count { attempt }, Step::Counting) => {
                *attempt == worker.attempt
            }
            (Body::Seed { floor, .. }, Step::Seeding { floor: sent, .. }) => floor == sent,
            _ => false,
        }
    }
}

impl State {
    fn read_fence(&mut self, index: usize) {
        if let Step::Told { server, incarnation } = self.workers[index].step {
            self.workers[index].step = Step::Read { server, incarnation, fence: self.fence };
        }
    }

    fn send_seed(&mut self, index: usize) {
        if let Step::Won { server, incarnation, floor } | Step::Seeding { server, incarnation, floor } =
            self.workers[index].step
        {
            self.workers[index].step = Step::Seeding { server, incarnation, floor };
            self.wire.push(Message { from: index, server, body: Body::Seed { incarnation, floor } });
        }
    }

    fn plan(&mut self, index: usize, order: usize) {
        if let Step::Leased { token } = self.workers[index].step {
            let take = self.available.clamp(0, 1);
            self.workers[index].step = Step::Planned { token, order, take };
        }
    }

    /// What the transaction does, and what it must not.
    fn write(&mut self, index: usize, token: FenceToken, order: usize, take: i8) {
        let age = self.workers[index].age;
        // A fence with a sequence was written by a commit, with this very token.
        if token == self.fence && token.sequence() > 0 {
            self.broken = Some(Broken::TokenUsedTwice);
        }
        if age == Age::Overtaken {
            self.broken = Some(Broken::StaleWrite);
        }
        self.fence = token;
        self.available -= take;
        self.orders[order] = if take > 0 { Order::Reserved } else { Order::Rejected };
        if self.available < 0 {
            self.broken = Some(Broken::Oversold);
        }
        for worker in &mut self.workers {
            if matches!(worker.age, Age::Granted(_)) && worker.age < age {
                worker.age = Age::Overtaken;
            }
        }
    }

    /// A new attempt, which may continue the lease of the one before.
    pub fn start_attempt(&mut self, index: usize) {
        let attempt = self.new_attempt();
        let worker = &mut self.workers[index];
        worker.previous = Some(worker.attempt);
        worker.attempt = attempt;
        worker.step = Step::Ready;
        worker.age = Age::NotGranted;
        worker.floor = FenceToken::ZERO;
    }

    fn release(&mut self, index: usize) {
        let Some(attempt) = self.workers[index].previous.take() else { return };
        for server in 0..2 {
            if self.servers[server].is_some() {
                self.wire.push(Message { from: index, server, body: Body::Release { attempt } });
            }
        }
    }

    fn latest_age(&self) -> Age {
        let ages = self.workers.iter().map(|worker| match worker.age {
            Age::Granted(age) => age + 1,
            Age::NotGranted | Age::Overtaken => 0,
        });
        Age::Granted(ages.max().unwrap_or(0))
    }

    /// A name that nothing has.
    fn new_attempt(&self) -> u8 {
        let workers = self.workers.iter().flat_map(|worker| worker.previous.into_iter().chain([worker.attempt]));
        let leases = self.memories().filter_map(|memory| memory.lease.as_ref().map(|lease| lease.attempt));
        let wire = self.wire.iter().flat_map(|message| match message.body {
            Body::Acquire { attempt, previous, .. } => [Some(attempt), previous],
            Body::Count { attempt } | Body::Release { attempt } => [Some(attempt), None],
            Body::Seed { .. } => [None, None],
        });
        workers.chain(leases).chain(wire.flatten()).max().map_or(0, |highest| highest + 1)
    }

    /// A name that no server has, nor anything that a server wrote.
    pub fn new_incarnation(&self) -> Incarnation {
        let servers = self.servers.iter().flatten().map(|server: &Server| server.incarnation);
        let memories = self.memories().flat_map(|memory| {
            let lease = memory.lease.as_ref().map(|lease| lease.incarnation);
            lease.into_iter().chain(memory.counter.as_ref().map(|counter| counter.incarnation))
        });
        let workers = self.workers.iter().filter_map(|worker| match worker.step {
            Step::Told { incarnation, .. }
            | Step::Read { incarnation, .. }
            | Step::Won { incarnation, .. }
            | Step::Seeding { incarnation, .. } => Some(incarnation),
            Step::Ready | Step::Asking | Step::Counting | Step::Leased { .. } | Step::Planned { .. } => None,
        });
        let wire = self.wire.iter().filter_map(|message| match message.body {
            Body::Seed { incarnation, .. } => Some(incarnation),
            Body::Acquire { .. } | Body::Count { .. } | Body::Release { .. } => None,
        });
        servers.chain(memories).chain(workers).chain(wire).max().map_or(0, |highest| highest + 1)
    }
}
