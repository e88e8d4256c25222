//! The lease protocol, explored exhaustively: every interleaving of workers, losses, roll-backs, delays and duplicates.
//!
//! The model leaves out the clock that lifts the sequence: nothing may rest on it. Time itself is an action that can come
//! at any moment: a lease ends, a worker pauses. `docs/PROTOCOL.md` explains the rules.

mod explore;
mod faults;
mod normal;
mod notes;
mod protocol;
mod state;
mod story;
mod variant;
mod void;
mod world;

use std::time::Instant;

use explore::{Graph, LeaseModel, explore};
use notes::Notes;
use state::{Broken, Faults};
use stateright::{Checker as _, HasDiscoveries, Model as _};
use variant::Variant;

const NONE: Faults = Faults { losses: 0, rollbacks: 0, promotions: 0, copies: 0, disturbances: 0 };

fn sound(workers: u8, faults: Faults) -> Graph {
    let started = Instant::now();
    let graph = explore(&LeaseModel { variant: Variant::Sound, workers, faults });
    println!("{workers} workers, {faults:?}: {}, {:.1?}", graph.summary(), started.elapsed());
    assert_eq!(graph.broken, None, "a promise was broken");
    assert_eq!(graph.stuck, 0, "from some states no order can be decided any more");
    graph
}

#[test]
fn no_promise_is_broken_and_an_order_can_always_be_decided() {
    let mut configurations = vec![
        (3, Faults { losses: 2, rollbacks: 2, disturbances: 1, ..NONE }),
        (2, Faults { losses: 2, rollbacks: 2, promotions: 1, ..NONE }),
        (2, Faults { disturbances: 2, ..NONE }),
    ];
    // All at once takes long without optimisation.
    if std::env::var_os("LASTUNIT_TEST_DEEP_MODEL").is_some() {
        configurations.push((3, Faults { losses: 2, rollbacks: 2, promotions: 1, copies: 0, disturbances: 1 }));
        configurations.push((2, Faults { losses: 2, rollbacks: 2, promotions: 1, copies: 0, disturbances: 2 }));
    }
    let mut notes = Notes::default();
    std::thread::scope(|scope| {
        let runs: Vec<_> = configurations
            .into_iter()
            .map(|(workers, faults)| scope.spawn(move || sound(workers, faults).notes))
            .collect();
        for run in runs {
            notes.include(run.join().expect("an exploration that holds"));
        }
    });
    assert_eq!(notes.missing(), Vec::<&str>::new(), "never came up");
}

/// Finds the shortest counter-example, and prints it.
#[track_caller]
fn assert_broken(variant: Variant, promise: Broken, faults: Faults) {
    let name = promise.name();
    let model = LeaseModel { variant, workers: 2, faults };
    let checker = model.checker().finish_when(HasDiscoveries::Any).threads(2).spawn_bfs().join();
    let path = checker.discovery(name).unwrap_or_else(|| panic!("{variant:?} keeps the promise: {name}"));
    println!("{variant:?} ({} states):\n{}\n", checker.unique_state_count(), story::tell(variant, path));
}

#[test]
fn reseeding_from_the_highest_used_token_lets_a_paused_holder_through() {
    assert_broken(Variant::ReseedFromMax, Broken::StaleWrite, Faults { losses: 1, ..NONE });
}

#[test]
fn seeding_only_where_the_counter_is_missing_trusts_one_that_went_backwards() {
    assert_broken(Variant::SeedIfMissing, Broken::StaleWrite, Faults { rollbacks: 1, copies: 1, ..NONE });
}

#[test]
fn a_counter_trusted_across_incarnations_lets_a_paused_holder_through() {
    assert_broken(Variant::NoIncarnation, Broken::StaleWrite, Faults { rollbacks: 1, copies: 1, ..NONE });
}

#[test]
fn a_seed_sent_twice_counts_over_the_same_tokens() {
    assert_broken(Variant::SeedTwice, Broken::StaleWrite, Faults { losses: 1, disturbances: 1, ..NONE });
}

#[test]
fn a_lease_and_a_token_in_two_steps_give_the_higher_token_to_the_older_holder() {
    assert_broken(Variant::TwoSteps, Broken::StaleWrite, NONE);
}

#[test]
fn a_fence_that_lets_an_equal_token_pass_lets_it_commit_twice() {
    assert_broken(Variant::LessOrEqual, Broken::TokenUsedTwice, Faults { disturbances: 1, ..NONE });
}

#[test]
fn the_model_checker_counts_the_same_states() {
    let faults = Faults { losses: 1, rollbacks: 1, ..NONE };
    let model = LeaseModel { variant: Variant::Sound, workers: 3, faults };
    let states = explore(&model).states;
    let checker = model.checker().spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states);
}
