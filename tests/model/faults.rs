//! What can go wrong.

use super::protocol::{Action, Fault, Notes, Protocol};
use super::state::{Body, Memory, Server, State, Step};

/// Every fault that can happen now.
pub fn possible(state: &State, actions: &mut Vec<Action>) {
    let left = state.left;
    for index in 0..2 {
        let Some(server) = &state.servers[index] else {
            if left.rollbacks > 0 {
                actions.push(Action::Fault(Fault::RollBack { server: index }));
            }
            continue;
        };
        if left.copies > 0 && server.memory != state.copy {
            actions.push(Action::Copy { server: index });
        }
        if left.losses > 0 && server.memory != Memory::default() {
            actions.push(Action::Fault(Fault::Flush { server: index }));
            actions.push(Action::Fault(Fault::Restart { server: index }));
            if server.memory.counter.is_some() && server.memory.lease.is_some() {
                actions.push(Action::Fault(Fault::Evict { server: index }));
            }
        }
        if left.rollbacks > 0 {
            actions.push(Action::Fault(Fault::RollBack { server: index }));
        }
    }
    if left.disturbances > 0 {
        disturbances(state, actions);
    }
}

fn disturbances(state: &State, actions: &mut Vec<Action>) {
    for message in &state.wire {
        if !matches!(message.body, Body::Release { .. }) {
            actions.push(Action::Fault(Fault::LoseRequest(message.clone())));
        }
        if message.is_awaited_by(&state.workers[message.from]) {
            actions.push(Action::Fault(Fault::LoseReply(message.clone())));
        }
    }
    for (index, worker) in state.workers.iter().enumerate() {
        let awaited = state.wire.iter().any(|message| message.from == index && message.is_awaited_by(worker));
        if awaited {
            actions.push(Action::Fault(Fault::Impatience { worker: index }));
        }
        if matches!(worker.step, Step::Planned { .. }) {
            actions.push(Action::Fault(Fault::LoseAnswer { worker: index }));
        }
        if worker.step != Step::Ready {
            actions.push(Action::Fault(Fault::Crash { worker: index }));
        }
    }
}

/// Lets it go wrong.
pub fn apply(protocol: Protocol, state: &mut State, fault: &Fault, notes: &mut Notes) {
    match fault {
        Fault::Flush { .. } | Fault::Evict { .. } | Fault::Restart { .. } => state.left.losses -= 1,
        Fault::RollBack { .. } => state.left.rollbacks -= 1,
        Fault::LoseRequest(_)
        | Fault::LoseReply(_)
        | Fault::Impatience { .. }
        | Fault::LoseAnswer { .. }
        | Fault::Crash { .. } => state.left.disturbances -= 1,
    }
    match fault {
        Fault::Flush { server } => {
            notes.insert("a server was flushed");
            state.server(*server).memory = Memory::default();
        }
        Fault::Evict { server } => {
            notes.insert("a counter was evicted");
            state.server(*server).memory.counter = None;
        }
        Fault::Restart { server } => {
            notes.insert("a server restarted with its memory");
            state.server(*server).incarnation = state.new_incarnation();
        }
        Fault::RollBack { server } => {
            let other = &state.servers[1 - server];
            let beside = state.servers[*server].is_none() && other.is_some();
            notes.insert(if beside { "two masters were alive" } else { "a server restarted from a copy" });
            let incarnation = state.new_incarnation();
            state.servers[*server] = Some(Server { incarnation, memory: state.copy.clone() });
        }
        Fault::LoseRequest(message) => {
            notes.insert("a request was lost");
            let place = state.wire.iter().position(|other| other == message).expect("a request on its way");
            state.wire.swap_remove(place);
        }
        Fault::LoseReply(message) => {
            notes.insert("a reply was lost");
            protocol.deliver(state, message, false, notes);
        }
        Fault::Impatience { worker } => {
            notes.insert("a request was delayed");
            state.workers[*worker].step = Step::Ready;
        }
        Fault::LoseAnswer { worker } => {
            notes.insert("the answer to a commit was lost");
            protocol.commit(state, *worker, false, notes);
        }
        Fault::Crash { worker } => {
            notes.insert("a worker crashed");
            state.start_attempt(*worker);
            state.workers[*worker].previous = None;
        }
    }
}

impl State {
    fn server(&mut self, index: usize) -> &mut Server {
        self.servers[index].as_mut().expect("a server")
    }
}
