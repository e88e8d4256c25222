//! PURE. What leaves the worker for one message: [`Settlement::messages`] is the one exhaustive match from an outcome
//! to an event, a dead letter or a delayed retry.

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ledger::{NewDecision, Recorded};
use crate::order::{Line, Malformed, Order, OrderId, Sku};
use crate::plan::{Reason, Verdict};

/// Events of equal order id, revision and type have equal ids, for ever: this constant may never change.
const EVENT_NAMESPACE: Uuid = Uuid::from_u128(0x6c61_7374_756e_6974_8000_7265_7365_7276);

/// How one message ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// Its order is decided, now or long ago.
    Decided(Decided),
    /// It can never be processed; for its sender.
    Invalid(Malformed),
    /// It could not be processed, by our fault; for the operator.
    Failed {
        /// Why.
        failure: Failure,
        /// What happened, in words.
        detail: String,
    },
    /// Not now: through a delay queue.
    Retry {
        /// Which delay queue.
        delay_ms: u64,
    },
}

/// Our fault: the routing key of such a dead letter is `failed.<name>`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Failure {
    /// The order makes the worker's own work fail, alone and again.
    Internal,
}

impl Failure {
    /// As it stands in routing keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal",
        }
    }
}

/// A durable decision, with the event that tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The order.
    pub order_id: OrderId,
    /// Reserved (`None`), or rejected with this reason.
    pub rejected: Option<Reason>,
    /// 0, then 1, … by reconsideration.
    pub revision: i32,
    /// The event's body, the same bytes every time.
    pub event: Bytes,
}

impl Decided {
    /// A decision as the ledger holds it.
    #[must_use]
    pub fn from_recorded(order_id: OrderId, recorded: Recorded) -> Self {
        let Recorded { rejected, revision, content_hash: _, event } = recorded;
        Self { order_id, rejected, revision, event }
    }

    /// A decision that is about to be recorded.
    #[must_use]
    pub fn from_new(new: &NewDecision) -> Self {
        let NewDecision { order_id, rejected, event, .. } = new;
        Self { order_id: order_id.clone(), rejected: *rejected, revision: 0, event: event.clone() }
    }
}

/// One message to be published.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// To the exchange of outcomes.
    Event {
        /// CloudEvents type and routing key.
        kind: &'static str,
        /// CloudEvents id.
        id: Uuid,
        /// CloudEvents in its JSON form.
        body: Bytes,
    },
    /// To the exchange of dead letters, with the original body.
    DeadLetter {
        /// The routing key.
        reason: String,
        /// For the header `lastunit-detail`.
        detail: Value,
    },
    /// To a delay queue, with the original body.
    Retry {
        /// Which one.
        delay_ms: u64,
    },
}

impl Settlement {
    /// What must be published, and confirmed, before the message may be acknowledged.
    #[must_use]
    pub fn messages(self) -> Vec<Message> {
        match self {
            Self::Decided(decided) => {
                let lost = decided.rejected.map(|reason| Message::DeadLetter {
                    reason: dead_letter_reason(reason).to_owned(),
                    detail: short_of(&decided.event),
                });
                let kind = event_kind(decided.rejected);
                let id = event_id(&decided.order_id, decided.revision, kind);
                let event = Message::Event { kind, id, body: decided.event };
                std::iter::once(event).chain(lost).collect()
            }
            Self::Invalid(malformed) => vec![Message::DeadLetter {
                reason: format!("invalid.{}", malformed.code.as_str()),
                detail: json!({ "error": malformed.detail }),
            }],
            Self::Failed { failure, detail } => {
                let reason = format!("failed.{}", failure.as_str());
                vec![Message::DeadLetter { reason, detail: json!({ "error": detail }) }]
            }
            Self::Retry { delay_ms } => vec![Message::Retry { delay_ms }],
        }
    }
}

/// The routing key of a rejected order's dead letter.
#[must_use]
pub const fn dead_letter_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::SoldOut => "lost-race.sold-out",
        Reason::StaleFence => "lost-race.stale-fence",
        Reason::LeaseTimeout => "lost-race.lease-timeout",
        Reason::UnknownSku => "invalid.unknown-sku",
    }
}

const fn event_kind(rejected: Option<Reason>) -> &'static str {
    match rejected {
        None => "reservation.reserved",
        Some(_) => "reservation.rejected",
    }
}

/// CloudEvents id of an order's event. Fields are length-prefixed, so that no two triples share one name.
#[must_use]
pub fn event_id(order_id: &OrderId, revision: i32, kind: &str) -> Uuid {
    let mut name = Vec::with_capacity(64);
    name.extend_from_slice(&(order_id.as_str().len() as u64).to_be_bytes());
    name.extend_from_slice(order_id.as_str().as_bytes());
    name.extend_from_slice(&revision.to_be_bytes());
    name.extend_from_slice(kind.as_bytes());
    Uuid::new_v5(&EVENT_NAMESPACE, &name)
}

/// What the rejected order was short of, as its event tells it; null when the event is not readable.
fn short_of(event: &[u8]) -> Value {
    #[derive(serde::Deserialize)]
    struct Event {
        data: Data,
    }
    #[derive(serde::Deserialize)]
    struct Data {
        short: Value,
    }
    serde_json::from_slice::<Event>(event).map_or(Value::Null, |event| json!({ "short": event.data.short }))
}

/// A CloudEvents 1.0 event in its JSON form.
#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: Uuid,
    source: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    subject: &'a OrderId,
    time: &'a str,
    datacontenttype: &'static str,
    data: EventData<'a>,
}

