//! PURE. The detail of a dead letter as JSON text of bounded size.

use serde_json::{Map, Value};

/// The longest detail, bytes.
pub(super) const MAX_BYTES: usize = 4 << 10;
/// Each round halves the longest field or drops it; what still does not fit then has too many fields to be worth it.
const MAX_ROUNDS: usize = 100;
/// Says that something was left out.
const CUT: &str = "truncated";

/// Writes the detail. One that is too long loses the ends of its longest fields, stays valid JSON, and says so in a field
/// `truncated`.
pub(super) fn write(detail: &Value) -> String {
    let whole = detail.to_string();
    if whole.len() <= MAX_BYTES {
        return whole;
    }
    let mut fields = match detail {
        Value::Object(fields) => fields.clone(),
        other => Map::from_iter([("detail".to_owned(), other.clone())]),
    };
    for _ in 0..MAX_ROUNDS {
        let longest = fields.iter().max_by_key(|(name, value)| name.len() + value.to_string().len());
        let Some(name) = longest.map(|(name, _)| name.clone()) else { break };
        if let Some(half) = fields.remove(&name).and_then(halve) {
            fields.insert(name, half);
        }
        let text = with_mark(&fields);
        if text.len() <= MAX_BYTES {
            return text;
        }
    }
    with_mark(&Map::new())
}

fn with_mark(fields: &Map<String, Value>) -> String {
    let mut marked = fields.clone();
    marked.insert(CUT.to_owned(), Value::Bool(true));
    Value::Object(marked).to_string()
}

/// The first half of a value that has one.
fn halve(value: Value) -> Option<Value> {
    match value {
        Value::String(text) if !text.is_empty() => Some(super::headers::head(&text, text.len() / 2).into()),
        Value::Array(mut values) if !values.is_empty() => {
            values.truncate(values.len() / 2);
            Some(Value::Array(values))
        }
        Value::String(_) | Value::Array(_) | Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cut(detail: &Value) -> Value {
        let text = write(detail);
        assert!(text.len() <= MAX_BYTES, "{} bytes", text.len());
        serde_json::from_str(&text).expect("valid JSON")
    }

    #[test]
    fn a_short_detail_is_written_as_it_is() {
        let detail = json!({"short": [{"sku": "A", "requested": 2, "available": 1}]});
        assert_eq!(cut(&detail), detail);
    }

    #[test]
    fn a_long_list_keeps_its_beginning_and_the_other_fields() {
        let short: Vec<_> = (0..2000).map(|n| json!({"sku": format!("SKU-{n}"), "requested": 1})).collect();
        let written = cut(&json!({"order_id": "A-1", "short": short}));
        assert_eq!(written["order_id"], "A-1");
        assert_eq!(written["short"][0], json!({"sku": "SKU-0", "requested": 1}));
        assert_eq!(written[CUT], true);
    }

    #[test]
    fn texts_are_cut_between_characters_and_whatever_else_still_fits() {
        for detail in [
            json!("é\u{1}\"".repeat(5000)),
            json!({"fault": "語".repeat(9000), "code": "order"}),
            json!({"nested": {"deep": "x".repeat(9000)}}),
            json!({"x".repeat(9000): 1}),
            json!(vec!["y".repeat(5000); 3]),
            json!((0..3000).map(|n| (n.to_string(), json!(n))).collect::<Map<_, _>>()),
        ] {
            assert_eq!(cut(&detail)[CUT], true);
        }
    }
}
