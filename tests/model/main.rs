//! A model of the lease protocol, explored exhaustively.

mod explore;
mod faults;
mod normal;
mod notes;
mod protocol;
mod state;
mod story;
mod variant;

use state::Faults;
use variant::Variant;

use explore::LeaseModel;

#[test]
fn measure() {
    let get = |name: &str, default: u8| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let model = LeaseModel {
        variant: Variant::Sound,
        workers: get("W", 2),
        faults: Faults {
            losses: get("L", 1),
            rollbacks: get("R", 1),
            copies: get("C", 1),
            disturbances: get("D", 1),
        },
    };
    let started = std::time::Instant::now();
    let graph = explore::explore(&model);
    println!("{} in {:?}", graph.summary(), started.elapsed());
    assert!(graph.broken.is_none());
    assert_eq!(graph.stuck, 0);
    println!("never: {:?}", graph.notes.missing());
}
