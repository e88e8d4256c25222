//! The last line of a program that fails.

use chrono::{SecondsFormat, Utc};
use serde_json::json;

use crate::config::LogFormat;

/// Says on standard error why the program ends, in the form of its log lines; whatever `log.filter` keeps back, this is
/// shown.
pub fn fatal(format: LogFormat, message: &str, exit_code: u8) {
    match format {
        LogFormat::Pretty => eprintln!("lastunit: {message}"),
        LogFormat::Json => eprintln!("{}", line(message, exit_code)),
    }
}

fn line(message: &str, exit_code: u8) -> serde_json::Value {
    let timestamp = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
    json!({ "timestamp": timestamp, "level": "ERROR", "message": message, "exit_code": exit_code })
}
