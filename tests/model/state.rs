//! What the model remembers: the database, the Redis servers, the workers, the wire between them, and what may still go
//! wrong.

use lastunit::fence::FenceToken;
use lastunit::lease::rules;

/// Names an attempt. A name is used once; what is forgotten everywhere may be named so again.
pub type Attempt = u8;
/// Names one server's memory, from its start or promotion to the next.
pub type Incarnation = u8;
/// An incarnation that is no server's any more: all such are alike.
pub const GONE: Incarnation = u8::MAX;
/// What a server remembers about the SKU: the type that the worker's rules work on.
pub type Memory = rules::Memory<Attempt, Incarnation>;

/// Orders for one unit each.
pub const ORDERS: usize = 2;
/// Units on the shelf: one less than is wanted.
pub const STOCK: i8 = 1;

/// Everything at one moment.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct State {
    /// `stock.fence_token`.
    pub fence: FenceToken,
    /// `stock.available`.
    pub available: i8,
    /// The reservation rows.
    pub orders: [Order; ORDERS],
    /// The first one is there from the start; the second one once a replica was promoted beside it.
    pub servers: [Option<Server>; 2],
    /// What a lagging replica, or a file on disk, holds.
    pub copy: Memory,
    /// Each in its own step; a pause is simply that it takes none.
    pub workers: Vec<Worker>,
    /// Requests that were delayed, in no order.
    pub wire: Vec<Message>,
    /// What may still go wrong.
    pub left: Faults,
    /// The promise that was broken, if one was.
    pub broken: Option<Broken>,
}

/// An order's decision. Its message may be delivered to any number of workers, at any time.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Order {
    Open,
    Reserved,
    Rejected,
}

/// A Redis server.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Server {
    pub incarnation: Incarnation,
    pub memory: Memory,
}

/// A worker.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Worker {
    pub step: Step,
    /// When its lease was granted, seen from outside.
    pub age: Age,
    /// The attempt before, whose lease it may continue.
    pub previous: Option<Attempt>,
    pub attempt: Attempt,
}

/// The sequence of grants. Later is higher.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Age {
    NotGranted,
    /// A later holder has written since: from now on a write of this one would be stale.
    Overtaken,
    Granted(u8),
}

/// Where a worker stands. It can stop at each of them for as long as it likes; so a request that is merely slow is one
/// that its worker has not sent yet, and only those stand on the wire that their worker no longer waits for.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Step {
    /// Would like a lease.
    Ready,
    /// Only in the variant of two steps: has the lease, but no token.
    Counting,
    /// Was told that the counter is unknown.
    Told { server: usize, incarnation: Incarnation },
    /// Has moved the epoch; `floor` is its first token, which is never handed out. The seed has not arrived.
    Seeding { server: usize, incarnation: Incarnation, floor: FenceToken },
    /// Has a token.
    Leased { token: FenceToken },
    /// Has read the stock and decided.
    Planned { token: FenceToken, order: usize, take: i8 },
}

/// A request that arrives late: nobody waits for its reply.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Message {
    pub from: usize,
    pub server: usize,
    pub body: Body,
}

/// What it asks for.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Body {
    Acquire { attempt: Attempt, previous: Option<Attempt> },
    Seed { incarnation: Incarnation, floor: FenceToken },
    Release { attempt: Attempt },
}

/// How often each kind of thing may still go wrong.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Faults {
    /// Flushes, evicted counters, restarts with the memory intact.
    pub losses: u8,
    /// Restarts from an old file, promotions of a lagging replica.
    pub rollbacks: u8,
    /// How many of these promote a replica beside a master that stays alive.
    pub promotions: u8,
    /// Times at which the copy catches up. Not a fault, but each doubles the states.
    pub copies: u8,
    /// Lost and delayed requests, lost replies, lost answers of the database, crashes.
    pub disturbances: u8,
}

/// A promise that does not hold.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Broken {
    /// A write was accepted after a later holder's.
    StaleWrite,
    /// One token authorised two commits.
    TokenUsedTwice,
    /// More was sold than there was.
    Oversold,
}

impl Broken {
    /// The promise, as the checker's property is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::StaleWrite => "no stale write",
            Self::TokenUsedTwice => "one commit per token",
            Self::Oversold => "no oversell",
        }
    }
}

impl State {
    /// Nothing has happened: a new stock row, an empty Redis.
    pub fn new(workers: u8, faults: Faults) -> Self {
        let worker = |attempt| Worker { step: Step::Ready, attempt, previous: None, age: Age::NotGranted };
        Self {
            fence: FenceToken::ZERO,
            available: STOCK,
            orders: [Order::Open; ORDERS],
            servers: [Some(Server { incarnation: 0, memory: Memory::default() }), None],
            copy: Memory::default(),
            workers: (0..workers).map(worker).collect(),
            wire: Vec::new(),
            left: faults,
            broken: None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.orders.iter().all(|order| *order != Order::Open)
    }

    /// Every memory: of the servers and of the copy.
    pub fn memories(&self) -> impl Iterator<Item = &Memory> {
        self.servers.iter().flatten().map(|server| &server.memory).chain([&self.copy])
    }
}
