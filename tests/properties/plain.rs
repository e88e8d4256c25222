//! A plain reading of an order: the text becomes a tree, then one rule of `docs/MESSAGES.md` after the other is asked.
//! Slow, obvious, and written without the parser. The fuzz target includes this file, too.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::order::{self, InvalidCode, Limits};

/// JSON that forgets nothing which matters here: fields that repeat, and which numbers are whole.
pub enum Tree {
    Null,
    Bool,
    /// `None`: negative, with a fraction or an exponent, or too large for 64 bits.
    Number(Option<u64>),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

/// What an order says, lines summed where a SKU is first seen.
#[derive(Debug, Eq, PartialEq)]
pub struct Plain {
    pub id: String,
    pub lines: Vec<(String, i64)>,
    pub hold_seconds: Option<u64>,
}

/// The tree of a body; `None` when it is no JSON text in UTF-8.
pub fn tree(body: &[u8]) -> Option<Tree> {
    let text = std::str::from_utf8(body).ok()?;
    serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)).ok()
}

/// Reads an order; `None` when it is none.
pub fn read(body: &[u8], limits: &Limits) -> Option<Plain> {
    if body.len() > limits.max_bytes {
        return None;
    }
    let Tree::Object(fields) = tree(body)? else { return None };
    let known = ["order_id", "sku", "quantity", "lines", "hold_seconds"];
    let [id, sku, quantity, lines, hold] = known.map(|name| field(&fields, name));
    let id = is_id(text(id?)?)?;
    let sent = match (sku?, quantity?, lines?) {
        (Tree::Null, Tree::Null, Tree::List(lines)) => lines.iter().map(line).collect::<Option<Vec<_>>>()?,
        (sku, quantity, Tree::Null) => vec![(text(sku)?, whole(quantity)?)],
        _ => return None,
    };
    if sent.is_empty() || sent.len() > limits.max_lines {
        return None;
    }
    let hold_seconds = match hold? {
        Tree::Null => None,
        hold => Some(whole(hold).filter(|seconds| *seconds <= 315_360_000)?),
    };
    Some(Plain { id, lines: sum(&sent, limits)?, hold_seconds })
}

/// Asserts that the parser takes a body for the same as the plain reading does, and that its code fits.
///
/// # Panics
/// When they differ.
pub fn expect_same(body: &[u8], limits: &Limits) {
    let parsed = order::parse(body, limits);
    let found = parsed.as_ref().ok().map(|order| Plain {
        id: order.id.to_string(),
        lines: order.lines.iter().map(|line| (line.sku.to_string(), line.quantity)).collect(),
        hold_seconds: order.hold.map(|hold| hold.as_secs()),
    });
    assert_eq!(found, read(body, limits), "{:?}", String::from_utf8_lossy(body));
    let Err(malformed) = parsed else { return };
    let fits = match malformed.code {
        InvalidCode::TooLarge => body.len() > limits.max_bytes,
        InvalidCode::Encoding => std::str::from_utf8(body).is_err(),
        InvalidCode::Json => tree(body).is_none(),
        // The parser stops at the first fault: behind it may stand what is no JSON.
        InvalidCode::Order => std::str::from_utf8(body).is_ok(),
        InvalidCode::ConflictingDuplicate | InvalidCode::UnsupportedType => false,
    };
    assert!(fits && !malformed.detail.is_empty(), "{malformed}: {:?}", String::from_utf8_lossy(body));
}

/// A field that is absent is null; one that comes twice makes the whole object void.
fn field<'a>(fields: &'a [(String, Tree)], name: &str) -> Option<&'a Tree> {
    let mut values = fields.iter().filter(|(found, _)| found == name).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (None, _) => Some(&Tree::Null),
        (Some(value), None) => Some(value),
        (Some(_), Some(_)) => None,
    }
}

fn line(line: &Tree) -> Option<(&str, u64)> {
    let Tree::Object(fields) = line else { return None };
    Some((text(field(fields, "sku")?)?, whole(field(fields, "quantity")?)?))
}

fn sum(sent: &[(&str, u64)], limits: &Limits) -> Option<Vec<(String, i64)>> {
    let most = limits.max_quantity.unsigned_abs();
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (sku, quantity) in sent {
        let sum = sums.entry(is_id(sku).map(|_| *sku)?).or_default();
        *sum = sum.checked_add(*quantity).filter(|sum| *quantity > 0 && *sum <= most)?;
    }
    let mut lines: Vec<(String, i64)> = Vec::new();
    for (sku, _) in sent {
        if !lines.iter().any(|(seen, _)| seen == sku) {
            lines.push(((*sku).to_owned(), i64::try_from(sums[sku]).ok()?));
        }
    }
    Some(lines)
}

fn is_id(text: &str) -> Option<String> {
    let plain = (1..=255).contains(&text.len()) && !text.contains(|c: char| c.is_control());
    plain.then(|| text.to_owned())
}

fn text(value: &Tree) -> Option<&str> {
    if let Tree::Text(text) = value { Some(text) } else { None }
}

fn whole(value: &Tree) -> Option<u64> {
    if let Tree::Number(number) = value { *number } else { None }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Grow)
    }
}

struct Grow;

impl<'de> Visitor<'de> for Grow {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Bool)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Number(Some(number)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Number(u64::try_from(number).ok()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Number(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Object(fields))
    }
}
