//! PURE. A message's body becomes an [`Order`], or the precise reason why it is none.
//!
//! Strict where a lenient reader would sell the wrong thing (duplicate fields, numbers as ids, fractions, positional
//! arrays), tolerant where nothing can go wrong (unknown fields, one byte order mark, a trailing newline).
//! `docs/MESSAGES.md` describes the format for its senders.

mod message;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};

use message::{Message, MessageLine};

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
    /// All codes, in the sequence of their declaration.
    pub const ALL: [Self; 6] =
        [Self::Json, Self::Encoding, Self::TooLarge, Self::Order, Self::ConflictingDuplicate, Self::UnsupportedType];

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
    let message = message::read(text)?;
    message.into_order(limits).map_err(|detail| Malformed::new(InvalidCode::Order, detail))
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
            _ => {
                let (sku, quantity, most) = (&line.sku, line.quantity, limits.max_quantity);
                return Err(format!("quantity of {sku:?} is {quantity}, more than {most}"));
            }
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

#[cfg(test)]
mod tests;
