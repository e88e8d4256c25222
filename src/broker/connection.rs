//! Opening connections, time limits, and what an error means for the caller.

use std::future::Future;
use std::time::Duration;

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties, ErrorKind};

use super::Error;
use crate::config;

/// A peer that is silent for twice this time is gone, seconds. The broker's own proposal (60) would let a half-open
/// connection look alive for two minutes.
const HEARTBEAT_SECONDS: u16 = 10;

/// Opens a connection that the broker's overview shows as `PREFIX ROLE on HOST (PID)`.
pub(crate) async fn open(settings: &config::Broker, role: &str) -> Result<Connection, Error> {
    let host = gethostname::gethostname();
    let name = format!("{} {role} on {} ({})", settings.name_prefix, host.to_string_lossy(), std::process::id());
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let runtime = lapin::runtime::default_runtime().map_err(|fault| classify("starting a connection", &fault))?;
    let tls = tls(settings).await?;
    let connecting = lapin::Connect::connect_with_config(address(&settings.url)?, properties, tls, runtime);
    let opened =
        within(settings.call_timeout_ms.duration(), &format!("connecting to {}", settings.url), connecting).await;
    opened.map_err(|error| explain_handshake(settings, explain_refusal(error)))
}

/// What a broker refuses at the door: the login, or the virtual host.
fn explain_refusal(error: Error) -> Error {
    let Error::Refused(text) = error else { return error };
    let hint = if text.contains("vhost") {
        // By its standard, a URL that ends in a slash names the virtual host that has no name.
        "correct the virtual host at the end of broker.url: /%2f is the one named \"/\", as is nothing at all, but not a \
         slash alone; or let the user have it (rabbitmqctl set_permissions)"
    } else {
        "correct user and password in broker.url; in them @ : / ? # and % must be percent-encoded"
    };
    Error::Refused(format!("{text}. To mend: {hint}"))
}

/// What is wrong with the settings shows in a TLS handshake, which the library passes on as an I/O error.
fn explain_handshake(settings: &config::Broker, error: Error) -> Error {
    let Error::Unavailable(text) = error else { return error };
    if text.contains("invalid peer certificate") {
        return Error::Refused(format!(
            "the broker's certificate is not trusted: name its authority in broker.tls_ca, and its host as the certificate \
             does in broker.url ({text})"
        ));
    }
    let is_encrypted = settings.url.scheme() == "amqps";
    let hint = config::certificate_hint("broker", is_encrypted, &settings.tls_client_cert, &text);
    Error::Unavailable(text + &hint.unwrap_or_default())
}

fn address(url: &config::Address) -> Result<AMQPUri, Error> {
    // The parser's own complaint may show the password.
    let unreadable = |_| Error::Refused(format!("broker.url {url} cannot be read"));
    let mut uri: AMQPUri = url.secret().parse().map_err(unreadable)?;
    // The parser takes an IPv6 literal for no host at all, and goes to localhost.
    let host = url::Url::parse(url.secret()).ok().and_then(|parsed| parsed.host_str().map(str::to_owned));
    if let Some(literal) = host.as_deref().and_then(|host| host.strip_prefix('[')?.strip_suffix(']')) {
        literal.clone_into(&mut uri.authority.host);
    }
    uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
    Ok(uri)
}

async fn tls(settings: &config::Broker) -> Result<OwnedTLSConfig, Error> {
    let cert_chain = match settings.tls_ca.as_str() {
        "" => None,
        file => {
            let pem = read("broker.tls_ca", file).await?;
            Some(String::from_utf8(pem).map_err(|_| Error::Refused(format!("broker.tls_ca: {file} is not PEM")))?)
        }
    };
    let identity = match (settings.tls_client_cert.as_str(), settings.tls_client_key.as_str()) {
        ("", "") => None,
        (cert, key) => Some(OwnedIdentity::PKCS8 {
            pem: read("broker.tls_client_cert", cert).await?,
            key: read("broker.tls_client_key", key).await?,
        }),
    };
    Ok(OwnedTLSConfig { identity, cert_chain })
}

