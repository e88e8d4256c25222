//! The sound protocol, and the same with one rule taken away.

use lastunit::fence::FenceToken;
use lastunit::lease::rules::{self, Answer, Ask, Counter, Lease, Seeding};

use super::state::{Incarnation, Server, State, Step};

/// Which rule is taken away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variant {
    /// None.
    Sound,
    /// Recovery installs the highest token *used* instead of a new epoch.
    ReseedFromMax,
    /// A counter that exists is trusted; a seed is installed only where there is none.
    SeedIfMissing,
    /// Counters and leases of every incarnation are taken for this one's.
    NoIncarnation,
    /// A seed is sent again when its reply does not come.
    SeedTwice,
    /// The lease first, the token by a second request.
    TwoSteps,
    /// The fence predicate is `<=`.
    LessOrEqual,
}

impl Variant {
    /// The fence predicate.
    pub fn passes(self, token: FenceToken, row: FenceToken) -> bool {
        token.passes(row) || (self == Self::LessOrEqual && token == row)
    }

    /// `acquire.lua`
    pub fn acquire(self, server: &mut Server, ask: &Ask<u8>) -> Answer {
        let mut ask = ask.clone();
        match self {
            Self::NoIncarnation => server.adopt(),
            Self::SeedIfMissing => {
                server.adopt();
                ask.floor = FenceToken::ZERO;
            }
            Self::TwoSteps => return lease_only(server, &ask),
            Self::Sound | Self::ReseedFromMax | Self::SeedTwice | Self::LessOrEqual => {}
        }
        // The clock is left out: nothing may rest on it.
        rules::acquire(&mut server.memory, &server.incarnation, &ask, 0).expect("sequences are left")
    }

    /// `seed.lua`
    pub fn seed(self, server: &mut Server, meant_for: Incarnation, floor: FenceToken) -> Seeding {
        match self {
            Self::SeedIfMissing if server.memory.counter.is_some() => Seeding::Kept,
            Self::ReseedFromMax => {
                if meant_for != server.incarnation {
                    return Seeding::Refused;
                }
                server.memory.counter = Some(Counter { incarnation: meant_for, token: floor });
                Seeding::Installed
            }
            Self::Sound
            | Self::SeedIfMissing
            | Self::NoIncarnation
            | Self::SeedTwice
            | Self::TwoSteps
            | Self::LessOrEqual => {
                if self == Self::NoIncarnation {
                    server.adopt();
                }
                let meant_for = if self == Self::NoIncarnation { server.incarnation } else { meant_for };
                rules::seed(&mut server.memory, &server.incarnation, &meant_for, floor.epoch())
            }
        }
    }
}

impl Server {
    /// Takes for its own what another incarnation wrote.
    fn adopt(&mut self) {
        if let Some(lease) = &mut self.memory.lease {
            lease.incarnation = self.incarnation;
        }
        if let Some(counter) = &mut self.memory.counter {
            counter.incarnation = self.incarnation;
        }
    }
}

/// The first of two steps: `SET NX`, once the counter is there.
fn lease_only(server: &mut Server, ask: &Ask<u8>) -> Answer {
    // The rules say whether it would be granted; their token is not used.
    let mut tried = server.memory.clone();
    let answer = rules::acquire(&mut tried, &server.incarnation, ask, 0).expect("sequences are left");
    if let Answer::Granted(_) = answer {
        server.memory.lease = Some(Lease {
            attempt: ask.attempt,
            incarnation: server.incarnation,
            token: FenceToken::ZERO,
            remaining_ms: 0,
        });
    }
    answer
}

/// The second of two steps: `INCR`. Nothing ties it to the lease.
pub fn count(state: &mut State, worker: usize, server: usize) {
    let (index, server) = (server, state.servers[server].as_mut().expect("a server"));
    state.workers[worker].step = match &mut server.memory.counter {
        None => Step::Told { server: index, incarnation: server.incarnation },
        Some(counter) => {
            let next = counter.token.sequence() + 1;
            counter.token = FenceToken::new(counter.token.epoch(), next).expect("sequences are left");
            Step::Leased { token: counter.token }
        }
    };
}
