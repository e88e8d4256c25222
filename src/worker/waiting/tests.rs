//! First come, first served per SKU, against a plain scan over all waiting orders.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::lane::{KEEP_FOR, YIELD_FOR};
use super::*;
use crate::broker::Tag;
use crate::lease::Attempt;
use crate::order::{Limits, parse};

const LIMITS: BatchLimits = BatchLimits { max_orders: 4, max_lines: 6, enough: 4 };
const PATIENCE: Duration = Duration::from_secs(1);
/// The first batch of a test.
const FIRST: BatchId = BatchId(0);

fn job(arrival: u64, now: Instant, skus: &[&str]) -> Job {
    let lines: Vec<_> = skus.iter().map(|sku| serde_json::json!({"sku": sku, "quantity": 1})).collect();
    let body = serde_json::json!({"order_id": format!("A-{arrival}"), "lines": lines}).to_string();
    let limits = Limits { max_bytes: 9_999, max_lines: 99, max_quantity: 99 };
    let order = Arc::new(parse(body.as_bytes(), &limits).expect("an order"));
    let delivery = Arc::new(Delivery::bare(Tag { session: 1, delivery: arrival }, body.into_bytes()));
    Job { arrival, arrived: now, delivery, order, look_up: false }
}

fn sku(name: &str) -> Sku {
    Sku::new(name).expect("a sku")
}

fn waiting(jobs: &[(u64, &[&str])]) -> Waiting {
    let mut waiting = Waiting::new(LIMITS, PATIENCE);
    let now = Instant::now();
    for (arrival, skus) in jobs {
        waiting.push(job(*arrival, now, skus));
    }
    waiting
}

/// The arrivals of the next batch.
fn take(waiting: &mut Waiting) -> Vec<u64> {
    waiting.take_batch(Instant::now()).map(|batch| arrivals(&batch)).unwrap_or_default()
}

fn arrivals(batch: &Batch) -> Vec<u64> {
    batch.jobs.iter().map(|job| job.arrival).collect()
}

#[test]
fn orders_for_one_sku_share_a_batch_in_the_sequence_of_arrival() {
    let mut waiting = waiting(&[(1, &["X"]), (2, &["X"]), (3, &["Y"]), (4, &["X"])]);
    assert_eq!(take(&mut waiting), [1, 2, 3, 4]);
    assert!(waiting.is_empty());
}

#[test]
fn a_sku_in_work_holds_back_its_orders_and_no_others() {
    let mut waiting = waiting(&[(1, &["X"])]);
    assert_eq!(take(&mut waiting), [1]);
    for (arrival, skus) in [(2, &["X"][..]), (3, &["Y"]), (4, &["X", "Z"]), (5, &["Z"])] {
        waiting.push(job(arrival, Instant::now(), skus));
    }
    assert_eq!(take(&mut waiting), [3], "5 stands behind 4, which waits for X");
    waiting.free(FIRST, [(sku("X"), None)], Instant::now());
    assert_eq!(take(&mut waiting), [2, 4, 5]);
}

#[test]
fn a_full_batch_leaves_the_rest_in_its_place() {
    let mut waiting = waiting(&[(1, &["X"]), (2, &["X"]), (3, &["X"]), (4, &["X"]), (5, &["X"]), (6, &["Y"])]);
    assert_eq!(take(&mut waiting), [1, 2, 3, 4]);
    assert_eq!(take(&mut waiting), [6], "X is in work");
    waiting.free(FIRST, [(sku("X"), None)], Instant::now());
    assert_eq!(take(&mut waiting), [5]);
}

#[test]
fn an_order_larger_than_a_batch_goes_alone() {
    let mut waiting = waiting(&[(1, &["A", "B", "C", "D", "E", "F", "G"]), (2, &["H"])]);
    assert_eq!(take(&mut waiting), [1]);
    assert_eq!(take(&mut waiting), [2]);
}

