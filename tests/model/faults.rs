//! What can go wrong.

use lastunit::fence::FenceToken;

use super::notes::{Note, Notes};
use super::protocol::Action;
use super::protocol::Protocol;
use super::state::{Body, Memory, Message, Server, State, Step, Worker};
use super::variant::Variant;

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
    LoseRequest { worker: usize },
    /// A request is on its way for longer than its worker waits.
    DelayRequest { worker: usize, server: usize },
    /// A release is on its way while its worker goes on.
    DelayRelease { worker: usize, server: usize },
    /// A request arrives, but its reply is lost.
    LoseReply { worker: usize, server: usize },
    /// The transaction is durable, but the worker is not told.
    LoseAnswer { worker: usize },
    /// A worker starts over and knows nothing.
    Crash { worker: usize },
}

/// Every fault that can happen now.
pub fn possible(state: &State, actions: &mut Vec<Action>) {
    let mut faults = Vec::new();
    for (index, server) in state.servers.iter().enumerate() {
        if state.left.rollbacks > 0 && (server.is_some() || state.left.promotions > 0) {
            faults.push(Fault::RollBack { server: index });
        }
        let Some(server) = server else { continue };
        if state.left.copies > 0 && server.memory != state.copy {
            actions.push(Action::Copy { server: index });
        }
        if state.left.losses > 0 && server.memory.counter.is_some() {
            faults.push(Fault::Flush { server: index });
            faults.push(Fault::Restart { server: index });
            if server.memory.lease.is_some() {
                faults.push(Fault::Evict { server: index });
            }
        }
    }
    if state.left.disturbances > 0 {
        for (index, worker) in state.workers.iter().enumerate() {
            disturbances(state, index, worker, &mut faults);
        }
    }
    actions.extend(faults.into_iter().map(Action::Fault));
}

fn disturbances(state: &State, index: usize, worker: &Worker, faults: &mut Vec<Fault>) {
    let alive = (0..2).filter(|&server| state.servers[server].is_some());
    match &worker.step {
        Step::Ready => {
            for server in alive {
                faults.push(Fault::DelayRequest { worker: index, server });
                faults.push(Fault::LoseReply { worker: index, server });
                if worker.previous.is_some() {
                    faults.push(Fault::DelayRelease { worker: index, server });
                }
            }
        }
        Step::Seeding { server, .. } => {
            faults.push(Fault::LoseRequest { worker: index });
            faults.push(Fault::DelayRequest { worker: index, server: *server });
            faults.push(Fault::LoseReply { worker: index, server: *server });
        }
        Step::Planned { .. } => faults.push(Fault::LoseAnswer { worker: index }),
        Step::Counting | Step::Told { .. } | Step::Leased { .. } => {}
    }
    if worker.step != Step::Ready {
        faults.push(Fault::Crash { worker: index });
    }
}

/// Lets it go wrong.
pub fn apply(protocol: Protocol, state: &mut State, fault: &Fault, notes: &mut Notes) {
    match fault {
        Fault::Flush { .. } | Fault::Evict { .. } | Fault::Restart { .. } => {
            state.left.losses -= 1;
            lose(state, fault, notes);
        }
        Fault::RollBack { server } => {
            state.left.rollbacks -= 1;
            let is_promoted = state.servers[*server].is_none();
            state.left.promotions -= u8::from(is_promoted);
            notes.add(if is_promoted { Note::TwoMasters } else { Note::RolledBack });
            let incarnation = state.new_incarnation();
            let memory = protocol.copy(state);
            if memory.counter.is_some() {
                notes.add(Note::OtherIncarnation);
            }
            state.servers[*server] = Some(Server { incarnation, memory });
        }
        Fault::LoseRequest { .. }
        | Fault::DelayRequest { .. }
        | Fault::DelayRelease { .. }
        | Fault::LoseReply { .. }
        | Fault::LoseAnswer { .. }
        | Fault::Crash { .. } => {
            state.left.disturbances -= 1;
            disturb(protocol, state, fault, notes);
        }
    }
}

fn lose(state: &mut State, fault: &Fault, notes: &mut Notes) {
    let fresh = state.new_incarnation();
    match *fault {
        Fault::Flush { server } => {
            notes.add(Note::Flushed);
            state.server(server).memory = Memory::default();
        }
        Fault::Evict { server } => {
            notes.add(Note::Evicted);
            state.server(server).memory.counter = None;
        }
        Fault::Restart { server } => {
            notes.add(Note::Restarted);
            notes.add(Note::OtherIncarnation);
            state.server(server).incarnation = fresh;
        }
        _ => unreachable!("no loss: {fault:?}"),
    }
}

fn disturb(protocol: Protocol, state: &mut State, fault: &Fault, notes: &mut Notes) {
    match *fault {
        Fault::LoseRequest { worker } => {
            notes.add(Note::RequestLost);
            state.workers[worker].step = Step::Ready;
        }
        Fault::DelayRequest { worker, server } => {
            notes.add(Note::RequestDelayed);
            let body = state.workers[worker].request();
            state.wire.push(Message { from: worker, server, body });
            state.workers[worker].step = Step::Ready;
        }
        Fault::DelayRelease { worker, server } => {
            notes.add(Note::RequestDelayed);
            if let Some(attempt) = state.workers[worker].previous.take() {
                state.wire.push(Message { from: worker, server, body: Body::Release { attempt } });
            }
        }
        Fault::LoseReply { worker, server } => {
            notes.add(Note::ReplyLost);
            match state.workers[worker].step {
                Step::Seeding { incarnation, floor, .. } => {
                    protocol.seed(state, server, incarnation, floor, notes);
                    // In doubt, the sound worker goes on to ask; the other one sends the same seed again.
                    if protocol.variant != Variant::SeedTwice {
                        state.workers[worker].step = Step::Ready;
                    }
                }
                _ => protocol.acquire(state, (worker, server), FenceToken::ZERO, false, notes),
            }
        }
        Fault::LoseAnswer { worker } => {
            notes.add(Note::AnswerLost);
            protocol.commit(state, worker, false, notes);
        }
        Fault::Crash { worker } => {
            notes.add(Note::Crashed);
            state.start_attempt(worker);
            state.workers[worker].previous = None;
        }
        _ => unreachable!("no disturbance: {fault:?}"),
    }
}

impl State {
    fn server(&mut self, index: usize) -> &mut Server {
        self.servers[index].as_mut().expect("a server")
    }
}

impl Worker {
    /// What it is about to send.
    fn request(&mut self) -> Body {
        match self.step {
            Step::Seeding { incarnation, floor, .. } => Body::Seed { incarnation, floor },
            _ => Body::Acquire { attempt: self.attempt, previous: self.previous },
        }
    }
}
