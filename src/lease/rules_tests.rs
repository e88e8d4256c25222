//! The rules of the lease, read as a specification: one test for each.

use super::*;

type State = Memory<char, u8>;

const HERE: u8 = 1;
const ELSEWHERE: u8 = 2;
const TTL: u64 = 5_000;

fn token(epoch: u64, sequence: u64) -> FenceToken {
    FenceToken::new(Epoch::new(epoch).expect("epoch"), sequence).expect("sequence")
}

fn ask(attempt: char) -> Ask<char> {
    Ask { attempt, previous: None, floor: FenceToken::ZERO, ttl_ms: TTL }
}

fn counted(incarnation: u8, last: FenceToken) -> State {
    Memory { lease: None, counter: Some(Counter { incarnation, token: last }) }
}

fn leased(attempt: char, incarnation: u8, last: FenceToken) -> State {
    let lease = Lease { attempt, incarnation, token: last, remaining_ms: 700 };
    Memory { lease: Some(lease), ..counted(incarnation, last) }
}

#[track_caller]
fn assert_acquire(mut state: State, ask: &Ask<char>, expected: Answer) {
    assert_eq!(acquire(&mut state, &HERE, ask, 0), Ok(expected));
}

#[test]
fn a_free_sku_is_leased_with_the_next_sequence() {
    assert_acquire(counted(HERE, token(3, 7)), &ask('a'), Answer::Granted(token(3, 8)));
}

#[test]
fn the_clock_lifts_the_sequence_but_never_lowers_it() {
    let mut state = counted(HERE, token(3, 7));
    assert_eq!(acquire(&mut state, &HERE, &ask('a'), 1_000), Ok(Answer::Granted(token(3, 1_000))));
    assert!(release(&mut state, &'a'));
    assert_eq!(acquire(&mut state, &HERE, &ask('b'), 5), Ok(Answer::Granted(token(3, 1_001))));
}

#[test]
fn a_live_lease_of_another_attempt_holds() {
    assert_acquire(leased('a', HERE, token(1, 1)), &ask('b'), Answer::Held { remaining_ms: 700 });
}

#[test]
fn a_lease_of_another_incarnation_is_void() {
    let mut state = leased('a', ELSEWHERE, token(1, 1));
    state.counter = Some(Counter { incarnation: HERE, token: token(2, 0) });
    assert_acquire(state, &ask('b'), Answer::Granted(token(2, 1)));
}

#[test]
fn a_lease_with_more_than_the_ttl_left_is_void() {
    let mut state = leased('a', HERE, token(1, 1));
    state.lease.as_mut().expect("a lease").remaining_ms = TTL + 1;
    assert_acquire(state, &ask('b'), Answer::Granted(token(1, 2)));
}

#[test]
fn the_same_attempt_gets_the_same_token_and_a_full_ttl() {
    let mut state = leased('a', HERE, token(1, 4));
    assert_eq!(acquire(&mut state, &HERE, &ask('a'), 0), Ok(Answer::Granted(token(1, 4))));
    assert_eq!(state.lease.expect("a lease").remaining_ms, TTL);
}

#[test]
fn the_same_attempt_gets_a_new_token_once_the_floor_refuses_its_old_one() {
    let used = Ask { floor: token(1, 4), ..ask('a') };
    assert_acquire(leased('a', HERE, token(1, 4)), &used, Answer::Granted(token(1, 5)));
}

#[test]
fn the_previous_attempt_named_by_its_owner_is_continued_with_a_new_token() {
    let mut state = leased('a', HERE, token(1, 4));
    let next = Ask { previous: Some('a'), ..ask('b') };
    assert_eq!(acquire(&mut state, &HERE, &next, 0), Ok(Answer::Granted(token(1, 5))));
    assert_eq!(state.lease.expect("a lease").attempt, 'b');
}

#[test]
fn nothing_is_granted_without_a_counter() {
    assert_acquire(Memory::default(), &ask('a'), Answer::Unknown(Cause::Missing));
}

#[test]
fn nothing_is_granted_on_the_counter_of_another_incarnation() {
    assert_acquire(counted(ELSEWHERE, token(9, 9)), &ask('a'), Answer::Unknown(Cause::Incarnation));
}

#[test]
fn nothing_is_granted_below_the_floor_and_the_floor_itself_is_not_below() {
    let floor = Ask { floor: token(2, 0), ..ask('a') };
    assert_acquire(counted(HERE, token(1, 99)), &floor, Answer::Unknown(Cause::Behind));
    assert_acquire(counted(HERE, token(2, 0)), &floor, Answer::Granted(token(2, 1)));
}

#[test]
fn an_unknown_counter_gives_nothing_to_the_same_or_the_next_attempt_either() {
    let mut state = leased('a', HERE, token(1, 4));
    state.counter = None;
    assert_acquire(state.clone(), &ask('a'), Answer::Unknown(Cause::Missing));
    assert_acquire(state, &Ask { previous: Some('a'), ..ask('b') }, Answer::Unknown(Cause::Missing));
}

#[test]
fn a_lease_that_is_held_says_so_even_when_the_counter_is_lost() {
    let mut state = leased('a', HERE, token(1, 4));
    state.counter = None;
    assert_acquire(state, &ask('b'), Answer::Held { remaining_ms: 700 });
}

#[test]
fn a_used_up_sequence_is_an_error_and_changes_nothing() {
    let mut state = counted(HERE, token(1, (1 << 40) - 1));
    let before = state.clone();
    assert!(acquire(&mut state, &HERE, &ask('a'), 0).is_err());
    assert_eq!(state, before);
}

#[test]
fn a_seed_installs_its_epoch_where_nothing_or_an_older_epoch_was_known() {
    for mut state in [Memory::default(), counted(HERE, token(4, 9)), counted(ELSEWHERE, token(8, 1))] {
        assert_eq!(seed(&mut state, &HERE, &HERE, Epoch::new(5).expect("epoch")), Seeding::Installed);
        assert_eq!(state.counter, Some(Counter { incarnation: HERE, token: token(5, 0) }));
    }
}

#[test]
fn a_seed_leaves_the_same_or_a_later_epoch_alone() {
    for epoch in [4, 5] {
        let mut state = counted(HERE, token(5, 3));
        assert_eq!(seed(&mut state, &HERE, &HERE, Epoch::new(epoch).expect("epoch")), Seeding::Kept);
        assert_eq!(state, counted(HERE, token(5, 3)));
    }
}

#[test]
fn a_seed_for_another_incarnation_is_refused() {
    let mut state = State::default();
    assert_eq!(seed(&mut state, &HERE, &ELSEWHERE, Epoch::new(5).expect("epoch")), Seeding::Refused);
    assert_eq!(state, State::default());
}

#[test]
fn only_its_owner_releases_a_lease() {
    let mut state = leased('a', HERE, token(1, 4));
    assert!(!release(&mut state, &'b'));
    assert!(state.lease.is_some());
    assert!(release(&mut state, &'a'));
    assert!(!release(&mut state, &'a'));
}

#[test]
fn trust_ends_a_margin_before_the_lease_could_and_counts_from_before_the_request() {
    let asked_at = Instant::now();
    let ms = Duration::from_millis;
    let trust = Trust::new(asked_at, ms(5_000), ms(1_000));
    assert!(trust.holds(asked_at + ms(3_999)));
    assert!(!trust.holds(asked_at + ms(4_000)));
}