async fn read(setting: &str, file: &str) -> Result<Vec<u8>, Error> {
    tokio::fs::read(file).await.map_err(|fault| Error::Refused(format!("{setting}: {file:?} cannot be read: {fault}")))
}

/// Waits for a call to the broker, but not for ever: an answer may be lost, or held back by an alarm.
pub(super) async fn within<T>(
    limit: Duration,
    doing: &str,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(|fault| classify(doing, &fault)),
        Err(_) => Err(Error::Unavailable(format!("{doing}: no answer within {} ms", limit.as_millis()))),
    }
}

/// Whether it makes sense to try again.
pub(super) fn classify(doing: &str, fault: &lapin::Error) -> Error {
    let ErrorKind::ProtocolError(told) = fault.kind() else {
        return Error::Unavailable(format!("{doing}: {fault}"));
    };
    let text = format!("{doing}: {}", text(fault));
    match told.kind() {
        AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => {
            Error::Topology(format!("{text}. To mend: run `lastunit topology`, which declares exchanges and queues"))
        }
        AMQPErrorKind::Soft(
            AMQPSoftError::ACCESSREFUSED | AMQPSoftError::CONTENTTOOLARGE | AMQPSoftError::PRECONDITIONFAILED,
        )
        | AMQPErrorKind::Hard(AMQPHardError::INVALIDPATH | AMQPHardError::NOTALLOWED) => Error::Refused(text),
        // Locked, forced to close, short of something: it may pass.
        AMQPErrorKind::Soft(_) | AMQPErrorKind::Hard(_) => Error::Unavailable(text),
    }
}

/// What the broker said, or what went wrong on the way.
pub(super) fn text(fault: &lapin::Error) -> String {
    match fault.kind() {
        ErrorKind::ProtocolError(told) => told.get_message().to_string(),
        _ => fault.to_string(),
    }
}

/// Whether the fault lies in the bytes of a message that the client library could not read.
pub(super) fn is_unreadable(fault: &lapin::Error) -> bool {
    matches!(fault.kind(), ErrorKind::ParsingError(_))
}

/// Whether the broker says that something does not exist.
pub(super) fn is_missing(fault: &lapin::Error) -> bool {
    told(fault, AMQPSoftError::NOTFOUND)
}

/// Whether the broker says that something exists, but otherwise.
pub(super) fn is_different(fault: &lapin::Error) -> bool {
    told(fault, AMQPSoftError::PRECONDITIONFAILED)
}

fn told(fault: &lapin::Error, soft: AMQPSoftError) -> bool {
    matches!(fault.kind(), ErrorKind::ProtocolError(told) if *told.kind() == AMQPErrorKind::Soft(soft))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(url: &str) -> String {
        address(&config::Address::new(url)).map(|uri| uri.authority.host).unwrap_or_default()
    }

    #[test]
    fn an_ipv6_literal_is_not_taken_for_localhost() {
        assert_eq!(host("amqp://guest:guest@[2001:db8::7]:5672/%2f"), "2001:db8::7");
        assert_eq!(host("amqp://guest:guest@127.0.0.1:5672/%2f"), "127.0.0.1");
        assert_eq!(host("amqp://broker.example/%2f"), "broker.example");
    }

    #[test]
    fn an_unreadable_url_does_not_show_its_password() {
        let fault = address(&config::Address::new("amqp:guest:secret@x")).map(drop);
        assert!(fault.is_err_and(|fault| !fault.to_string().contains("secret")));
    }

    #[test]
    fn a_silent_peer_is_noticed_unless_the_url_says_otherwise() {
        let heartbeat = |url: &str| address(&config::Address::new(url)).ok().and_then(|uri| uri.query.heartbeat);
        assert_eq!(heartbeat("amqp://h/%2f"), Some(HEARTBEAT_SECONDS));
        assert_eq!(heartbeat("amqp://h/%2f?heartbeat=33"), Some(33));
    }
}
