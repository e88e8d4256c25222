//! PURE. Header tables: our own names, reading values of any AMQP type, and what may be kept of a foreign message.

use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};

/// Why a message is dead.
pub(crate) const REASON: &str = "lastunit-reason";
/// More about it: JSON text.
pub(crate) const DETAIL: &str = "lastunit-detail";
/// Passes through the delay queues.
pub(crate) const ATTEMPTS: &str = "lastunit-attempts";
/// When it died, RFC 3339.
pub(crate) const DIED_AT: &str = "lastunit-died-at";
/// The exchange it was first sent to.
pub(crate) const EXCHANGE: &str = "lastunit-exchange";
/// The routing key it was first sent with.
pub(crate) const ROUTING_KEY: &str = "lastunit-routing-key";
/// By which a returned message is recognised: message ids of others may be absent, or repeat.
pub(crate) const PUBLISH_ID: &str = "lastunit-publish-id";
/// The revision that a replay decides.
const REVISION: &str = "lastunit-revision";
/// The broker's count of deliveries that nobody settled.
pub(super) const DELIVERY_COUNT: &str = "x-delivery-count";
/// The broker's account of the queues in which a message died, the newest first.
pub(super) const DEATHS: &str = "x-death";
/// W3C trace context: which span sent it.
pub(super) const TRACE_PARENT: &str = "traceparent";
/// W3C trace context: what tracing systems say about it to themselves.
pub(super) const TRACE_STATE: &str = "tracestate";

const OURS: [&str; 8] = [REASON, DETAIL, ATTEMPTS, DIED_AT, EXCHANGE, ROUTING_KEY, PUBLISH_ID, REVISION];

/// What a short string holds, bytes.
pub(super) const MAX_SHORT: usize = 255;
/// All headers together, bytes: they must fit one frame, with the other properties.
pub(super) const MAX_TABLE: usize = 64 << 10;

/// A short string; what is too long for one is cut at a character, never a reason to panic.
pub(super) fn short(text: &str) -> ShortString {
    ShortString::try_new(head(text, MAX_SHORT)).unwrap_or_default()
}

/// The first characters of a text, at most `bytes` long.
pub(super) fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// A text as a header's value.
pub(super) fn text(text: impl Into<LongString>) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// A number as a header's value.
pub(super) fn integer(number: u64) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A header's value as text, when it is one.
pub(super) fn as_text(value: &AMQPValue) -> Option<&str> {
    match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str()),
        _ => None,
    }
}

