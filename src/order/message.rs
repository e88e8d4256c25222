//! PURE. The JSON form of an order, read strictly.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor};

use super::{InvalidCode, Malformed};

/// Reads one JSON value and nothing after it.
pub(super) fn read(text: &str) -> Result<Message, Malformed> {
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
pub(super) struct Message {
    pub(super) order_id: Option<String>,
    pub(super) sku: Option<String>,
    pub(super) quantity: Option<u64>,
    pub(super) lines: Option<Vec<MessageLine>>,
    pub(super) hold_seconds: Option<u64>,
}

pub(super) struct MessageLine {
    pub(super) sku: String,
    pub(super) quantity: u64,
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
                        "quantity" => message.quantity = seen.whole("quantity", &mut map)?,
                        "lines" => message.lines = seen.once("lines", &mut map)?,
                        "hold_seconds" => message.hold_seconds = seen.whole("hold_seconds", &mut map)?,
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
                        "quantity" => quantity = seen.whole("quantity", &mut map)?,
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

    fn whole<'de, A: MapAccess<'de>>(&mut self, field: &'static str, map: &mut A) -> Result<Option<u64>, A::Error> {
        Ok(self.once::<Whole, A>(field, map)?.map(|number| number.0))
    }
}

/// A whole number as JSON writes one. Whatever may have been rounded on its way (`1.0`, `1e3`) is none.
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number below 2^64, without fraction, exponent or quotes")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Whole, E> {
                let whole = u64::try_from(number).map(Whole);
                whole.map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            }
        }
        deserializer.deserialize_u64(Number)
    }
}

/// An object's key.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key(String);

/// A value or key of no interest. Unlike [`serde::de::IgnoredAny`] it descends through `deserialize_any`, so that what is no
/// JSON is refused wherever it stands: serde_json's depth limit of 128, halves of surrogate pairs, numbers out of range.
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
        while map.next_key::<Skipped>()?.is_some() {
            map.next_value::<Skipped>()?;
        }
        Ok(self)
    }
}
