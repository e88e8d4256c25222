//! Printing results.

use std::fmt::Display;
use std::io::{ErrorKind, Write as _};

use anyhow::Context;

/// Prints a result and a line's end. A reader that has seen enough (`| head`) is no fault.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(result: impl Display) -> anyhow::Result<()> {
    match writeln!(std::io::stdout().lock(), "{result}") {
        Err(fault) if fault.kind() != ErrorKind::BrokenPipe => Err(fault).context("standard output"),
        Ok(()) | Err(_) => Ok(()),
    }
}