/// A header's value as a count. Clients write integers of any width; whatever is no count (negative, text, a fraction)
/// means none, as if the header were absent.
pub(super) fn as_count(value: &AMQPValue) -> u32 {
    let number = match *value {
        AMQPValue::ShortShortInt(number) => i64::from(number),
        AMQPValue::ShortShortUInt(number) => i64::from(number),
        AMQPValue::ShortInt(number) => i64::from(number),
        AMQPValue::ShortUInt(number) => i64::from(number),
        AMQPValue::LongInt(number) => i64::from(number),
        AMQPValue::LongUInt(number) => i64::from(number),
        AMQPValue::LongLongInt(number) => number,
        AMQPValue::Boolean(_)
        | AMQPValue::Float(_)
        | AMQPValue::Double(_)
        | AMQPValue::DecimalValue(_)
        | AMQPValue::ShortString(_)
        | AMQPValue::LongString(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::Timestamp(_)
        | AMQPValue::FieldTable(_)
        | AMQPValue::ByteArray(_)
        | AMQPValue::Void => 0,
    };
    u32::try_from(number.clamp(0, i64::from(u32::MAX))).unwrap_or(u32::MAX)
}

/// The headers with which a message is published again: `ours` over what may be kept of `foreign`. What the broker would
/// misread goes, then the largest foreign ones until all fit.
pub(super) fn carry_over(foreign: Option<&FieldTable>, ours: Vec<(&'static str, AMQPValue)>) -> FieldTable {
    let mut size: usize = ours.iter().map(|(name, value)| pair_size(name, value)).sum();
    let kept = foreign.into_iter().flatten();
    let mut kept: Vec<_> = kept
        .filter(|(name, value)| may_stay(name.as_str(), value) && !ours.iter().any(|(our, _)| *our == name.as_str()))
        .map(|(name, value)| (pair_size(name.as_str(), value), name, value))
        .collect();
    kept.sort_unstable_by_key(|(bytes, ..)| *bytes);
    let mut table = FieldTable::default();
    for (bytes, name, value) in kept {
        size += bytes;
        if size > MAX_TABLE {
            break;
        }
        table.insert(name.clone(), value.clone());
    }
    for (name, value) in ours {
        table.insert(short(name), value);
    }
    table
}

/// The broker takes a kept `x-death` for a cycle and drops the message, `CC` and `BCC` for further addressees. Our own
/// names mean what we wrote, unless they are of a type or size that we never write.
fn may_stay(name: &str, value: &AMQPValue) -> bool {
    let broker = ["x-death", "x-first-death", "x-last-death"].iter().any(|prefix| name.starts_with(prefix))
        || name == DELIVERY_COUNT
        || name.eq_ignore_ascii_case("cc")
        || name.eq_ignore_ascii_case("bcc");
    let forged = OURS.contains(&name) && value_size(value) > super::detail::MAX_BYTES + 4;
    !broker && !forged
}

/// Bytes of a header in its frame.
fn pair_size(name: &str, value: &AMQPValue) -> usize {
    1 + name.len() + 1 + value_size(value)
}

/// Bytes of a value in its frame, without its type.
fn value_size(value: &AMQPValue) -> usize {
    match value {
        AMQPValue::Void => 0,
        AMQPValue::Boolean(_) | AMQPValue::ShortShortInt(_) | AMQPValue::ShortShortUInt(_) => 1,
        AMQPValue::ShortInt(_) | AMQPValue::ShortUInt(_) => 2,
        AMQPValue::LongInt(_) | AMQPValue::LongUInt(_) | AMQPValue::Float(_) => 4,
        AMQPValue::DecimalValue(_) => 5,
        AMQPValue::LongLongInt(_) | AMQPValue::Double(_) | AMQPValue::Timestamp(_) => 8,
        AMQPValue::ShortString(text) => 1 + text.as_str().len(),
        AMQPValue::LongString(text) => 4 + text.len(),
        AMQPValue::ByteArray(bytes) => 4 + bytes.len(),
        AMQPValue::FieldArray(values) => 4 + values.as_slice().iter().map(|value| 1 + value_size(value)).sum::<usize>(),
        AMQPValue::FieldTable(table) => {
            4 + table.into_iter().map(|(name, value)| pair_size(name.as_str(), value)).sum::<usize>()
        }
    }
}

/// A header table for people and programs. Bytes that are no text are shown with replacement characters.
pub(super) fn to_json(table: &FieldTable) -> serde_json::Value {
    table.into_iter().map(|(name, value)| (name.to_string(), value_to_json(value))).collect()
}

fn value_to_json(value: &AMQPValue) -> serde_json::Value {
    use serde_json::Value;
    match value {
        AMQPValue::Void => Value::Null,
        AMQPValue::Boolean(value) => (*value).into(),
        AMQPValue::ShortShortInt(number) => (*number).into(),
        AMQPValue::ShortShortUInt(number) => (*number).into(),
        AMQPValue::ShortInt(number) => (*number).into(),
        AMQPValue::ShortUInt(number) => (*number).into(),
        AMQPValue::LongInt(number) => (*number).into(),
        AMQPValue::LongUInt(number) => (*number).into(),
        AMQPValue::LongLongInt(number) => (*number).into(),
        AMQPValue::Timestamp(seconds) => (*seconds).into(),
        AMQPValue::Float(number) => (*number).into(),
        AMQPValue::Double(number) => (*number).into(),
        AMQPValue::DecimalValue(number) => format!("{}e-{}", number.value, number.scale).into(),
        AMQPValue::ShortString(text) => text.as_str().into(),
        AMQPValue::LongString(text) => text.to_string().into(),
        AMQPValue::ByteArray(bytes) => String::from_utf8_lossy(bytes.as_slice()).into(),
        AMQPValue::FieldArray(values) => values.as_slice().iter().map(value_to_json).collect(),
        AMQPValue::FieldTable(table) => to_json(table),
    }
}

#[cfg(test)]
mod tests {
    use lapin::types::FieldArray;

    use super::*;

    fn table<const N: usize>(pairs: [(&str, AMQPValue); N]) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in pairs {
            table.insert(short(name), value);
        }
        table
    }

    #[test]
    fn integers_of_every_width_count_and_everything_else_is_none() {
        let counts = [
            AMQPValue::ShortShortInt(3),
            AMQPValue::ShortShortUInt(3),
            AMQPValue::ShortInt(3),
            AMQPValue::ShortUInt(3),
            AMQPValue::LongInt(3),
            AMQPValue::LongUInt(3),
            AMQPValue::LongLongInt(3),
        ];
        assert!(counts.iter().all(|value| as_count(value) == 3));
        let none = [
            AMQPValue::LongInt(-3),
            AMQPValue::Double(3.0),
            text("3"),
            AMQPValue::Timestamp(3),
            AMQPValue::Void,
            AMQPValue::FieldArray(FieldArray::default()),
        ];
        assert!(none.iter().all(|value| as_count(value) == 0));
        assert_eq!(as_count(&AMQPValue::LongLongInt(i64::MAX)), u32::MAX);
    }

    #[test]
    fn what_the_broker_would_misread_goes_and_the_rest_stays() {
        let foreign = table([
            ("x-death", AMQPValue::FieldArray(FieldArray::default())),
            ("x-first-death-queue", text("q")),
            ("x-last-death-reason", text("r")),
            ("x-delivery-count", integer(7)),
            ("CC", text("elsewhere")),
            ("BCC", text("elsewhere")),
            ("tenant", text("shop")),
            (REASON, text("forged")),
        ]);
        let carried = carry_over(Some(&foreign), vec![(REASON, text("lost-race.sold-out"))]);
        let expected = table([("tenant", text("shop")), (REASON, text("lost-race.sold-out"))]);
        assert_eq!(carried, expected);
    }

    #[test]
    fn the_largest_foreign_headers_go_first_until_all_fit() {
        let foreign = table([
            ("small", text("s")),
            ("huge", text(vec![b'x'; 100_000])),
            ("half", text(vec![b'x'; 40_000])),
            ("third", text(vec![b'x'; 20_000])),
        ]);
        let carried = carry_over(Some(&foreign), vec![(REASON, text("r"))]);
        let names: Vec<_> = carried.inner().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["half", REASON, "small", "third"]);
        assert!(carried.into_iter().map(|(name, value)| pair_size(name.as_str(), value)).sum::<usize>() <= MAX_TABLE);
    }

    #[test]
    fn a_text_too_long_for_a_short_string_is_cut_at_a_character() {
        assert_eq!(short(&"é".repeat(200)).as_str().len(), 254);
        assert_eq!(short("plain").as_str(), "plain");
    }
}
