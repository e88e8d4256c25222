//! PURE. Fencing tokens: what they are made of and how they compare.
//!
//! A token is one positive 64-bit integer, `epoch << 40 | sequence`. The **epoch** is owned by the database: it lives in
//! the high bits of `stock.fence_token` and rises with every recovery. The **sequence** is handed out by Redis, which is
//! never trusted to remember it. `docs/PROTOCOL.md` explains why this survives whatever Redis forgets.

use std::fmt;

const SEQUENCE_BITS: u32 = 40;
const MAX_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;
const MAX_EPOCH: u32 = (1 << (63 - SEQUENCE_BITS)) - 1;

/// A number cannot be part of a token, or a SKU has used up its epochs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{part} {value} is outside of what a fence token can hold")]
pub struct OutOfRange {
    /// `epoch`, `sequence` or `token`.
    pub part: &'static str,
    /// The number.
    pub value: i128,
}

/// How often a SKU's counter was recovered. From 0 to 2^23 − 1.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Epoch(u32);

impl Epoch {
    /// The largest epoch; a SKU that reached it needs an operator (`audit` warns at half).
    pub const MAX: Self = Self(MAX_EPOCH);

    /// Checks the range.
    ///
    /// # Errors
    /// [`OutOfRange`] above 2^23 − 1.
    pub fn new(value: u64) -> Result<Self, OutOfRange> {
        match u32::try_from(value) {
            Ok(epoch) if epoch <= MAX_EPOCH => Ok(Self(epoch)),
            _ => Err(OutOfRange { part: "epoch", value: value.into() }),
        }
    }

    /// The epoch that a recovery moves to.
    ///
    /// # Errors
    /// [`OutOfRange`] after the last epoch.
    pub fn next(self) -> Result<Self, OutOfRange> {
        Self::new(u64::from(self.0) + 1)
    }

    /// As a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The token that a recovery writes into the stock row: sequence 0, which Redis never hands out. Every token of an
    /// earlier epoch is below it and is refused from then on, used or not.
    #[must_use]
    pub const fn floor(self) -> FenceToken {
        FenceToken(((self.0 as u64) << SEQUENCE_BITS).cast_signed())
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fencing token. One token authorises one commit on one SKU.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FenceToken(i64);

impl FenceToken {
    /// Below every token that is ever handed out: the fence of a new stock row.
    pub const ZERO: Self = Self(0);

    /// Puts a token together.
    ///
    /// # Errors
    /// [`OutOfRange`] when the sequence is above 2^40 − 1.
    pub fn new(epoch: Epoch, sequence: u64) -> Result<Self, OutOfRange> {
        if sequence > MAX_SEQUENCE {
            return Err(OutOfRange { part: "sequence", value: sequence.into() });
        }
        Ok(Self((u64::from(epoch.0) << SEQUENCE_BITS | sequence).cast_signed()))
    }

    /// Reads the database's number.
    ///
    /// # Errors
    /// [`OutOfRange`] below zero.
    pub fn from_row(value: i64) -> Result<Self, OutOfRange> {
        if value < 0 { Err(OutOfRange { part: "token", value: value.into() }) } else { Ok(Self(value)) }
    }

    /// The database's number.
    #[must_use]
    pub const fn to_row(self) -> i64 {
        self.0
    }

    /// The part owned by the database.
    #[must_use]
    pub const fn epoch(self) -> Epoch {
        Epoch((self.0 >> SEQUENCE_BITS) as u32)
    }

    /// The part handed out by Redis.
    #[must_use]
    pub const fn sequence(self) -> u64 {
        self.0.cast_unsigned() & MAX_SEQUENCE
    }

    /// The fence predicate, as the commit's SQL has it: a token passes a row that holds a lower one. Strict, so that one
    /// token authorises one commit.
    #[must_use]
    pub fn passes(self, row: Self) -> bool {
        row < self
    }
}

/// Written as `epoch.sequence`.
impl fmt::Display for FenceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.sequence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(epoch: u64, sequence: u64) -> FenceToken {
        FenceToken::new(Epoch::new(epoch).expect("epoch"), sequence).expect("sequence")
    }

    #[test]
    fn a_later_epoch_is_above_every_sequence_of_an_earlier_one() {
        assert!(token(1, MAX_SEQUENCE) < Epoch::new(2).expect("epoch").floor());
        assert!(Epoch::new(2).expect("epoch").floor() < token(2, 1));
    }

    #[test]
    fn one_token_passes_a_fence_once() {
        assert!(token(0, 1).passes(FenceToken::ZERO));
        assert!(!token(0, 1).passes(token(0, 1)));
        assert!(!token(0, 1).passes(token(0, 2)));
    }

    #[test]
    fn a_token_survives_the_way_into_a_row_and_back() {
        let last = token(u64::from(MAX_EPOCH), MAX_SEQUENCE);
        assert_eq!(last.to_row(), i64::MAX);
        assert_eq!(FenceToken::from_row(last.to_row()), Ok(last));
        assert_eq!((last.epoch(), last.sequence()), (Epoch::MAX, MAX_SEQUENCE));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Epoch::MAX.next().is_err());
        assert!(FenceToken::new(Epoch::MAX, MAX_SEQUENCE + 1).is_err());
        assert!(FenceToken::from_row(-1).is_err());
    }
}
