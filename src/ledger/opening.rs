//! Why a database could not be opened at start, in words that say what to do next.

use std::time::Duration;

use tokio::net::TcpStream;
use url::Url;

use super::Error;
use super::fault::Fault;
use crate::config;

/// How long a look at the server's port may take.
const LOOK: Duration = Duration::from_secs(3);

/// For the caller of a connection that was never opened.
pub(super) async fn explain(fault: Fault, settings: &config::Database) -> Error {
    let place = settings.url.to_string();
    let is_file = settings.url.scheme() == "sqlite";
    match fault {
        // SQLite's words for a path that leads nowhere, and for a file of another kind: neither mends itself.
        Fault::Denied(text) | Fault::Unavailable(text)
            if is_file && (text.contains("unable to open") || text.contains("not a database")) =>
        {
            Error::Denied(format!(
                "the database {place} cannot be opened: {text}. To mend: correct the path in database.url; the folder must be \
                 there and let this user write, the file must be SQLite's own, and ?mode=rwc makes a new one"
            ))
        }
        // The driver's word for an option of the URL that it does not know.
        Fault::Failed(text) if text.contains("error with configuration") => {
            Error::Denied(format!("database.url {place} cannot be used: {text}"))
        }
        Fault::Denied(text) => Error::Denied(format!(
            "the database {place} lets nobody in: {text}. To mend: correct database.url, create that user or database, or \
             name the client certificate that it may want in database.tls_client_cert"
        )),
        // The pool tries until its time is over, and then does not tell what it has met.
        Fault::NoConnection => match cause(&settings.url).await {
            Some(cause) => Error::Unavailable(format!("{place}: {cause}")),
            None => Fault::NoConnection.into_error(&place),
        },
        other => match other.into_error(&place) {
            // The drivers pass it on as an I/O error.
            Error::Unavailable(text) if text.contains("invalid peer certificate") => Error::Denied(format!(
                "the database's certificate is not trusted: name its authority in database.tls_ca, and its host as the \
                 certificate does in database.url ({text})"
            )),
            other => other,
        },
    }
}

/// What stands between us and the server's port; `None` when nothing does, or when it has none.
async fn cause(url: &config::Address) -> Option<String> {
    let (host, port) = port_of(url)?;
    match tokio::time::timeout(LOOK, TcpStream::connect((host.as_str(), port))).await {
        Ok(Ok(_open)) => None,
        Ok(Err(fault)) => Some(format!("connecting to {host} port {port}: {fault}")),
        Err(_) => Some(format!("connecting to {host} port {port}: no answer within {} s", LOOK.as_secs())),
    }
}

/// A server's host and port; none for a file or a socket in the file system.
fn port_of(url: &config::Address) -> Option<(String, u16)> {
    let usual = match url.scheme().as_str() {
        "postgres" | "postgresql" => 5432,
        "mysql" | "mariadb" => 3306,
        _file => return None,
    };
    let url = Url::parse(url.secret()).ok()?;
    let elsewhere = url.query_pairs().any(|(name, _)| ["host", "hostaddr", "port", "socket"].contains(&&*name));
    let host = url.host_str().map(|host| host.trim_matches(['[', ']'])).filter(|host| !host.contains(['%', '/']))?;
    (!elsewhere && !host.is_empty()).then(|| (host.to_owned(), url.port().unwrap_or(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_has_a_port() {
        let port = |url: &str| port_of(&config::Address::new(url));
        assert_eq!(port("postgres://u:p@db.example/shop"), Some(("db.example".into(), 5432)));
        assert_eq!(port("mysql://u:p@[::1]:3307/shop"), Some(("::1".into(), 3307)));
        assert_eq!(port("postgres://u@%2Frun%2Fpostgresql/shop"), None);
        assert_eq!(port("postgres://u@localhost/shop?host=/run/postgresql"), None);
        assert_eq!(port("sqlite://lastunit.db?mode=rwc"), None);
    }
}
