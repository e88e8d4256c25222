//! PURE. W3C trace context as it comes in headers: what may be carried on.
//!
//! <https://www.w3.org/TR/trace-context/>: a `traceparent` that is not valid is ignored, and with it the `tracestate`; one
//! of a later version is carried on as it is.

/// The longest value that is carried on, bytes: the standard asks for 512 at least.
const MAX_BYTES: usize = 1024;
/// `version-trace_id-parent_id-flags`, bytes; only later versions may have more.
const LENGTH: usize = 2 + 1 + 32 + 1 + 16 + 1 + 2;

/// Whether this is a valid `traceparent`.
pub(super) fn is_parent(text: &str) -> bool {
    let fields: Vec<&str> = text.splitn(5, '-').collect();
    let [version, trace, parent, flags, rest @ ..] = &fields[..] else { return false };
    let is_hex = |field: &str, digits| {
        field.len() == digits && field.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |field: &str, digits| is_hex(field, digits) && field.bytes().any(|digit| digit != b'0');
    let whole = if *version == "00" { text.len() == LENGTH } else { text.len() <= MAX_BYTES };
    let known = is_hex(version, 2) && *version != "ff";
    known && is_id(trace, 32) && is_id(parent, 16) && is_hex(flags, 2) && whole && rest.len() <= 1
}

/// Whether this may be carried on as a `tracestate`. What it says is for others to read.
pub(super) fn is_state(text: &str) -> bool {
    (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_taken_as_the_standard_says() {
        assert!(is_parent(VALID));
        assert!(is_parent(&VALID.replace("00-", "cc-")), "a later version");
        assert!(is_parent(&format!("{}-what-comes-then", VALID.replace("00-", "cc-"))), "with more in it");
    }

    #[test]
    fn what_the_standard_calls_invalid_is_ignored() {
        let wrong = [
            String::new(),
            "00".into(),
            VALID.to_uppercase(),
            VALID.replace("00-", "ff-"),
            VALID.replace("00-", "0-"),
            VALID.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            VALID.replace("b7ad6b7169203331", &"0".repeat(16)),
            VALID.replace("b7ad6b7169203331", "b7ad6b716920333"),
            VALID.replace('c', "x"),
            VALID.replace("-01", "-1"),
            VALID.replace('-', "_"),
            format!("{VALID}-more"),
            format!("{VALID} "),
            format!("{}.", VALID.replace("00-", "cc-")),
            format!("{}-{}", VALID.replace("00-", "cc-"), "x".repeat(MAX_BYTES)),
        ];
        for text in wrong {
            assert!(!is_parent(&text), "{text:?}");
        }
    }

    #[test]
    fn a_state_is_printable_and_not_too_long() {
        assert!(is_state("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"));
        assert!(is_state(&"x".repeat(MAX_BYTES)));
        for text in [String::new(), "x".repeat(MAX_BYTES + 1), "a=\u{e9}".into(), "a=\r\nb".into()] {
            assert!(!is_state(&text), "{text:?}");
        }
    }
}
