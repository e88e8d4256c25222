//! What a worker asks of the lease server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{Cmd, FromRedisValue};

use super::keys::{Keys, word};
use super::link::{Link, Session};
use super::scripts::{Call, Script, Seeded, lines_of, read_acquired, read_seeded};
use super::{Attempt, Error, Reply, Request, Seed, Trust, faults};
use crate::config;
use crate::order::Sku;

/// The connection to the lease server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leases(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    link: Link,
    keys: Keys,
    holder: String,
    ttl: Duration,
    safety_margin: Duration,
    fence_idle: Duration,
    acquire: Script,
    seed: Script,
    release: Script,
}

impl Leases {
    /// Connects; the server must answer, tell its incarnation, and run scripts.
    ///
    /// `holder` names this worker, for people.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn connect(redis: &config::Redis, lease: &config::Lease, holder: &str) -> Result<Self, Error> {
        let leases = Self(Arc::new(Shared {
            link: Link::new(redis)?,
            keys: Keys::new(&redis.key_prefix),
            holder: word(holder),
            ttl: lease.ttl_ms.duration(),
            safety_margin: lease.safety_margin_ms.duration(),
            fence_idle: lease.fence_idle_ms.duration(),
            acquire: Script::acquire(),
            seed: Script::seed(),
            release: Script::release(),
        }));
        leases.greet().await?;
        Ok(leases)
    }

    /// Asks for no lease at all, which runs into everything that is wrong with the server or with our rights on it.
    async fn greet(&self) -> Result<(), Error> {
        let nothing = Call::acquire(&self.0.keys, self.0.common(Attempt::new()), &[]);
        let reply: Vec<Vec<String>> = self.call(&self.0.acquire, &[nothing]).await?;
        reply.iter().try_for_each(|reply| lines_of(reply, 0).map(drop))
    }

    /// Asks whether leases could be granted now: writes a key that ends at once, which a full or read-only server refuses.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn ping(&self) -> Result<(), Error> {
        self.greet().await?;
        let mut write = redis::cmd("SET");
        write.arg(self.0.keys.probe()).arg(1).arg("PX").arg(1);
        self.send_once::<String>(&[write]).await.map(drop)
    }

    /// Asks for the leases of all SKUs in one network round trip; replies stand in the requests' sequence.
    ///
    /// # Errors
    /// See [`Error`]. Ask again with the same attempt: what was granted is granted again.
    pub async fn acquire(&self, attempt: Attempt, requests: &[Request]) -> Result<Vec<Reply>, Error> {
        let shared = &*self.0;
        let chunks = requests.chunks(shared.link.skus_per_call());
        let calls: Vec<_> =
            chunks.clone().map(|chunk| Call::acquire(&shared.keys, shared.common(attempt), chunk)).collect();
        let replies: Vec<Vec<String>> = self.call(&shared.acquire, &calls).await?;
        let mut answers = Vec::with_capacity(requests.len());
        for (chunk, reply) in chunks.zip(replies) {
            answers.extend(read_acquired(chunk, &reply)?);
        }
        Ok(answers)
    }

    /// How long to believe in leases whose request was made at `asked_at`, taken *before* [`Leases::acquire`].
    #[must_use]
    pub fn trust(&self, asked_at: Instant) -> Trust {
        Trust::new(asked_at, self.0.ttl, self.0.safety_margin)
    }

    /// Installs counters after a recovery. Sent once per epoch and never again, whatever the outcome: after any doubt
    /// recover with the next epoch. So there is nothing to return: the next acquire tells.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn seed(&self, seeds: &[Seed]) -> Result<(), Error> {
        let shared = &*self.0;
        let chunks = seeds.chunks(shared.link.skus_per_call());
        // In full: were it called by name, it would sometimes have to be sent again.
        let commands: Vec<_> = chunks
            .clone()
            .map(|chunk| shared.seed.in_full(&Call::seed(&shared.keys, shared.fence_idle, chunk)))
            .collect();
        let replies: Vec<Vec<String>> = self.send_once(&commands).await?;
        let mut sum = Seeded::default();
        for (chunk, reply) in chunks.zip(replies) {
            read_seeded(chunk, &reply, &mut sum)?;
        }
        let Seeded { installed, kept, refused } = sum;
        tracing::debug!(installed, kept, refused, "seeded counters");
        Ok(())
    }

    /// Gives back the leases that are still this attempt's; others are left alone.
    ///
    /// # Errors
    /// See [`Error`]. What was not released ends by itself.
    pub async fn release(&self, attempt: Attempt, skus: &[Sku]) -> Result<(), Error> {
        let shared = &*self.0;
        let chunks = skus.chunks(shared.link.skus_per_call());
        let calls: Vec<_> = chunks.map(|chunk| Call::release(&shared.keys, attempt, chunk)).collect();
        let deleted: Vec<u64> = self.call(&shared.release, &calls).await?;
        let ended = skus.len() as u64 - deleted.into_iter().sum::<u64>().min(skus.len() as u64);
        if ended > 0 {
            tracing::debug!(ended, "leases had ended before they were released");
        }
        Ok(())
    }

    pub(super) fn link(&self) -> &Link {
        &self.0.link
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// Calls a script by its short name, and again where the server did not know it (and so ran nothing).
    pub(super) async fn call<T: FromRedisValue>(&self, script: &Script, calls: &[Call]) -> Result<Vec<T>, Error> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let session = self.0.link.open().await?;
        let mut replies = send_all(&session, calls.iter().map(|call| script.by_name(call))).await;
        if replies.iter().any(is_unknown) {
            // Once for all masters of a Cluster. Where it does not get through, the call itself carries the script.
            if let Err(error) = session.send::<redis::Value>(&script.load()).await {
                tracing::debug!(%error, "a script could not be loaded");
            }
            for form in [Script::by_name, Script::in_full] {
                let again: Vec<_> = (0..calls.len()).filter(|&index| is_unknown(&replies[index])).collect();
                let repeated = send_all(&session, again.iter().map(|&index| form(script, &calls[index]))).await;
                again.into_iter().zip(repeated).for_each(|(index, reply)| replies[index] = reply);
            }
        }
        self.settle(&session, replies).await
    }

    /// Sends each command once, all at the same time.
    async fn send_once<T: FromRedisValue>(&self, commands: &[Cmd]) -> Result<Vec<T>, Error> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let session = self.0.link.open().await?;
        let replies = send_all(&session, commands.iter().cloned()).await;
        self.settle(&session, replies).await
    }

    /// All replies, or the first error.
    async fn settle<T>(&self, session: &Session, replies: Vec<redis::RedisResult<T>>) -> Result<Vec<T>, Error> {
        let mut all = Vec::with_capacity(replies.len());
        for reply in replies {
            match reply {
                Ok(reply) => all.push(reply),
                Err(error) => return Err(self.0.link.fault(session, &error).await),
            }
        }
        Ok(all)
    }
}

impl Shared {
    /// What every call of `acquire.lua` says first.
    fn common(&self, attempt: Attempt) -> [String; 4] {
        let ms = |time: Duration| time.as_millis().to_string();
        [attempt.0.to_string(), self.holder.clone(), ms(self.ttl), ms(self.fence_idle)]
    }
}

/// Commands sent together travel together: one round trip, and on a Cluster one for each master at the same time.
async fn send_all<T: FromRedisValue>(
    session: &Session,
    commands: impl Iterator<Item = Cmd>,
) -> Vec<redis::RedisResult<T>> {
    join_all(commands.map(|command| async move { session.send(&command).await })).await
}

fn is_unknown<T>(reply: &redis::RedisResult<T>) -> bool {
    reply.as_ref().is_err_and(faults::is_unknown_script)
}
