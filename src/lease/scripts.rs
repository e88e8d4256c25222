//! The Lua scripts, how they are called, and what their replies mean.
//!
//! Each script is one text that serves any number of SKUs of one server.

use std::time::Duration;

use redis::{Cmd, Script as Text};

use super::keys::{Keys, parse_token};
use super::{Attempt, Cause, Error, Incarnation, Reply, Request, Seed};
use crate::order::Sku;

/// A script with its name in the server's cache.
#[derive(Debug)]
pub(super) struct Script {
    code: &'static str,
    hash: String,
}

/// What one call hands to a script.
#[derive(Debug, Default)]
pub(super) struct Call {
    keys: Vec<String>,
    arguments: Vec<String>,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hash: Text::new(code).get_hash().to_owned() }
    }

    /// Takes or continues leases.
    pub(super) fn acquire() -> Self {
        Self::new(concat!(include_str!("incarnation.lua"), "\n", include_str!("acquire.lua")))
    }

    /// Installs counters.
    pub(super) fn seed() -> Self {
        Self::new(concat!(include_str!("incarnation.lua"), "\n", include_str!("seed.lua")))
    }

    /// Gives leases back.
    pub(super) fn release() -> Self {
        Self::new(include_str!("release.lua"))
    }

    /// Reads leases.
    pub(super) fn inspect() -> Self {
        Self::new(concat!(include_str!("incarnation.lua"), "\n", include_str!("inspect.lua")))
    }

    /// A call by name: `NOSCRIPT` when the server does not have the script in its cache.
    pub(super) fn by_name(&self, call: &Call) -> Cmd {
        call.command("EVALSHA", &self.hash)
    }

    /// A call that carries the script along: it never meets `NOSCRIPT`, and leaves the script in the cache.
    pub(super) fn in_full(&self, call: &Call) -> Cmd {
        call.command("EVAL", self.code)
    }

    /// Puts the script into the cache, on every master of a Cluster.
    pub(super) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        load
    }
}

impl Call {
    fn command(&self, verb: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.arguments);
        command
    }

    pub(super) fn acquire(keys: &Keys, common: [String; 4], requests: &[Request]) -> Self {
        let mut call = Self { keys: Vec::with_capacity(requests.len() * 2), arguments: common.into() };
        for Request { sku, previous, floor } in requests {
            call.keys.extend([keys.lease(sku), keys.fence(sku)]);
            let previous = previous.map_or_else(String::new, |attempt| attempt.0.to_string());
            call.arguments.extend([previous, floor.epoch().to_string(), floor.sequence().to_string()]);
        }
        call
    }

    pub(super) fn seed(keys: &Keys, idle: Duration, seeds: &[Seed]) -> Self {
        let mut call = Self { keys: Vec::new(), arguments: vec![idle.as_millis().to_string()] };
        for Seed { sku, incarnation, epoch } in seeds {
            call.keys.push(keys.fence(sku));
            call.arguments.extend([incarnation.0.clone(), epoch.to_string()]);
        }
        call
    }

    pub(super) fn release(keys: &Keys, attempt: Attempt, skus: &[Sku]) -> Self {
        let keys = skus.iter().map(|sku| keys.lease(sku)).collect();
        Self { keys, arguments: vec![attempt.0.to_string()] }
    }

    pub(super) fn inspect(lease_keys: &[String]) -> Self {
        Self { keys: lease_keys.to_vec(), arguments: Vec::new() }
    }
}

/// Reads the reply to [`Call::acquire`] for the same requests.
pub(super) fn read_acquired(requests: &[Request], reply: &[String]) -> Result<Vec<Reply>, Error> {
    let (here, lines) = lines_of(reply, requests.len())?;
    let answer = |(request, line): (&Request, &String)| {
        read_answer(here, line).ok_or_else(|| match line.as_str() {
            "exhausted" => Error::Failed(format!(
                "the sequence of SKU {:?} is used up: delete its fence hash, and its next epoch starts over",
                request.sku
            )),
            _unreadable => unreadable(line),
        })
    };
    requests.iter().zip(lines).map(answer).collect()
}

fn read_answer(here: &str, line: &str) -> Option<Reply> {
    let words: Vec<_> = line.split(' ').collect();
    let unknown = |cause| Reply::Unknown { incarnation: Incarnation(here.to_owned()), cause };
    match words[..] {
        ["granted", epoch, sequence] => parse_token(epoch, sequence).map(Reply::Granted),
        ["held", ms] => Some(Reply::Held { remaining: Duration::from_millis(ms.parse().ok()?) }),
        ["unknown", "missing"] => Some(unknown(Cause::Missing)),
        ["unknown", "incarnation"] => Some(unknown(Cause::Incarnation)),
        ["unknown", "behind"] => Some(unknown(Cause::Behind)),
        _ => None,
    }
}

/// What a seed did, counted for the log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Seeded {
    /// The counter stands at the seed's epoch.
    pub(super) installed: usize,
    /// A later recovery was faster.
    pub(super) kept: usize,
    /// The server is another incarnation by now.
    pub(super) refused: usize,
}

/// Reads the reply to [`Call::seed`] for the same seeds, and adds it up.
pub(super) fn read_seeded(seeds: &[Seed], reply: &[String], sum: &mut Seeded) -> Result<(), Error> {
    let (_, lines) = lines_of(reply, seeds.len())?;
    for line in lines {
        match line.as_str() {
            "installed" => sum.installed += 1,
            "kept" => sum.kept += 1,
            "refused" => sum.refused += 1,
            unknown => return Err(unreadable(unknown)),
        }
    }
    Ok(())
}

/// Splits off the server's incarnation; `expected` lines must follow it.
pub(super) fn lines_of(reply: &[String], expected: usize) -> Result<(&str, &[String]), Error> {
    match reply.split_first() {
        Some((here, lines)) if lines.len() == expected => Ok((here, lines)),
        Some(_) | None => Err(unreadable(&format!("{} lines instead of {}", reply.len(), expected + 1))),
    }
}

pub(super) fn unreadable(what: &str) -> Error {
    Error::Failed(format!("a script's reply cannot be read: {what:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_the_script_can_reply_is_read_and_nothing_else() {
        let unknown = |cause| Some(Reply::Unknown { incarnation: Incarnation("here".into()), cause });
        let token = parse_token("3", "17").expect("a token");
        for (line, expected) in [
            ("granted 3 17", Some(Reply::Granted(token))),
            ("held 250", Some(Reply::Held { remaining: Duration::from_millis(250) })),
            ("unknown missing", unknown(Cause::Missing)),
            ("unknown incarnation", unknown(Cause::Incarnation)),
            ("unknown behind", unknown(Cause::Behind)),
            ("granted 3", None),
            ("granted 3 1e+14", None),
            ("granted 8388608 1", None),
            ("held -1", None),
            ("exhausted", None),
            ("", None),
        ] {
            assert_eq!(read_answer("here", line), expected, "{line}");
        }
    }
}
