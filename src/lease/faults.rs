//! What an error of the Redis library means for the caller, and for the connection.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::Error;

/// Codes of a server that will do it later: it loads, is full, cannot save, runs a long script, or fails over.
const PASSING: [&str; 11] = [
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MOVED",
    "ASK",
    "OOM",
    "MISCONF",
    "BUSY",
    "NOREPLICAS",
];

/// A script is not in the server's cache: the server says so instead of running it.
pub(super) fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Whether to connect anew before the next command: the link is broken, or stuck, or leads to a server that is no
/// longer the master.
pub(super) fn ends_link(error: &RedisError) -> bool {
    let moved = ErrorKind::Server(ServerErrorKind::ReadOnly);
    let masterless = ErrorKind::Server(ServerErrorKind::MasterDown);
    error.is_io_error() || error.is_unrecoverable_error() || [moved, masterless].contains(&error.kind())
}

/// Tells what passes by itself from what somebody has to mend.
pub(super) fn classify(error: &RedisError) -> Error {
    match error.kind() {
        ErrorKind::Io if is_bad_certificate(error) => Error::Failed(format!(
            "the server's certificate is not trusted: name its authority in redis.tls_ca ({})",
            describe(error)
        )),
        ErrorKind::Io => Error::Unavailable(describe(error)),
        ErrorKind::ClusterConnectionNotFound | ErrorKind::NoValidReplicasFoundBySentinel => {
            Error::Unavailable(describe(error))
        }
        ErrorKind::MasterNameNotFoundBySentinel => Error::Unavailable(format!(
            "the sentinels know no master of the name in redis.url that says it is one ({})",
            describe(error)
        )),
        ErrorKind::AuthenticationFailed => refused_credentials(error),
        _ => classify_code(error),
    }
}

/// By the code that the server sent.
fn classify_code(error: &RedisError) -> Error {
    match error.code().unwrap_or_default() {
        code if PASSING.contains(&code) => Error::Unavailable(describe(error)),
        "NOAUTH" | "WRONGPASS" => refused_credentials(error),
        "NOPERM" => Error::Failed(format!(
            "the user of redis.url may not do this: grant it +eval +evalsha +info +time +get +mget +set +del +pttl \
             +pexpire +hmget +hset +scan on its key prefix ({})",
            describe(error)
        )),
        "NOINCARNATION" => Error::Failed(
            "the server does not tell its run_id and master_replid to a script: grant +info to the user of redis.url, do \
             not rename INFO, and use Redis 7.0 or later"
                .into(),
        ),
        "ERR" if describe(error).contains("max number of clients") => Error::Unavailable(describe(error)),
        _ => Error::Failed(describe(error)),
    }
}

fn refused_credentials(error: &RedisError) -> Error {
    Error::Failed(format!("the server refused user or password: correct them in redis.url ({})", describe(error)))
}

/// A handshake that would fail again; the library passes it on as an I/O error.
fn is_bad_certificate(error: &RedisError) -> bool {
    error.to_string().contains("invalid peer certificate")
}

/// One line. The library's errors hold no credentials.
fn describe(error: &RedisError) -> String {
    error.to_string().replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: &str) -> RedisError {
        redis::make_extension_error(code.to_owned(), Some("detail".to_owned()))
    }

    #[test]
    fn what_a_fail_over_or_a_full_server_says_passes_by_itself() {
        for code in PASSING {
            assert!(matches!(classify(&server(code)), Error::Unavailable(_)), "{code}");
        }
        let timeout = RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        assert!(matches!(classify(&timeout), Error::Unavailable(_)));
        assert!(ends_link(&timeout));
    }

    #[test]
    fn what_an_operator_must_mend_says_how() {
        for (code, remedy) in
            [("NOAUTH", "redis.url"), ("WRONGPASS", "redis.url"), ("NOPERM", "+info"), ("NOINCARNATION", "+info")]
        {
            let Error::Failed(text) = classify(&server(code)) else { panic!("{code}") };
            assert!(text.contains(remedy), "{text}");
        }
    }
}
