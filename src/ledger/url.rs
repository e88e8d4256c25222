//! `database.url` in two parts: what may be shown, and the password.
//!
//! SeaORM shows the URL that it is given: in errors, and in its traces, with all options. So it never gets the password,
//! which goes to the driver past it.

use percent_encoding::percent_decode_str;
use url::Url;

use crate::config;

/// The URL for SeaORM, and the password for the driver.
pub(super) fn split(address: &config::Address) -> (String, Option<String>) {
    let url = address.secret();
    // The drivers know one name for each scheme.
    let url = match address.scheme().as_str() {
        "postgresql" => url.replacen("postgresql:", "postgres:", 1),
        "mariadb" => url.replacen("mariadb:", "mysql:", 1),
        _known => url.to_owned(),
    };
    match Url::parse(&url) {
        Ok(parsed) if address.scheme() != "sqlite" => without_password(parsed),
        // A file has no password. What cannot be read was refused with the settings.
        _ => (url, None),
    }
}

fn without_password(mut url: Url) -> (String, Option<String>) {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut password = url.password().map(decoded);
    if url.set_password(None).is_err() {
        // Without a host there is none to take away.
        password = None;
    }
    let is_secret = |key: &str| key.contains("password");
    if url.query_pairs().any(|(key, _)| is_secret(&key)) {
        let pairs: Vec<_> = url.query_pairs().into_owned().collect();
        // PostgreSQL's driver reads it there, after the one before the host.
        password = pairs.iter().rfind(|(key, _)| key == "password").map(|(_, value)| value.clone()).or(password);
        url.query_pairs_mut().clear().extend_pairs(pairs.iter().filter(|(key, _)| !is_secret(key)));
    }
    (url.into(), password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_seaorm_gets_holds_no_password() {
        for (given, shown, password) in [
            ("postgresql://u:p%2F%40w@host:5/db", "postgres://u@host:5/db", Some("p/@w")),
            ("mariadb://u:pw@host/db?ssl-mode=REQUIRED", "mysql://u@host/db?ssl-mode=REQUIRED", Some("pw")),
            ("postgres://host/db?password=p%26w&user=u", "postgres://host/db?user=u", Some("p&w")),
            ("postgres://u:pw@host/db?sslpassword=x", "postgres://u@host/db?", Some("pw")),
            ("postgres://u@host/db", "postgres://u@host/db", None),
            ("sqlite://lastunit.db?mode=rwc", "sqlite://lastunit.db?mode=rwc", None),
        ] {
            assert_eq!(split(&config::Address::new(given)), (shown.to_owned(), password.map(str::to_owned)));
        }
    }
}
