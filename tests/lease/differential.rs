//! The pure rules against the Lua scripts: after each of thousands of random steps, the same answer and the same memory.

use std::collections::HashMap;

use lastunit::fence::{Epoch, FenceToken};
use lastunit::lease::rules::{self, Answer, Ask, Counter, Lease, Memory};
use lastunit::lease::{Attempt, Incarnation, Leases, Reply, Request, Seed};
use lastunit::order::Sku;

use crate::scene::{Scene, connect, incarnation, shared_url, sku, token};

const STEPS: u32 = 6_000;
const SKUS: u64 = 3;
/// Long, so that no lease ends by itself meanwhile.
const TTL_MS: u64 = 3_600_000;
const CLOCK_START_MS: u64 = 1_735_689_600_000;
const MAX_SEQUENCE: u64 = (1 << 40) - 1;

/// A small generator (splitmix64): the seed that is printed gives the same run again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.roll(all.len() as u64)).expect("small")].clone()
    }
}

type State = Memory<Attempt, String>;

struct Race {
    scene: Scene,
    leases: Leases,
    here: String,
    attempts: Vec<Attempt>,
    dice: Dice,
    /// How often each kind of step and answer came up.
    seen: HashMap<&'static str, u32>,
}

#[tokio::test]
async fn rules_and_scripts_agree_on_every_random_step() {
    let seed = std::env::var("LASTUNIT_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("LASTUNIT_TEST_SEED={seed}");
    let scene = Scene::open().await;
    let leases = connect(&shared_url(), &scene.prefix, &[("lease.ttl_ms", "3600000")]).await.expect("leases");
    let here = incarnation(&leases).await.0;
    let attempts = (0..4).map(|_| Attempt::new()).collect();
    let mut race = Race { scene, leases, here, attempts, dice: Dice(seed), seen: HashMap::new() };
    let mut skus: Vec<(Sku, State)> = (0..SKUS).map(|n| (sku(&format!("D{n}")), State::default())).collect();
    for step in 0..STEPS {
        let index = usize::try_from(race.dice.roll(SKUS)).expect("small");
        let (sku, state) = &mut skus[index];
        let before = state.clone();
        race.step(sku, state).await;
        assert_eq!(race.read(sku, state).await, *state, "step {step} on {before:?}");
    }
    println!("{:?}", race.seen);
    for kind in [
        "granted",
        "again",
        "held",
        "missing",
        "incarnation",
        "behind",
        "exhausted",
        "installed",
        "kept",
        "refused",
        "released",
        "not-ours",
    ] {
        assert!(race.seen.contains_key(kind), "{kind} never came up: {:?}", race.seen);
    }
}

impl Race {
    async fn step(&mut self, sku: &Sku, state: &mut State) {
        match self.dice.roll(12) {
            0..6 => self.acquire(sku, state).await,
            6 => self.seed(sku, state).await,
            7 => self.release(sku, state).await,
            8 => self.forget(sku, state).await,
            9 => self.restore_lease(sku, state).await,
            _ => self.restore_counter(sku, state).await,
        }
    }

    fn count(&mut self, kind: &'static str) {
        *self.seen.entry(kind).or_default() += 1;
    }

    /// Mostly around the counter, so that being behind, equal and above all come up.
    fn floor(&mut self, state: &State) -> FenceToken {
        let near = state.counter.as_ref().map_or(FenceToken::ZERO, |counter| counter.token);
        let lease = state.lease.as_ref().map_or(FenceToken::ZERO, |lease| lease.token);
        let shifted = FenceToken::from_row(near.to_row() + i64::from(self.dice.roll(2) == 0)).expect("a token");
        self.dice.pick(&[FenceToken::ZERO, FenceToken::ZERO, near, shifted, lease])
    }

    async fn acquire(&mut self, sku: &Sku, state: &mut State) {
        let previous = (self.dice.roll(2) == 0).then(|| self.dice.pick(&self.attempts.clone()));
        let attempt = self.dice.pick(&self.attempts.clone());
        let ask = Ask { attempt, previous, floor: self.floor(state), ttl_ms: TTL_MS };
        let request = Request { sku: sku.clone(), previous, floor: ask.floor };
        let before = self.clock().await;
        let reply = self.leases.acquire(attempt, &[request]).await;
        let after = self.clock().await;
        // The rule takes the clock as a parameter: the one that the script saw stands in the token.
        let now = match reply.as_ref().map(|replies| &replies[0]) {
            Ok(Reply::Granted(token)) => token.sequence(),
            Ok(Reply::Held { .. } | Reply::Unknown { .. }) | Err(_) => 0,
        };
        let last = state.counter.clone();
        let expected = rules::acquire(state, &self.here, &ask, now);
        match (expected, reply.map(|mut replies| replies.remove(0))) {
            (Ok(Answer::Granted(token)), Ok(Reply::Granted(actual))) => {
                assert_eq!(actual, token);
                let last = last.expect("a counter").token;
                let is_new = state.counter.as_ref().is_some_and(|counter| counter.token != last);
                let clocked = now > last.sequence() + 1;
                assert!(!is_new || !clocked || (before..=after).contains(&now), "{before} <= {now} <= {after}");
                self.count(if is_new { "granted" } else { "again" });
            }
            (Ok(Answer::Held { remaining_ms }), Ok(Reply::Held { remaining })) => {
                let remaining = u64::try_from(remaining.as_millis()).expect("small");
                assert!(remaining <= remaining_ms && remaining > remaining_ms - 120_000, "{remaining} {remaining_ms}");
                self.count("held");
            }
            (Ok(Answer::Unknown(cause)), Ok(Reply::Unknown { incarnation, cause: actual })) => {
                assert_eq!((actual, incarnation.0.as_str()), (cause, self.here.as_str()));
                self.count(match cause {
                    lastunit::lease::Cause::Missing => "missing",
                    lastunit::lease::Cause::Incarnation => "incarnation",
                    lastunit::lease::Cause::Behind => "behind",
                });
            }
            (Err(_), Err(error)) => {
                assert!(error.to_string().contains("used up"), "{error}");
                self.count("exhausted");
            }
            (expected, actual) => panic!("the rule says {expected:?}, the script {actual:?} to {ask:?}"),
        }
    }

    async fn seed(&mut self, sku: &Sku, state: &mut State) {
        let near = state.counter.as_ref().map_or(1, |counter| counter.token.epoch().get());
        let epoch = Epoch::new(u64::from(near) + self.dice.roll(3)).expect("epoch");
        let meant_for = self.dice.pick(&[self.here.clone(), self.here.clone(), "elsewhere".to_owned()]);
        let seed = Seed { sku: sku.clone(), incarnation: Incarnation(meant_for.clone()), epoch };
        self.leases.seed(&[seed]).await.expect("seeded");
        self.count(match rules::seed(state, &self.here.clone(), &meant_for, epoch) {
            rules::Seeding::Installed => "installed",
            rules::Seeding::Kept => "kept",
            rules::Seeding::Refused => "refused",
        });
    }

    async fn release(&mut self, sku: &Sku, state: &mut State) {
        let attempt = self.dice.pick(&self.attempts.clone());
        self.leases.release(attempt, std::slice::from_ref(sku)).await.expect("released");
        let released = rules::release(state, &attempt);
        self.count(if released { "released" } else { "not-ours" });
    }

    /// Eviction, or an end of its time, of either key.
    async fn forget(&mut self, sku: &Sku, state: &mut State) {
        let key = if self.dice.roll(3) > 0 {
            state.lease = None;
            self.scene.lease_key(sku)
        } else {
            state.counter = None;
            self.scene.fence_key(sku)
        };
        let _deleted: u64 = self.scene.run(&["DEL", &key]).await;
    }

    /// A lease from another server, from a time when it had longer to live, or none of ours at all.
    async fn restore_lease(&mut self, sku: &Sku, state: &mut State) {
        let key = self.scene.lease_key(sku);
        let kind = self.dice.roll(3);
        if kind == 0 {
            state.lease = None;
            // What no script of ours wrote counts for nothing, and is overwritten by the next grant.
            let _set: String = self.scene.run(&["SET", &key, "somebody else's", "PX", "9000000"]).await;
            return;
        }
        let attempt = self.dice.pick(&self.attempts.clone());
        let made_by = if kind == 1 { "elsewhere".to_owned() } else { self.here.clone() };
        let remaining_ms = self.dice.pick(&[TTL_MS, TTL_MS * 100]);
        let token = token(1 + self.dice.roll(3), 1 + self.dice.roll(9));
        let value = format!("{} h {made_by} {} {}", attempt.0, token.epoch(), token.sequence());
        let _set: String = self.scene.run(&["SET", &key, &value, "PX", &remaining_ms.to_string()]).await;
        state.lease = Some(Lease { attempt, incarnation: made_by, token, remaining_ms });
    }

    /// A counter from another server, an old copy, one far above the clock, one at its end, or half of one.
    async fn restore_counter(&mut self, sku: &Sku, state: &mut State) {
        let made_by = self.dice.pick(&[self.here.clone(), self.here.clone(), "elsewhere".to_owned()]);
        let far = 1_000_000_000_000 + self.dice.roll(1_000);
        let sequence = self.dice.pick(&[0, 3, far, far, far, MAX_SEQUENCE - 1, MAX_SEQUENCE]);
        let token = token(1 + self.dice.roll(3), sequence);
        let (epoch, sequence) = (token.epoch().to_string(), token.sequence().to_string());
        let key = self.scene.fence_key(sku);
        let _deleted: u64 = self.scene.run(&["DEL", &key]).await;
        state.counter = None;
        if self.dice.roll(8) == 0 {
            let _set: u64 = self.scene.run(&["HSET", &key, "incarnation", &made_by, "epoch", &epoch]).await;
            return;
        }
        let fields = ["HSET", &key, "incarnation", &made_by, "epoch", &epoch, "sequence", &sequence];
        let _set: u64 = self.scene.run(&fields).await;
        state.counter = Some(Counter { incarnation: made_by, token });
    }

    async fn clock(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.scene.run(&["TIME"]).await;
        seconds * 1_000 + micros / 1_000 - CLOCK_START_MS
    }

    /// What Redis remembers, in the rules' terms; remaining times, which run on, are taken from `expected`.
    async fn read(&self, sku: &Sku, expected: &State) -> State {
        let value: Option<String> = self.scene.run(&["GET", &self.scene.lease_key(sku)]).await;
        let fence: HashMap<String, String> = self.scene.run(&["HGETALL", &self.scene.fence_key(sku)]).await;
        let lease = value.and_then(|value| read_lease(&value)).map(|lease| Lease {
            remaining_ms: expected.lease.as_ref().map_or(0, |lease| lease.remaining_ms),
            ..lease
        });
        let counter = fence.get("sequence").map(|sequence| Counter {
            incarnation: fence["incarnation"].clone(),
            token: token(fence["epoch"].parse().expect("epoch"), sequence.parse().expect("sequence")),
        });
        Memory { lease, counter }
    }
}

fn read_lease(value: &str) -> Option<Lease<Attempt, String>> {
    let words: Vec<_> = value.split(' ').collect();
    let [attempt, _, incarnation, epoch, sequence] = words[..] else { return None };
    Some(Lease {
        attempt: Attempt(attempt.parse().ok()?),
        incarnation: incarnation.to_owned(),
        token: token(epoch.parse().ok()?, sequence.parse().ok()?),
        remaining_ms: 0,
    })
}
