//! Walks through every state that can be reached, and asks of each whether an end can still be reached without luck.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use stateright::{Model, Property};

use super::normal::normalise;
use super::notes::Notes;
use super::protocol::{Action, Protocol};
use super::state::{Broken, Faults, State};
use super::variant::Variant;

/// The protocol with a number of workers and of faults.
#[derive(Clone, Debug)]
pub struct LeaseModel {
    pub variant: Variant,
    pub workers: u8,
    pub faults: Faults,
}

impl LeaseModel {
    fn protocol(&self) -> Protocol {
        Protocol { variant: self.variant }
    }

    fn step(&self, state: &State, action: &Action, notes: &mut Notes) -> State {
        normalise(self.protocol().apply(state, action, notes), self.variant == Variant::Sound)
    }
}

impl Model for LeaseModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![normalise(State::new(self.workers, self.faults), self.variant == Variant::Sound)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.protocol().actions(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        Some(self.step(state, &action, &mut Notes::default()))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(Broken::StaleWrite.name(), |_, state: &State| state.broken != Some(Broken::StaleWrite)),
            Property::always(Broken::TokenUsedTwice.name(), |_, state: &State| {
                state.broken != Some(Broken::TokenUsedTwice)
            }),
            Property::always(Broken::Oversold.name(), |_, state: &State| state.broken != Some(Broken::Oversold)),
        ]
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Graph {
    pub states: usize,
    pub steps: usize,
    pub done: usize,
    /// States from which no end can be reached without a fault.
    pub stuck: usize,
    pub broken: Option<Broken>,
    pub notes: Notes,
}

impl Graph {
    pub fn summary(&self) -> String {
        format!("{} states, {} steps, {} of them at an end, {} stuck", self.states, self.steps, self.done, self.stuck)
    }
}

/// Explores the whole model; states are told apart by 64-bit fingerprints.
pub fn explore(model: &LeaseModel) -> Graph {
    let mut graph = Graph::default();
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    let mut known: HashMap<u64, u32> = HashMap::new();
    let mut frontier: Vec<(u32, State)> = Vec::new();
    let mut backwards: Vec<(u32, u32)> = Vec::new();
    let mut is_done: Vec<bool> = Vec::new();
    for state in model.init_states() {
        known.insert(hasher.hash_one(&state), 0);
        is_done.push(state.is_done());
        frontier.push((0, state));
    }
    let mut actions = Vec::new();
    while !frontier.is_empty() {
        let mut next_frontier = Vec::new();
        for (index, state) in frontier {
            if state.broken.is_some() {
                graph.broken = state.broken;
            }
            actions.clear();
            model.actions(&state, &mut actions);
            for action in &actions {
                let next = model.step(&state, action, &mut graph.notes);
                graph.steps += 1;
                let fresh = u32::try_from(known.len()).expect("fewer states");
                let target = *known.entry(hasher.hash_one(&next)).or_insert(fresh);
                if !action.is_needless() {
                    backwards.push((target, index));
                }
                if target == fresh {
                    is_done.push(next.is_done());
                    next_frontier.push((fresh, next));
                }
            }
        }
        frontier = next_frontier;
    }
    graph.states = known.len();
    graph.done = is_done.iter().filter(|done| **done).count();
    graph.stuck = count_stuck(is_done, backwards);
    graph
}

/// Goes backwards from the ends.
fn count_stuck(mut can_end: Vec<bool>, mut backwards: Vec<(u32, u32)>) -> usize {
    backwards.sort_unstable();
    backwards.dedup();
    let mut open: Vec<u32> = (0u32..).zip(&can_end).filter(|(_, end)| **end).map(|(index, _)| index).collect();
    while let Some(target) = open.pop() {
        let first = backwards.partition_point(|edge| edge.0 < target);
        for &(_, source) in backwards[first..].iter().take_while(|edge| edge.0 == target) {
            if !std::mem::replace(&mut can_end[source as usize], true) {
                open.push(source);
            }
        }
    }
    can_end.iter().filter(|end| !**end).count()
}
