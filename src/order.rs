//! PURE. A message's body becomes an [`Order`], or the precise reason why it is none.
//!
//! Strict where a lenient reader would sell the wrong thing (duplicate fields, numbers as ids, fractions, positional
//! arrays), tolerant where nothing can go wrong (unknown fields, one byte order mark, a trailing newline).
//! `docs/MESSAGES.md` describes the format for its senders.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Ids are at most this many bytes: what an AMQP short string and a database key hold.
pub const MAX_ID_BYTES: usize = 255;
/// A hold is at most this long: ten years, far inside of what every database's timestamps reach.
pub const MAX_HOLD_SECONDS: u64 = 315_360_000;

/// An opaque id, kept byte for byte: 1 to [`MAX_ID_BYTES`] bytes of UTF-8 without control characters.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Id(Arc<str>);

/// What is sold.
pub type Sku = Id;
/// What a customer ordered.
pub type OrderId = Id;

impl Id {
    /// Checks an id.
    ///
    /// # Errors
    /// What is wrong with it, for its sender.
    pub fn new(value: &str) -> Result<Self, String> {
        if value.is_empty() {
            return Err("an id is empty".into());
        }
        if value.len() > MAX_ID_BYTES {
            return Err(format!("an id has {} bytes, more than {MAX_ID_BYTES}", value.len()));
        }
        if let Some(control) = value.chars().find(|c| c.is_control()) {
            return Err(format!("an id holds the control character U+{:04X}", u32::from(control)));
        }
        Ok(Self(value.into()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::borrow::Borrow<str> for Id {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Units of one SKU in an order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    /// What.
    pub sku: Sku,
    /// How many units; at least 1.
    pub quantity: i64,
}

/// SHA-256 over an order's lines, summed per SKU and sorted, and its hold time as sent: tells a duplicate from a conflict.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ContentHash(pub [u8; 32]);

/// A well-formed order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Order {
    /// Names the order; one decision per id.
    pub id: OrderId,
    /// Each SKU once, in the order in which it is first seen; never empty.
    pub lines: Vec<Line>,
    /// The hold time as sent; `None` when absent, which is not the same as zero (no deadline).
    pub hold: Option<Duration>,
    /// What makes two messages with one id the same order.
    pub content_hash: ContentHash,
}

/// Why a message can never be processed; the routing key of its dead letter is `invalid.<code>`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum InvalidCode {
    /// Not a JSON text, or one that contradicts itself.
    Json,
    /// Not UTF-8, or an encoding that the worker does not read.
    Encoding,
    /// More bytes than `broker.max_message_bytes`.
    TooLarge,
    /// JSON, but not an order.
    Order,
    /// A known order id with other content.
    ConflictingDuplicate,
    /// An AMQP `type` that the worker does not know.
    UnsupportedType,
}

impl InvalidCode {
    /// The code as it stands in routing keys and headers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Encoding => "encoding",
            Self::TooLarge => "too-large",
            Self::Order => "order",
            Self::ConflictingDuplicate => "conflicting-duplicate",
            Self::UnsupportedType => "unsupported-type",
        }
    }
}

/// A message that can never be processed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("invalid.{}: {detail}", .code.as_str())]
pub struct Malformed {
    /// The kind of fault.
    pub code: InvalidCode,
    /// The precise fault, for the sender.
    pub detail: String,
}

impl Malformed {
    /// Puts a fault together.
    pub fn new(code: InvalidCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }
}

/// What one order may hold; from the settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the body.
    pub max_bytes: usize,
    /// Lines as sent.
    pub max_lines: usize,
    /// Units of one SKU, summed.
    pub max_quantity: i64,
}

/// Reads a message's body.
///
/// # Errors
/// [`Malformed`] with the precise fault; the message can never be processed.
pub fn parse(body: &[u8], limits: &Limits) -> Result<Order, Malformed> {
    if body.len() > limits.max_bytes {
        let detail = format!("the body has {} bytes, more than {}", body.len(), limits.max_bytes);
        return Err(Malformed::new(InvalidCode::TooLarge, detail));
    }
    let text = std::str::from_utf8(body)
        .map_err(|fault| Malformed::new(InvalidCode::Encoding, format!("the body is not UTF-8: {fault}")))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let message = read_json(text)?;
    message.into_order(limits).map_err(|detail| Malformed::new(InvalidCode::Order, detail))
}

