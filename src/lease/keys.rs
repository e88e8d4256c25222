//! PURE. Names of keys, and the text of a lease.
//!
//! A SKU is percent-encoded, so that braces, colons, spaces and whatever else it holds cannot move its keys to another
//! Cluster slot, nor make two SKUs one. The braces in a key are literal: both keys of a SKU live in one slot.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use uuid::Uuid;

use super::Attempt;
use crate::fence::{Epoch, FenceToken};
use crate::order::Sku;

/// All but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const LEASE: &str = "}:lease";

/// The names of keys under one prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// No SKU's: without braces.
    pub(super) fn probe(&self) -> String {
        format!("{}:probe", self.prefix)
    }

    pub(super) fn lease(&self, sku: &Sku) -> String {
        format!("{}:{{{}{LEASE}", self.prefix, encode(sku.as_str()))
    }

    pub(super) fn fence(&self, sku: &Sku) -> String {
        format!("{}:{{{}}}:fence", self.prefix, encode(sku.as_str()))
    }

    /// A pattern for `SCAN` that matches every lease under the prefix, whatever characters that has.
    pub(super) fn lease_pattern(&self) -> String {
        let mut pattern = String::new();
        for c in self.prefix.chars() {
            if r"*?[]\".contains(c) {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + ":{*" + LEASE
    }

    /// The SKU whose lease has this key; `None` when no lease of ours does.
    pub(super) fn sku(&self, lease_key: &str) -> Option<Sku> {
        let encoded = lease_key.strip_prefix(&self.prefix)?.strip_prefix(":{")?.strip_suffix(LEASE)?;
        Sku::new(&decode(encoded)?).ok()
    }
}

/// Any text as one word without spaces; never empty.
pub(super) fn word(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { encode(text) }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn decode(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

/// The value of a lease key: `attempt holder incarnation epoch sequence`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct LeaseText {
    pub(super) attempt: Attempt,
    pub(super) holder: String,
    pub(super) incarnation: String,
    pub(super) token: FenceToken,
}

impl LeaseText {
    /// Reads what `acquire.lua` wrote; `None` for anything else.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let mut words = value.split(' ');
        let mut word = || words.next();
        let text = Self {
            attempt: Attempt(Uuid::try_parse(word()?).ok()?),
            holder: decode(word()?)?,
            incarnation: word()?.to_owned(),
            token: parse_token(word()?, word()?)?,
        };
        words.next().is_none().then_some(text)
    }
}

/// Reads a token from its two decimal numbers; `None` where they are none.
pub(super) fn parse_token(epoch: &str, sequence: &str) -> Option<FenceToken> {
    FenceToken::new(Epoch::new(epoch.parse().ok()?).ok()?, sequence.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sku(text: &str) -> Sku {
        Sku::new(text).expect("a sku")
    }

    #[test]
    fn both_keys_of_a_sku_stand_in_one_slot_whatever_it_holds() {
        let keys = Keys::new("lastunit");
        assert_eq!(keys.lease(&sku("SNKR-42")), "lastunit:{SNKR-42}:lease");
        assert_eq!(keys.fence(&sku("a}b{c:d e")), "lastunit:{a%7Db%7Bc%3Ad%20e}:fence");
        assert_eq!(keys.lease(&sku("é%")), "lastunit:{%C3%A9%25}:lease");
    }

    #[test]
    fn a_sku_is_read_back_from_its_key_and_strangers_are_not() {
        let keys = Keys::new("shop:eu");
        for text in ["SNKR-42", "a}b{c:d e", "é%", "}:lease", "85123A "] {
            assert_eq!(keys.sku(&keys.lease(&sku(text))), Some(sku(text)));
        }
        for key in ["shop:eu:{x}:fence", "shop:{x}:lease", "other:{x}:lease", "shop:eu:{}:lease", "shop:eu:{%FF}:lease"]
        {
            assert_eq!(keys.sku(key), None, "{key}");
        }
    }

    #[test]
    fn the_pattern_takes_the_prefix_literally() {
        assert_eq!(Keys::new("a*[b]?").lease_pattern(), r"a\*\[b\]\?:{*}:lease");
    }

    #[test]
    fn a_lease_is_read_back_from_its_value() {
        let attempt = Attempt::new();
        let value = format!("{} {} abc 3 17", attempt.0, word("pod 1/é"));
        let lease = LeaseText::parse(&value).expect("a lease");
        assert_eq!(
            (lease.attempt, lease.holder.as_str(), lease.token.to_string()),
            (attempt, "pod 1/é", "3.17".into())
        );
        for broken in ["", "x h i 1 1", &format!("{} h i 1", attempt.0), &format!("{value} more")] {
            assert_eq!(LeaseText::parse(broken), None, "{broken}");
        }
    }
}
