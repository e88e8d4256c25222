//! PURE. What is done to whom, when and for how long: the same for the same seed.

use std::fmt;
use std::time::Duration;

use super::random::Random;

/// Worker processes.
pub const WORKERS: usize = 3;
/// From one fault to the next, milliseconds.
const GAP_MS: (u64, u64) = (500, 1_200);

/// What a worker is connected to, each through a proxy of its own.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Service {
    Broker,
    Redis,
    Database,
}

impl Service {
    pub const ALL: [Self; 3] = [Self::Broker, Self::Redis, Self::Database];
}

/// What is done with a link.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Effect {
    /// Open connections are cut, new ones go through.
    Cut,
    /// Open connections are cut, new ones are refused.
    Refused,
    /// What the worker sends is kept.
    HeldUp,
    /// What the worker should receive is kept.
    HeldDown,
    /// Both.
    Held,
    /// Each piece of either direction takes a quarter of a second longer.
    Slow,
}

/// A fault.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// SIGKILL; it is started again at once.
    Kill(usize),
    /// SIGSTOP, later SIGCONT.
    Pause(usize),
    /// SIGTERM; it is started again when it has ended.
    Terminate(usize),
    /// SIGTERM to one worker after the other.
    Roll,
    /// `FLUSHALL`
    Flush,
    /// Redis is killed and comes back empty.
    RedisCrash,
    /// PostgreSQL is stopped `-m immediate`, in the middle of whatever it does.
    DatabaseCrash,
    /// The RabbitMQ node is killed.
    BrokerCrash,
    /// A worker's link to a service.
    Link(usize, Service, Effect),
}

/// A fault at its time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault {
    /// After the beginning of the round.
    pub at: Duration,
    pub kind: Kind,
    /// From its beginning to its end. A server also needs the time of its start.
    pub lasts: Duration,
}

/// The faults of one round: each kind of server fault at least once, and many others. Rounds differ.
pub fn round(seed: u64, number: u64) -> Vec<Fault> {
    let mut random = Random::new(seed, number);
    let mut kinds = vec![Kind::Roll, Kind::Flush, Kind::Flush, Kind::RedisCrash, Kind::RedisCrash];
    kinds.extend([Kind::DatabaseCrash, Kind::DatabaseCrash, Kind::BrokerCrash]);
    for single in [Kind::Kill as fn(usize) -> Kind, Kind::Kill, Kind::Pause, Kind::Terminate] {
        kinds.push(single(random.between(0, WORKERS as u64) as usize));
    }
    kinds.extend((0..WORKERS).map(Kind::Kill));
    kinds.extend((0..WORKERS).map(Kind::Pause));
    let effects = [Effect::Cut, Effect::Refused, Effect::HeldUp, Effect::HeldDown, Effect::Held, Effect::Slow];
    for service in Service::ALL {
        for _ in 0..4 {
            let worker = random.between(0, WORKERS as u64) as usize;
            kinds.push(Kind::Link(worker, service, random.one_of(&effects)));
        }
    }
    random.shuffle(&mut kinds);
    let mut at = Duration::ZERO;
    kinds.into_iter().map(|kind| fault(&mut random, &mut at, kind)).collect()
}

fn fault(random: &mut Random, at: &mut Duration, kind: Kind) -> Fault {
    *at += Duration::from_millis(random.between(GAP_MS.0, GAP_MS.1));
    let (least, most) = match kind {
        Kind::Kill(_) | Kind::Terminate(_) | Kind::Roll | Kind::Flush | Kind::Link(_, _, Effect::Cut) => (0, 1),
        // Longer than a lease, sometimes.
        Kind::Pause(_) => (100, 7_000),
        Kind::RedisCrash | Kind::DatabaseCrash | Kind::BrokerCrash => (0, 1_500),
        // Longer than most time limits, sometimes.
        Kind::Link(..) => (200, 6_000),
    };
    Fault { at: *at, kind, lasts: Duration::from_millis(random.between(least, most)) }
}

impl Kind {
    /// The workers that may feel it.
    pub fn victims(self) -> Vec<usize> {
        match self {
            Self::Kill(worker) | Self::Pause(worker) | Self::Terminate(worker) | Self::Link(worker, ..) => vec![worker],
            Self::Roll | Self::Flush | Self::RedisCrash | Self::DatabaseCrash | Self::BrokerCrash => {
                (0..WORKERS).collect()
            }
        }
    }

    /// For counting: without the victim.
    pub fn label(self) -> String {
        match self {
            Self::Kill(_) => "worker killed (SIGKILL)".into(),
            Self::Pause(_) => "worker stopped and continued (SIGSTOP, SIGCONT)".into(),
            Self::Terminate(_) => "worker told to end (SIGTERM)".into(),
            Self::Roll => "rolling restart of all workers (SIGTERM)".into(),
            Self::Flush => "redis: FLUSHALL".into(),
            Self::RedisCrash => "redis: killed, comes back empty".into(),
            Self::DatabaseCrash => "PostgreSQL: stopped -m immediate, restarted".into(),
            Self::BrokerCrash => "RabbitMQ: node killed, restarted".into(),
            Self::Link(_, service, effect) => format!("link to {}: {}", service, effect.text()),
        }
    }
}

impl Effect {
    fn text(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Refused => "cut and refused",
            Self::HeldUp => "held, worker to server",
            Self::HeldDown => "held, server to worker",
            Self::Held => "held, both ways",
            Self::Slow => "slow",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broker => "the broker",
            Self::Redis => "redis",
            Self::Database => "the database",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, kind, lasts } = self;
        write!(f, "{:6.2} s  {}", at.as_secs_f64(), kind.label())?;
        if let [worker] = kind.victims()[..] {
            write!(f, ", worker {}", worker + 1)?;
        }
        if lasts.is_zero() { Ok(()) } else { write!(f, ", for {:.2} s", lasts.as_secs_f64()) }
    }
}

#[test]
fn a_seed_is_a_plan() {
    assert_eq!(round(7, 3), round(7, 3));
    assert_ne!(round(7, 3), round(8, 3));
    assert_ne!(round(7, 3), round(7, 4));
}

#[test]
fn a_round_has_a_fault_every_second_or_so_and_meets_every_worker_and_server() {
    for number in 0..50 {
        let round = round(1, number);
        let last = round.last().expect("faults");
        let gap = last.at / round.len() as u32;
        assert!(gap > Duration::from_millis(700) && gap < Duration::from_millis(1_000), "{gap:?}");
        let has = |kind: Kind| round.iter().any(|fault| fault.kind == kind);
        assert!(
            [Kind::Roll, Kind::Flush, Kind::RedisCrash, Kind::DatabaseCrash, Kind::BrokerCrash].map(has) == [true; 5]
        );
        assert!((0..WORKERS).all(|worker| has(Kind::Kill(worker)) && has(Kind::Pause(worker))));
    }
}
