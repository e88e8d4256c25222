//! A counter-example as a story.

use stateright::Path;

use super::faults::Fault;
use super::protocol::Action;
use super::state::{Body, Broken, Message, State, Step};
use super::variant::Variant;

/// Tells what happened, step by step; the last sentence says which promise was broken.
pub fn tell(variant: Variant, path: Path<State, Action>) -> String {
    let steps = path.into_vec();
    let mut story = String::new();
    for pair in steps.windows(2) {
        let (before, action) = &pair[0];
        if let Some(action) = action {
            story += &format!("  {}\n", sentence(variant, before, action, &pair[1].0));
        }
    }
    let broken = steps.last().and_then(|(state, _)| state.broken);
    story
        + match broken {
            Some(Broken::StaleWrite) => "  => a write was accepted after that of a later holder",
            Some(Broken::TokenUsedTwice) => "  => one token authorised two commits",
            Some(Broken::Oversold) => "  => more was sold than there was",
            None => "  => no promise was broken",
        }
}

fn name(worker: usize) -> char {
    ['A', 'B', 'C'][worker]
}

fn sentence(variant: Variant, before: &State, action: &Action, after: &State) -> String {
    match action {
        Action::Acquire { worker, .. } => {
            format!("{} asks for the lease and {}", name(*worker), outcome(after, *worker))
        }
        Action::Count { worker, .. } => format!("{} asks for a token and {}", name(*worker), outcome(after, *worker)),
        Action::Expire { .. } => "the lease ends by itself".into(),
        Action::Advance { worker } if variant == Variant::ReseedFromMax => {
            format!("{} reads the fence, {}, and seeds the counter with it", name(*worker), after.fence)
        }
        Action::Seed { worker } if variant == Variant::SeedTwice && before.left.disturbances == 0 => {
            format!("{} has heard nothing, and sends the same seed again", name(*worker))
        }
        Action::Advance { worker } => format!("{} moves the fence to {}", name(*worker), after.fence),
        Action::Seed { worker } => format!("{}'s seed arrives", name(*worker)),
        Action::Plan { worker, order } => {
            format!("{} reads {} in stock and decides order {order}", name(*worker), before.available)
        }
        Action::Commit { worker } => committed(before, *worker, after),
        Action::Renew { worker } => format!("{} pauses for so long that it wants a new lease", name(*worker)),
        Action::Release { worker } => format!("{} gives its lease back", name(*worker)),
        Action::Arrive(message) => format!("{}'s late {} arrives", name(message.from), what(message)),
        Action::Copy { .. } => "the server's memory is copied".into(),
        Action::Fault(fault) => mishap(before, fault),
    }
}

fn outcome(after: &State, worker: usize) -> String {
    match &after.workers[worker].step {
        Step::Ready => "hears that it is held".into(),
        Step::Counting => "gets it, and pauses before it asks for the token".into(),
        Step::Told { .. } => "hears that the counter is unknown".into(),
        Step::Leased { token } => format!("gets token {token}"),
        Step::Seeding { .. } | Step::Planned { .. } => "goes on".into(),
    }
}

fn committed(before: &State, worker: usize, after: &State) -> String {
    let Step::Planned { token, .. } = before.workers[worker].step else { return "nothing is committed".into() };
    if before.orders == after.orders {
        format!("{} commits with token {token} and is refused: the fence is {}", name(worker), before.fence)
    } else {
        format!("{} commits with token {token}, and the fence, {} until now, lets it pass", name(worker), before.fence)
    }
}

fn mishap(before: &State, fault: &Fault) -> String {
    match fault {
        Fault::Flush { .. } => "the server is flushed".into(),
        Fault::Evict { .. } => "the counter is evicted".into(),
        Fault::Restart { .. } => "the server restarts with its memory".into(),
        Fault::RollBack { server } if before.servers[*server].is_none() => {
            "a replica with the old copy is promoted beside the master".into()
        }
        Fault::RollBack { .. } => "the server restarts from the old copy".into(),
        Fault::LoseRequest { worker } => format!("{}'s request is lost", name(*worker)),
        Fault::DelayRequest { worker, .. } => format!("{}'s request is delayed, and it goes on", name(*worker)),
        Fault::DelayRelease { worker, .. } => format!("{}'s release is delayed, and it goes on", name(*worker)),
        Fault::LoseReply { worker, .. } => match before.workers[*worker].step {
            Step::Seeding { .. } => format!("{}'s seed arrives, but the reply is lost", name(*worker)),
            _ => format!("{}'s request is granted, but the reply is lost", name(*worker)),
        },
        Fault::LoseAnswer { worker } => {
            format!(
                "{} commits: it is durable, but the answer is lost, and it goes on with the same token",
                name(*worker)
            )
        }
        Fault::Crash { worker } => format!("{} crashes and starts over", name(*worker)),
    }
}

fn what(message: &Message) -> &'static str {
    match message.body {
        Body::Acquire { .. } => "request for the lease",
        Body::Seed { .. } => "seed",
        Body::Release { .. } => "release",
    }
}
