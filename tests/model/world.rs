//! What becomes of the world when somebody acts on it, and whether a promise was broken by it.

use lastunit::fence::FenceToken;
use lastunit::lease::rules;

use super::notes::{Note, Notes};
use super::state::{Age, Body, Broken, GONE, Incarnation, Order, State, Step};

impl State {
    /// Whether a floor would make a difference.
    pub fn is_behind(&self, server: usize) -> bool {
        let counter = self.servers[server].as_ref().and_then(|server| server.memory.counter.as_ref());
        counter.is_some_and(|counter| counter.token < self.fence)
    }

    pub fn expire(&mut self, server: usize, notes: &mut Notes) {
        notes.add(Note::Expired);
        self.servers[server].as_mut().expect("a server").memory.lease = None;
    }

    pub fn plan(&mut self, index: usize, order: usize) {
        if let Step::Leased { token } = self.workers[index].step {
            let take = self.available.clamp(0, 1);
            self.workers[index].step = Step::Planned { token, order, take };
        }
    }

    /// What the transaction does, and what it must not.
    pub fn write(&mut self, index: usize, token: FenceToken, order: usize, take: i8) {
        let age = self.workers[index].age;
        // A fence with a sequence was written by a commit, with this very token.
        if token == self.fence && token.sequence() > 0 {
            self.broken = Some(Broken::TokenUsedTwice);
        }
        if age == Age::Overtaken || token < self.fence {
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
    }

    pub fn release(&mut self, index: usize, notes: &mut Notes) {
        let Some(attempt) = self.workers[index].previous.take() else { return };
        for server in 0..2 {
            self.release_at(server, attempt, notes);
        }
    }

    pub fn release_at(&mut self, server: usize, attempt: u8, notes: &mut Notes) {
        let Some(server) = &mut self.servers[server] else { return };
        let released = rules::release(&mut server.memory, &attempt);
        if released {
            notes.add(Note::Released);
        } else if server.memory.lease.is_some() {
            notes.add(Note::NotReleased);
        }
    }

    pub fn next_age(&self) -> Age {
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
            Body::Acquire { attempt, previous } => [Some(attempt), previous],
            Body::Release { attempt } => [Some(attempt), None],
            Body::Seed { .. } => [None, None],
        });
        workers.chain(leases).chain(wire.flatten()).max().map_or(0, |highest| highest + 1)
    }

    /// A name that no server has, nor anything that a server wrote or a worker remembers.
    pub fn new_incarnation(&self) -> Incarnation {
        let servers = self.servers.iter().flatten().map(|server| server.incarnation);
        let memories = self.memories().flat_map(|memory| {
            let lease = memory.lease.as_ref().map(|lease| lease.incarnation);
            lease.into_iter().chain(memory.counter.as_ref().map(|counter| counter.incarnation))
        });
        let workers = self.workers.iter().filter_map(|worker| match worker.step {
            Step::Told { incarnation, .. } | Step::Seeding { incarnation, .. } => Some(incarnation),
            Step::Ready | Step::Counting | Step::Leased { .. } | Step::Planned { .. } => None,
        });
        let wire = self.wire.iter().filter_map(|message| match message.body {
            Body::Seed { incarnation, .. } => Some(incarnation),
            Body::Acquire { .. } | Body::Release { .. } => None,
        });
        let named = servers.chain(memories).chain(workers).chain(wire).filter(|name| *name != GONE);
        named.max().map_or(0, |highest| highest + 1)
    }
}