#[test]
fn a_contested_sku_pauses_and_comes_back_with_its_floor() {
    let mut waiting = waiting(&[(1, &["X"]), (2, &["Y"])]);
    let Batch { id, jobs, .. } = waiting.take_batch(Instant::now()).expect("a batch");
    let now = Instant::now();
    let floor = FenceToken::from_row(77).expect("a token");
    waiting.free(id, [(sku("Y"), None)], Instant::now());
    waiting.contest(id, [(sku("X"), Contest::Stale(floor))], now);
    assert!(waiting.put_back(jobs, now).is_empty());
    assert_eq!(take(&mut waiting), [2]);
    waiting.tick(now);
    let Batch { jobs, requests, .. } = waiting.take_batch(Instant::now()).expect("a batch");
    assert_eq!((jobs[0].arrival, requests[0].floor), (1, floor));
}

#[test]
fn a_foreign_lease_pauses_a_sku_for_no_longer_than_it_lasts() {
    let mut waiting = waiting(&[(1, &["X"])]);
    let Batch { id, jobs, .. } = waiting.take_batch(Instant::now()).expect("a batch");
    let now = Instant::now();
    waiting.contest(id, [(sku("X"), Contest::Held(Duration::from_micros(300)))], now);
    assert!(waiting.put_back(jobs, now).is_empty());
    assert!(!waiting.can_start());
    assert!(waiting.next_alarm().expect("an alarm") <= now + Duration::from_micros(300));
}

