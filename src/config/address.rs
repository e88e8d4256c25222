//! A service's URL, which never shows its password.

use std::fmt;

use percent_encoding::percent_decode_str;
use serde::Deserialize;

const UNENCODED: &str = "in names and passwords write / as %2F, ? as %3F, # as %23, @ as %40, : as %3A and % as %25";

/// A service's URL. Printing it, for people or for debugging, never shows the password.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

impl Address {
    /// Wraps a URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The URL with its password: for opening a connection, never for printing.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// The scheme, in lower case: what stands before the first colon.
    #[must_use]
    pub fn scheme(&self) -> String {
        self.0.split(':').next().unwrap_or_default().to_ascii_lowercase()
    }

    /// Why it is no URL. Lists of hosts and files are not looked at here: no URL library reads them.
    pub(super) fn fault(&self) -> Option<String> {
        let scheme = self.scheme();
        if scheme == "sqlite" || scheme.contains('+') {
            return None;
        }
        match url::Url::parse(&self.0) {
            Ok(url) if !url.has_authority() => Some("// is missing after the scheme".to_owned()),
            // A password with such a character ends the host, or the host begins too early.
            Ok(url) if url.fragment().is_some() || url.path().contains('@') => Some(UNENCODED.to_owned()),
            Ok(_) => None,
            Err(fault) if self.0.contains('@') => Some(format!("{fault}; {UNENCODED}")),
            Err(fault) => Some(fault.to_string()),
        }
    }

    /// Whether it is SQLite's, and names no file: such a database is gone with its connection.
    pub(super) fn is_in_memory(&self) -> bool {
        let place = self.0.split_once(':').filter(|_| self.scheme() == "sqlite").map(|(_, place)| place);
        place.is_some_and(|place| {
            let (name, options) = place.split_once('?').unwrap_or((place, ""));
            let name = percent_decode_str(name.trim_start_matches("//")).decode_utf8_lossy();
            let mut options = url::form_urlencoded::parse(options.as_bytes());
            ["", ":memory:"].contains(&&*name) || options.any(|option| option == ("mode".into(), "memory".into()))
        })
    }

    /// Whether the host is this one: a loopback address, `localhost`, or none at all.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let Ok(url) = url::Url::parse(&self.0) else { return false };
        match url.host_str() {
            None | Some("" | "localhost") => true,
            Some(host) => host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        }
    }
}

/// A text that may quote URLs, without what they hide: from each `://` on, what stands before the last `@` of the line, and
/// queries.
pub(super) fn without_passwords(text: &str) -> String {
    let shown = |line: &str| {
        let Some((before, after)) = line.split_once("://") else { return line.to_owned() };
        let (who, rest) = after.rsplit_once('@').map_or((None, after), |(who, rest)| (Some(who), rest));
        let user = who.map(|who| format!("{}:***@", who.split(':').next().unwrap_or_default()));
        // A query ends where the URL does.
        let place = rest.split_once('?').map(|(place, query)| {
            let end = query.find([' ', '"', '\'', '`', ',']).unwrap_or(query.len());
            format!("{place}?***{}", &query[end..])
        });
        format!("{before}://{}{}", user.unwrap_or_default(), place.as_deref().unwrap_or(rest))
    };
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://") else { return f.write_str("(not a URL)") };
        // What stands before the last @ may hold a secret; so may a query.
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let place = place.split('?').next().unwrap_or_default();
        let user = rest.rsplit_once('@').map(|(who, _)| who.split(':').next().unwrap_or_default());
        match user {
            Some(user) => write!(f, "{scheme}://{user}:***@{place}"),
            None => write!(f, "{scheme}://{place}"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
