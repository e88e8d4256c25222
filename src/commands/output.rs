//! Printing results: for people as text and tables, with `--json` for programs. An object is one line; a list is one object
//! per line.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, Write as _};

use anyhow::Context;
use serde::Serialize;

/// Prints a result and a line's end. A reader that has seen enough (`| head`) is no fault.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(result: impl Display) -> anyhow::Result<()> {
    print_bytes(format!("{result}\n").as_bytes())
}

/// Prints bytes as they are.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(fault) if fault.kind() != ErrorKind::BrokenPipe => Err(fault).context("standard output"),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints one JSON value on one line.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(serde_json::to_string(value)?)
}

/// Prints a list: one JSON value per line, nothing for none.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print_json_lines<T: Serialize>(values: impl IntoIterator<Item = T>) -> anyhow::Result<()> {
    values.into_iter().try_for_each(|value| print_json(&value))
}

/// `1 SKU`, `2 SKUs`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{ending}")
}

/// An id as people can tell it from others: quoted when its spaces, or characters that do not show, would be overlooked.
/// What strangers sent cannot steer the terminal.
pub fn shown(id: &str) -> Cow<'_, str> {
    let quoted = format!("{id:?}");
    let plain = quoted.get(1..quoted.len() - 1) == Some(id) && !id.is_empty() && id.trim() == id;
    if plain { Cow::Borrowed(id) } else { Cow::Owned(quoted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_look_like_others_are_quoted() {
        for plain in ["SNKR-42", "#1001", "85123a", "größe 42", "SKU's"] {
            assert_eq!(shown(plain), plain);
        }
        for (id, quoted) in [
            ("85123a ", "\"85123a \""),
            (" A", "\" A\""),
            ("", "\"\""),
            ("A\tB", "\"A\\tB\""),
            ("\u{1b}[2J", "\"\\u{1b}[2J\""),
            ("A\u{202e}B", "\"A\\u{202e}B\""),
            ("5\" pipe", "\"5\\\" pipe\""),
        ] {
            assert_eq!(shown(id), quoted);
        }
    }

    #[test]
    fn one_is_one_and_the_rest_are_many() {
        assert_eq!((counted(1_usize, "SKU"), counted(0_u64, "SKU")), ("1 SKU".to_owned(), "0 SKUs".to_owned()));
    }
}