/// Reads one JSON value and nothing after it.
fn read_json(text: &str) -> Result<Message, Malformed> {
    let mut json = serde_json::Deserializer::from_str(text);
    let message = serde_path_to_error::deserialize(&mut json).map_err(|fault| {
        let code = if fault.inner().is_data() { InvalidCode::Order } else { InvalidCode::Json };
        let at_top = fault.path().iter().len() == 0;
        Malformed::new(code, if at_top { fault.into_inner().to_string() } else { fault.to_string() })
    })?;
    json.end().map_err(|fault| Malformed::new(InvalidCode::Json, fault.to_string()))?;
    Ok(message)
}

/// The fields of an order message; `null` is the same as absent.
#[derive(Default)]
struct Message {
    order_id: Option<String>,
    sku: Option<String>,
    quantity: Option<u64>,
    lines: Option<Vec<MessageLine>>,
    hold_seconds: Option<u64>,
}

struct MessageLine {
    sku: String,
    quantity: u64,
}

impl Message {
    fn into_order(self, limits: &Limits) -> Result<Order, String> {
        let id = self.order_id.ok_or("order_id is missing")?;
        let id = Id::new(&id).map_err(|fault| format!("order_id: {fault}"))?;
        let sent = match (self.sku, self.quantity, self.lines) {
            (None, None, Some(lines)) => lines,
            (Some(sku), Some(quantity), None) => vec![MessageLine { sku, quantity }],
            (Some(_), None, None) => return Err("quantity is missing".into()),
            (None, Some(_), None) => return Err("sku is missing".into()),
            (None, None, None) => return Err("the order has neither sku and quantity nor lines".into()),
            (_, _, Some(_)) => return Err("the order has lines as well as sku or quantity".into()),
        };
        let lines = sum_lines(&sent, limits)?;
        let hold = match self.hold_seconds {
            Some(seconds) if seconds > MAX_HOLD_SECONDS => {
                return Err(format!("hold_seconds is {seconds}, more than {MAX_HOLD_SECONDS} (ten years)"));
            }
            seconds => seconds.map(Duration::from_secs),
        };
        let content_hash = hash_content(&lines, hold);
        Ok(Order { id, lines, hold, content_hash })
    }
}

/// Sums the lines of each SKU, in the order in which a SKU is first seen.
fn sum_lines(sent: &[MessageLine], limits: &Limits) -> Result<Vec<Line>, String> {
    if sent.is_empty() {
        return Err("lines is empty".into());
    }
    if sent.len() > limits.max_lines {
        return Err(format!("the order has {} lines, more than {}", sent.len(), limits.max_lines));
    }
    let mut lines: Vec<Line> = Vec::with_capacity(sent.len());
    let mut position = HashMap::with_capacity(sent.len());
    for line in sent {
        let quantity = match i64::try_from(line.quantity) {
            Ok(0) => return Err(format!("quantity of {:?} is 0: it must be at least 1", line.sku)),
            Ok(quantity) if quantity <= limits.max_quantity => quantity,
            _ => return Err(format!("quantity {} is more than {}", line.quantity, limits.max_quantity)),
        };
        let index = *position.entry(line.sku.as_str()).or_insert(lines.len());
        if index == lines.len() {
            lines.push(Line { sku: Id::new(&line.sku).map_err(|fault| format!("sku: {fault}"))?, quantity });
        } else {
            // Both are at most max_quantity, which settings bound to 2^40.
            lines[index].quantity += quantity;
            if lines[index].quantity > limits.max_quantity {
                return Err(format!("the lines of {:?} sum up to more than {}", line.sku, limits.max_quantity));
            }
        }
    }
    Ok(lines)
}