#[test]
fn only_time_spent_on_a_contested_sku_makes_an_order_overdue() {
    let start = Instant::now();
    let mut waiting = Waiting::new(LIMITS, PATIENCE);
    waiting.push(job(1, start, &["X"]));
    let late = start + PATIENCE * 10;
    let held = || [(sku("X"), Contest::Held(PATIENCE))];
    let Batch { id, jobs, .. } = waiting.take_batch(Instant::now()).expect("a batch");
    waiting.contest(id, held(), late);
    assert!(waiting.put_back(jobs, late).is_empty(), "the wait begins with the contest");
    waiting.tick(late + PATIENCE);
    let Batch { id, jobs, .. } = waiting.take_batch(Instant::now()).expect("a batch");
    waiting.contest(id, held(), late + PATIENCE);
    let overdue = waiting.put_back(jobs, late + PATIENCE);
    assert_eq!(overdue.iter().map(|overdue| overdue.job.arrival).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_kept_lease_goes_to_the_next_batch_or_is_given_back() {
    let mut waiting = waiting(&[(1, &["X"]), (2, &["Y"])]);
    assert_eq!(take(&mut waiting), [1, 2]);
    waiting.push(job(3, Instant::now(), &["X"]));
    let kept = Attempt::new();
    waiting.free(FIRST, [(sku("X"), Some(kept)), (sku("Y"), Some(kept))], Instant::now());
    let Batch { requests, .. } = waiting.take_batch(Instant::now()).expect("a batch");
    assert_eq!(requests.iter().map(|r| r.previous).collect::<Vec<_>>(), [Some(kept)]);
    assert_eq!(waiting.unkeep([&sku("X"), &sku("Y")]), [(sku("Y"), kept)]);
}

#[test]
fn a_worker_that_kept_a_sku_for_long_lets_others_have_it() {
    let start = Instant::now();
    let mut waiting = waiting(&[(1, &["X"])]);
    assert!(waiting.take_batch(start).is_some());
    waiting.push(job(2, start, &["X"]));
    let (late, kept) = (start + KEEP_FOR, Attempt::new());
    waiting.free(FIRST, [(sku("X"), Some(kept))], late);
    assert!(!waiting.can_start());
    assert_eq!(waiting.unkeep([&sku("X")]), [(sku("X"), kept)]);
    waiting.tick(late + YIELD_FOR);
    assert_eq!(take(&mut waiting), [2]);
}

#[test]
fn orders_of_a_lost_session_make_room_for_those_behind_them() {
    let mut waiting = waiting(&[(1, &["X", "Y"]), (2, &["X"])]);
    waiting.retain(|job| job.arrival != 1);
    assert_eq!(take(&mut waiting), [2]);
}

#[test]
fn lanes_are_forgotten_with_their_last_order() {
    let mut waiting = waiting(&[(1, &["X"]), (2, &["Y"])]);
    let Batch { id, jobs, .. } = waiting.take_batch(Instant::now()).expect("a batch");
    let now = Instant::now();
    waiting.free(id, [(sku("Y"), None)], Instant::now());
    waiting.contest(id, [(sku("X"), Contest::Held(PATIENCE))], now);
    drop(jobs);
    waiting.tick(now + PATIENCE);
    assert!(waiting.lanes.is_empty() && waiting.alarms.is_empty());
}

/// The first batch has X and Y, and lends both; two orders wait for each.
fn lent() -> (Waiting, Attempt) {
    let mut waiting = waiting(&[(1, &["X", "Y"])]);
    assert_eq!(take(&mut waiting), [1]);
    for (arrival, skus) in [(2, ["X"]), (3, ["Y"]), (4, ["X"]), (5, ["Y"])] {
        waiting.push(job(arrival, Instant::now(), &skus));
    }
    assert!(!waiting.can_start());
    let attempt = Attempt::new();
    waiting.lend(FIRST, attempt, [sku("X"), sku("Y")], Instant::now());
    (waiting, attempt)
}

#[test]
fn a_lent_sku_goes_to_the_next_batch_which_stands_behind_the_lender() {
    let (mut waiting, attempt) = lent();
    let next = waiting.take_batch(Instant::now()).expect("a batch");
    assert_eq!((arrivals(&next), &next.behind), (vec![2, 3, 4, 5], &HashSet::from([FIRST])));
    assert!(next.requests.iter().all(|request| request.previous == Some(attempt)));
    waiting.push(job(6, Instant::now(), &["X"]));
    waiting.free(FIRST, [(sku("X"), Some(attempt)), (sku("Y"), Some(attempt))], Instant::now());
    assert!(!waiting.can_start(), "they are the next batch's");
    assert_eq!(waiting.unkeep([&sku("X"), &sku("Y")]), [], "and so are the leases");
    waiting.free(next.id, [(sku("X"), None), (sku("Y"), None)], Instant::now());
    let third = waiting.take_batch(Instant::now()).expect("a batch");
    assert_eq!((arrivals(&third), third.behind.len()), (vec![6], 0), "nobody before it is at work");
}

#[test]
fn a_lent_sku_that_nobody_took_is_freed_with_its_lease() {
    let (mut waiting, attempt) = lent();
    waiting.retain(|_| false);
    waiting.free(FIRST, [(sku("X"), Some(attempt)), (sku("Y"), Some(attempt))], Instant::now());
    assert_eq!(waiting.unkeep([&sku("X"), &sku("Y")]).len(), 2);
    assert!(waiting.lanes.is_empty());
}

#[test]
fn a_lent_sku_that_the_lender_then_loses_pauses_unless_the_next_batch_has_it() {
    let (mut waiting, _) = lent();
    let contest = || [(sku("X"), Contest::Held(PATIENCE)), (sku("Y"), Contest::Held(PATIENCE))];
    waiting.contest(FIRST, contest(), Instant::now());
    assert!(!waiting.can_start(), "nobody may start on a lane that pauses");
    let (mut waiting, _) = lent();
    let next = waiting.take_batch(Instant::now()).expect("a batch");
    waiting.contest(FIRST, contest(), Instant::now());
    assert_eq!(waiting.next_alarm(), None);
    waiting.contest(next.id, contest(), Instant::now());
    assert!(waiting.next_alarm().is_some());
}

#[test]
fn a_batch_that_gave_up_waiting_leaves_its_lender_all_that_was_lent() {
    let (mut waiting, _) = lent();
    waiting.retain(|job| job.arrival % 2 == 0);
    waiting.push(job(6, Instant::now(), &["Z"]));
    let next = waiting.take_batch(Instant::now()).expect("a batch");
    assert_eq!(arrivals(&next), [2, 4, 6]);
    let kept = Attempt::new();
    let unused = waiting.free(next.id, [(sku("X"), Some(kept)), (sku("Z"), Some(kept))], Instant::now());
    assert_eq!(unused, [(sku("X"), kept)], "the lender has another lease");
    assert!(waiting.put_back(next.jobs, Instant::now()).is_empty());
    for arrival in [7, 8] {
        waiting.push(job(arrival, Instant::now(), if arrival == 7 { &["X"] } else { &["Y"] }));
    }
    assert_eq!(take(&mut waiting), [6], "X and Y wait for the lender");
    assert_eq!(waiting.free(FIRST, [(sku("X"), None), (sku("Y"), None)], Instant::now()), []);
    assert_eq!(take(&mut waiting), [2, 4, 7, 8]);
}

#[test]
fn a_batch_that_gave_up_before_it_had_a_lease_leaves_the_lender_its_own() {
    let (mut waiting, lenders) = lent();
    let next = waiting.take_batch(Instant::now()).expect("a batch");
    let skus = [(sku("X"), Some(lenders)), (sku("Y"), Some(lenders))];
    assert_eq!(waiting.free(next.id, skus, Instant::now()), []);
}

#[test]
fn a_lane_that_nobody_waits_in_any_more_is_forgotten_with_what_it_was_contested_for() {
    let mut waiting = waiting(&[(1, &["X"])]);
    let Batch { id, jobs, .. } = waiting.take_batch(Instant::now()).expect("a batch");
    let now = Instant::now();
    waiting.contest(id, [(sku("X"), Contest::Held(PATIENCE))], now);
    assert!(waiting.put_back(jobs, now).is_empty());
    waiting.tick(now + PATIENCE);
    waiting.retain(|_| false);
    assert!(waiting.lanes.is_empty() && waiting.lines == 0);
}

#[test]
fn a_sku_whose_turn_is_over_is_not_lent() {
    let start = Instant::now();
    let mut waiting = waiting(&[(1, &["X"])]);
    assert!(waiting.take_batch(start).is_some());
    waiting.push(job(2, start, &["X"]));
    waiting.lend(FIRST, Attempt::new(), [sku("X")], start + KEEP_FOR);
    assert!(!waiting.can_start());
}

/// A plain scan over all orders: the rule as a sentence.
fn oracle(orders: &BTreeMap<u64, Vec<String>>, busy: &BTreeSet<String>) -> Vec<u64> {
    let mut blocked = busy.clone();
    let (mut batch, mut lines) = (Vec::new(), 0);
    for (arrival, skus) in orders {
        if skus.iter().any(|sku| blocked.contains(sku)) {
            blocked.extend(skus.iter().cloned());
            continue;
        }
        if batch.len() == LIMITS.max_orders || (!batch.is_empty() && lines + skus.len() > LIMITS.max_lines) {
            break;
        }
        lines += skus.len();
        batch.push(*arrival);
    }
    batch
}

proptest! {
    #[test]
    fn a_batch_is_what_a_plain_scan_would_pick(
        orders in prop::collection::vec(prop::collection::btree_set("[A-E]", 1..4), 1..30),
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..40),
    ) {
        let mut waiting = Waiting::new(LIMITS, PATIENCE);
        let mut plain = BTreeMap::new();
        for (arrival, skus) in (0..).zip(&orders) {
            waiting.push(job(arrival, Instant::now(), &skus.iter().map(String::as_str).collect::<Vec<_>>()));
            plain.insert(arrival, skus.iter().cloned().collect::<Vec<_>>());
        }
        // Whose they are; who lent them, without a successor; and from whom a successor has them.
        let (mut busy, mut lent, mut taken) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (index, lends) in steps {
            let expected = oracle(&plain, &busy.keys().cloned().collect());
            let batch = waiting.take_batch(Instant::now());
            prop_assert_eq!(batch.as_ref().map(arrivals).unwrap_or_default(), expected.clone());
            prop_assert_eq!(waiting.lines, waiting.jobs.values().map(|job| job.order.lines.len()).sum::<usize>());
            if let Some(batch) = batch {
                let mut behind = HashSet::new();
                for sku in expected.iter().flat_map(|arrival| plain.remove(arrival).expect("a waiting order")) {
                    if let Some(lender) = lent.remove(&sku) {
                        taken.insert(sku.clone(), lender);
                    }
                    behind.extend(taken.get(&sku).copied());
                    busy.insert(sku, batch.id);
                }
                prop_assert_eq!(batch.behind, behind);
            }
            if !busy.is_empty() {
                let (name, id) = busy.iter().nth(index.index(busy.len())).map(|(name, id)| (name.clone(), *id)).expect("one");
                busy.remove(&name);
                let lender = taken.remove(&name);
                if lends {
                    waiting.lend(id, Attempt::new(), [sku(&name)], Instant::now());
                    lent.insert(name, id);
                    continue;
                }
                waiting.free(id, [(sku(&name), None)], Instant::now());
                if let Some(lender) = lender {
                    busy.insert(name, lender);
                    busy.extend(lent.extract_if(.., |_, who| *who == lender));
                }
            }
        }
    }
}