#[derive(Serialize)]
struct EventData<'a> {
    order_id: &'a OrderId,
    reason: Option<&'static str>,
    lines: Vec<EventLine<'a>>,
    short: Vec<EventShort<'a>>,
    decided_at: &'a str,
    expires_at: Option<String>,
}

#[derive(Serialize)]
struct EventLine<'a> {
    sku: &'a Sku,
    requested: i64,
    reserved: i64,
}

#[derive(Serialize)]
struct EventShort<'a> {
    sku: &'a Sku,
    requested: i64,
    available: i64,
}

/// The event of a new decision: its body is stored with the decision and published verbatim whenever it is told again.
///
/// `source` is `broker.name_prefix`. Times are written to the millisecond, as they are stored.
#[must_use]
pub fn event_body<'a>(
    source: &str,
    order: &'a Order,
    verdict: &Verdict,
    decided_at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
) -> Bytes {
    let rfc3339 = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Millis, true);
    let time = rfc3339(decided_at);
    let (rejected, short) = match verdict {
        Verdict::Reserved => (None, &[][..]),
        Verdict::Rejected { reason, short } => (Some(*reason), &short[..]),
    };
    let kind = event_kind(rejected);
    let line = |line: &'a Line| EventLine {
        sku: &line.sku,
        requested: line.quantity,
        reserved: if rejected.is_none() { line.quantity } else { 0 },
    };
    let event = CloudEvent {
        specversion: "1.0",
        id: event_id(&order.id, 0, kind),
        source,
        kind,
        subject: &order.id,
        time: &time,
        datacontenttype: "application/json",
        data: EventData {
            order_id: &order.id,
            reason: rejected.map(Reason::as_str),
            lines: order.lines.iter().map(line).collect(),
            short: short
                .iter()
                .map(|s| EventShort { sku: &s.sku, requested: s.requested, available: s.available })
                .collect(),
            decided_at: &time,
            expires_at: expires_at.map(rfc3339),
        },
    };
    // Strings and numbers only: there is nothing in it that cannot be written.
    serde_json::to_vec(&event).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{InvalidCode, Limits, parse};
    use crate::plan::Short;

    fn order() -> Order {
        let body = br#"{"order_id":"A-1","lines":[{"sku":"X","quantity":2},{"sku":"Y","quantity":1}]}"#;
        parse(body, &Limits { max_bytes: 999, max_lines: 9, max_quantity: 9 }).expect("an order")
    }

    fn noon() -> DateTime<Utc> {
        "2026-11-29T12:00:00.123Z".parse().expect("a time")
    }

    fn sold_out() -> Verdict {
        let short = vec![Short { sku: order().lines[0].sku.clone(), requested: 2, available: 1 }];
        Verdict::Rejected { reason: Reason::SoldOut, short }
    }

    fn decided(verdict: &Verdict, rejected: Option<Reason>) -> Settlement {
        let event = event_body("shop", &order(), verdict, noon(), None);
        Settlement::Decided(Decided { order_id: order().id, rejected, revision: 0, event })
    }

    #[test]
    fn a_reservation_is_told_by_one_event() {
        let messages = decided(&Verdict::Reserved, None).messages();
        let [Message::Event { kind, id, body }] = &messages[..] else { panic!("{messages:?}") };
        let event: Value = serde_json::from_slice(body).expect("JSON");
        assert_eq!(
            event,
            json!({
                "specversion": "1.0", "id": id, "source": "shop", "type": kind, "subject": "A-1",
                "time": "2026-11-29T12:00:00.123Z", "datacontenttype": "application/json",
                "data": {
                    "order_id": "A-1", "reason": null, "short": [], "expires_at": null,
                    "decided_at": "2026-11-29T12:00:00.123Z",
                    "lines": [{"sku": "X", "requested": 2, "reserved": 2}, {"sku": "Y", "requested": 1, "reserved": 1}]
                }
            })
        );
        assert_eq!(*kind, "reservation.reserved");
    }

    #[test]
    fn a_lost_race_is_told_by_an_event_and_a_dead_letter_with_what_was_short() {
        let messages = decided(&sold_out(), Some(Reason::SoldOut)).messages();
        let [Message::Event { kind, .. }, Message::DeadLetter { reason, detail }] = &messages[..] else {
            panic!("{messages:?}")
        };
        assert_eq!((*kind, reason.as_str()), ("reservation.rejected", "lost-race.sold-out"));
        assert_eq!(*detail, json!({"short": [{"sku": "X", "requested": 2, "available": 1}]}));
    }

    #[test]
    fn an_event_id_depends_on_order_revision_and_type_alone() {
        let id = |order: &str, revision, kind| event_id(&OrderId::new(order).expect("an id"), revision, kind);
        assert_eq!(id("A", 0, "x").to_string(), "89646208-6a87-5d52-8fba-6c966446851f");
        assert_ne!(id("A", 0, "x"), id("A", 1, "x"));
        assert_ne!(id("A", 0, "x"), id("B", 0, "x"));
        assert_ne!(id("A", 0, "x"), id("A", 0, "y"));
    }

    #[test]
    fn every_reason_has_a_queue() {
        for reason in Reason::ALL {
            let key = dead_letter_reason(reason);
            assert!(key.ends_with(reason.as_str()), "{key}");
            assert!(key.starts_with("lost-race.") || key.starts_with("invalid."), "{key}");
        }
    }

    #[test]
    fn a_malformed_message_goes_to_its_sender_only() {
        let malformed = Malformed::new(InvalidCode::Json, "no JSON");
        let expected = Message::DeadLetter { reason: "invalid.json".into(), detail: json!({"error": "no JSON"}) };
        assert_eq!(Settlement::Invalid(malformed).messages(), [expected]);
    }
}