/// Fields are length-prefixed, so that no two contents share one encoding.
fn hash_content(lines: &[Line], hold: Option<Duration>) -> ContentHash {
    let mut sorted: Vec<&Line> = lines.iter().collect();
    sorted.sort_unstable_by(|a, b| a.sku.cmp(&b.sku));
    let mut hash = Sha256::new();
    hash.update((sorted.len() as u64).to_be_bytes());
    for line in sorted {
        hash.update((line.sku.as_str().len() as u64).to_be_bytes());
        hash.update(line.sku.as_str().as_bytes());
        hash.update(line.quantity.to_be_bytes());
    }
    match hold {
        None => hash.update([0]),
        Some(hold) => {
            hash.update([1]);
            hash.update(hold.as_secs().to_be_bytes());
        }
    }
    ContentHash(hash.finalize().into())
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Message;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an order object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message, A::Error> {
                let mut message = Message::default();
                let mut seen = Seen::default();
                while let Some(key) = map.next_key::<Key>()? {
                    match key.0.as_str() {
                        "order_id" => message.order_id = seen.once("order_id", &mut map)?,
                        "sku" => message.sku = seen.once("sku", &mut map)?,
                        "quantity" => message.quantity = seen.once("quantity", &mut map)?,
                        "lines" => message.lines = seen.once("lines", &mut map)?,
                        "hold_seconds" => message.hold_seconds = seen.once("hold_seconds", &mut map)?,
                        _ => map.next_value::<Skipped>().map(drop)?,
                    }
                }
                Ok(message)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for MessageLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = MessageLine;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a line object with sku and quantity")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MessageLine, A::Error> {
                let (mut sku, mut quantity) = (None, None);
                let mut seen = Seen::default();
                while let Some(key) = map.next_key::<Key>()? {
                    match key.0.as_str() {
                        "sku" => sku = seen.once("sku", &mut map)?,
                        "quantity" => quantity = seen.once("quantity", &mut map)?,
                        _ => map.next_value::<Skipped>().map(drop)?,
                    }
                }
                Ok(MessageLine {
                    sku: sku.ok_or_else(|| A::Error::missing_field("sku"))?,
                    quantity: quantity.ok_or_else(|| A::Error::missing_field("quantity"))?,
                })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// The known fields seen so far: a field that comes twice says two things, and either could be meant.
#[derive(Default)]
struct Seen(Vec<&'static str>);

impl Seen {
    fn once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
        &mut self,
        field: &'static str,
        map: &mut A,
    ) -> Result<Option<T>, A::Error> {
        if self.0.contains(&field) {
            return Err(A::Error::duplicate_field(field));
        }
        self.0.push(field);
        map.next_value()
    }
}

/// An object's key.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key(String);

/// A value of no interest. Unlike [`IgnoredAny`] it descends through `deserialize_any`, so that serde_json's depth limit
/// of 128 holds for what is ignored, too.
struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Skipped)
    }
}

impl<'de> Visitor<'de> for Skipped {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Skipped>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value::<Skipped>()?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { max_bytes: 10_000, max_lines: 3, max_quantity: 1_000 };

    fn order(body: &str) -> Order {
        parse(body.as_bytes(), &LIMITS).expect("an order")
    }

    fn code(body: impl AsRef<[u8]>) -> &'static str {
        parse(body.as_ref(), &LIMITS).expect_err("malformed").code.as_str()
    }

    fn detail(body: &str) -> String {
        parse(body.as_bytes(), &LIMITS).expect_err("malformed").detail
    }

    #[test]
    fn the_short_form_is_an_order_of_one_line() {
        let short = order(r#"{"order_id": "A-1", "sku": "S", "quantity": 2}"#);
        let long = order(r#"{"order_id": "A-1", "lines": [{"sku": "S", "quantity": 2}]}"#);
        assert_eq!(short, long);
        assert_eq!((short.id.as_str(), short.lines[0].quantity), ("A-1", 2));
    }

    #[test]
    fn lines_of_one_sku_are_summed_where_it_is_first_seen() {
        let order = order(
            r#"{"order_id":"A","lines":[{"sku":"X","quantity":1},{"sku":"Y","quantity":2},{"sku":"X","quantity":3}]}"#,
        );
        let lines: Vec<_> = order.lines.iter().map(|line| (line.sku.as_str(), line.quantity)).collect();
        assert_eq!(lines, [("X", 4), ("Y", 2)]);
    }

    #[test]
    fn the_content_hash_ignores_the_order_of_lines_but_not_the_hold() {
        let hash = |body| order(body).content_hash;
        let xy = hash(r#"{"order_id":"A","lines":[{"sku":"X","quantity":1},{"sku":"Y","quantity":2}]}"#);
        let yx = hash(r#"{"order_id":"B","lines":[{"sku":"Y","quantity":2},{"sku":"X","quantity":1}]}"#);
        let none = hash(r#"{"order_id":"A","sku":"X","quantity":1}"#);
        let zero = hash(r#"{"order_id":"A","sku":"X","quantity":1,"hold_seconds":0}"#);
        assert_eq!(xy, yx);
        assert_ne!(none, zero);
        assert_eq!(none, hash(r#"{"order_id":"A","sku":"X","quantity":1,"hold_seconds":null}"#));
    }

    #[test]
    fn harmless_extras_are_tolerated() {
        order("\u{feff}{\"order_id\":\"A\",\"sku\":\"X\",\"quantity\":1,\"note\":{\"deep\":[1,2.5,null]}}\n");
    }

    #[test]
    fn ids_are_kept_byte_for_byte() {
        let order = order(r##"{"order_id":" #1001 ","sku":"85123a ","quantity":1}"##);
        assert_eq!((order.id.as_str(), order.lines[0].sku.as_str()), (" #1001 ", "85123a "));
    }

    #[test]
    fn what_is_not_json_has_the_code_json() {
        for body in [
            "",
            "{",
            "hello",
            r#"{"order_id":"A","sku":"X","quantity":1} x"#,
            r#"{"order_id":"A","sku":"X","quantity":01}"#,
        ] {
            assert_eq!(code(body), "json", "{body}");
        }
    }

    #[test]
    fn what_is_not_utf8_has_the_code_encoding() {
        assert_eq!(code(b"{\"order_id\":\"\xff\"}"), "encoding");
        assert_eq!(code([0xff, 0xfe, b'{', 0]), "encoding");
    }

    #[test]
    fn what_is_too_large_is_not_read() {
        assert_eq!(code(vec![b' '; 10_001]), "too-large");
    }

    #[test]
    fn json_that_is_not_an_order_says_what_is_wrong() {
        let cases = [
            (r#"["A","X",1]"#, "an order object"),
            (r#"{"sku":"X","quantity":1}"#, "order_id is missing"),
            (r#"{"order_id":17,"sku":"X","quantity":1}"#, "order_id: invalid type"),
            (r#"{"order_id":"","sku":"X","quantity":1}"#, "order_id: an id is empty"),
            (r#"{"order_id":"A\u0000","sku":"X","quantity":1}"#, "U+0000"),
            (r#"{"order_id":"A","order_id":"B","sku":"X","quantity":1}"#, "duplicate field `order_id`"),
            (r#"{"order_id":"A","sku":"X","quantity":0}"#, "at least 1"),
            (r#"{"order_id":"A","sku":"X","quantity":-1}"#, "quantity: invalid value"),
            (r#"{"order_id":"A","sku":"X","quantity":1.0}"#, "quantity: invalid type"),
            (r#"{"order_id":"A","sku":"X","quantity":"1"}"#, "quantity: invalid type"),
            (r#"{"order_id":"A","sku":"X","quantity":99999999999999999999}"#, "quantity: invalid type"),
            (r#"{"order_id":"A","sku":"X","quantity":1001}"#, "more than 1000"),
            (r#"{"order_id":"A","sku":"X"}"#, "quantity is missing"),
            (r#"{"order_id":"A","lines":[]}"#, "lines is empty"),
            (r#"{"order_id":"A","lines":[["X",1]]}"#, "a line object"),
            (r#"{"order_id":"A","lines":[{"sku":"X"}]}"#, "missing field `quantity`"),
            (r#"{"order_id":"A","sku":"X","quantity":1,"lines":[{"sku":"X","quantity":1}]}"#, "as well as"),
            (r#"{"order_id":"A","sku":"X","quantity":1,"hold_seconds":-5}"#, "hold_seconds: invalid value"),
            (r#"{"order_id":"A","sku":"X","quantity":1,"hold_seconds":999999999999}"#, "ten years"),
            (r#"{"order_id":"A","lines":[{"sku":"X","quantity":600},{"sku":"X","quantity":600}]}"#, "sum up"),
        ];
        for (body, part) in cases {
            assert_eq!(code(body), "order", "{body}");
            assert!(detail(body).contains(part), "{body}: {}", detail(body));
        }
    }

    #[test]
    fn too_many_lines_and_too_long_ids_are_refused() {
        let line = r#"{"sku":"X","quantity":1}"#;
        assert!(detail(&format!(r#"{{"order_id":"A","lines":[{line},{line},{line},{line}]}}"#)).contains("4 lines"));
        let long = "x".repeat(MAX_ID_BYTES + 1);
        assert!(detail(&format!(r#"{{"order_id":"{long}","sku":"X","quantity":1}}"#)).contains("256 bytes"));
    }

    #[test]
    fn an_ignored_field_may_not_be_nested_without_end() {
        let deep =
            format!(r#"{{"order_id":"A","sku":"X","quantity":1,"x":{}{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
        assert_eq!(code(&deep), "json");
        assert!(detail(&deep).contains("recursion limit"), "{}", detail(&deep));
    }
}
