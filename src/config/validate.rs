//! Which values can work, alone and together.

use super::{Error, Settings};

/// The largest size of a batch that every supported database takes in one statement.
const MAX_BATCH: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;

impl Settings {
    /// Checks all values, alone and together.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        self.validate_services(&mut problems);
        self.validate_tls(&mut problems);
        self.validate_times(&mut problems);
        self.validate_sizes(&mut problems);
        if problems.is_empty() { Ok(()) } else { Err(Error::Invalid(problems)) }
    }

    fn validate_services(&self, problems: &mut Vec<String>) {
        let mut check = |ok: bool, problem: String| {
            if !ok {
                problems.push(problem);
            }
        };
        let database = self.database.url.scheme();
        check(
            ["sqlite", "postgres", "postgresql", "mysql", "mariadb"].contains(&database.as_str()),
            format!("database.url is {}: its scheme must be sqlite, postgres or mysql", self.database.url),
        );
        check(
            ["redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"]
                .contains(&self.redis.url.scheme().as_str()),
            format!(
                "redis.url is {}: its scheme must be redis, rediss, redis+cluster or redis+sentinel",
                self.redis.url
            ),
        );
        check(
            ["amqp", "amqps"].contains(&self.broker.url.scheme().as_str()),
            format!("broker.url is {}: its scheme must be amqp or amqps", self.broker.url),
        );
        for (key, url) in
            [("database.url", &self.database.url), ("redis.url", &self.redis.url), ("broker.url", &self.broker.url)]
        {
            let fault = url.fault();
            check(fault.is_none(), format!("{key} is {url}: it cannot be read: {}", fault.unwrap_or_default()));
        }
        check(
            database != "sqlite" || self.database.allow_sqlite || self.broker.url.is_loopback(),
            format!(
                "database.url is an embedded SQLite file, but the broker {} is on another host: workers with a file each \
                 would sell the same stock twice. Use a database server, or set database.allow_sqlite = true if all \
                 workers share this one file",
                self.broker.url
            ),
        );
        let prefix = &self.redis.key_prefix;
        check(
            !prefix.is_empty() && prefix.len() <= 100 && !prefix.contains(['{', '}']),
            format!("redis.key_prefix is {prefix:?}: it must be 1 to 100 bytes without braces"),
        );
        let prefix = &self.broker.name_prefix;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        check(
            !prefix.is_empty() && prefix.len() <= 100 && prefix.chars().all(plain) && !prefix.starts_with("amq."),
            format!(
                "broker.name_prefix is {prefix:?}: it must be 1 to 100 of A-Z a-z 0-9 - _ . and not begin with amq."
            ),
        );
        check(
            self.admin.listen.is_empty(),
            "admin.listen is set, but this version serves no health or metrics yet: leave it empty".into(),
        );
    }

    fn validate_times(&self, problems: &mut Vec<String>) {
        let lease = &self.lease;
        let positive = [
            ("database.acquire_timeout_ms", self.database.acquire_timeout_ms),
            ("database.statement_timeout_ms", self.database.statement_timeout_ms),
            ("redis.command_timeout_ms", self.redis.command_timeout_ms),
            ("broker.call_timeout_ms", self.broker.call_timeout_ms),
            ("lease.ttl_ms", lease.ttl_ms),
            ("lease.wait_ms", lease.wait_ms),
        ];
        for (key, value) in positive {
            if value.0 == 0 {
                problems.push(format!("{key} is 0: it must be at least 1 ms"));
            }
        }
        if lease.safety_margin_ms >= lease.ttl_ms {
            problems.push(format!(
                "lease.safety_margin_ms ({}) must be less than lease.ttl_ms ({}): no lease would ever be trusted",
                lease.safety_margin_ms.0, lease.ttl_ms.0
            ));
        }
        if lease.fence_idle_ms.0 < HOUR_MS {
            problems.push(format!(
                "lease.fence_idle_ms is {}: it must be at least {HOUR_MS} (an hour), because each return of a forgotten SKU costs an epoch",
                lease.fence_idle_ms.0
            ));
        }
        if lease.fence_idle_ms < lease.ttl_ms {
            problems.push("lease.fence_idle_ms must not be less than lease.ttl_ms".into());
        }
        if self.retry.delays_ms.is_empty() || self.retry.delays_ms.contains(&0) {
            problems.push("retry.delays_ms must list at least one delay, each at least 1 ms".into());
        }
    }

    fn validate_sizes(&self, problems: &mut Vec<String>) {
        let batch = &self.batch;
        let within = [
            ("database.max_connections", u64::from(self.database.max_connections), 1, 10_000),
            ("broker.prefetch", u64::from(self.broker.prefetch), 1, u64::from(u16::MAX)),
            ("broker.delivery_limit", u64::from(self.broker.delivery_limit), 4, 1_000_000_000),
            ("broker.max_message_bytes", self.broker.max_message_bytes as u64, 64, 16 << 20),
            ("batch.max_orders", batch.max_orders as u64, 1, MAX_BATCH as u64),
            ("batch.max_lines", batch.max_lines as u64, 1, MAX_BATCH as u64),
            ("batch.max_in_flight", batch.max_in_flight as u64, 1, 1_000),
            ("retry.max_attempts", u64::from(self.retry.max_attempts), 1, 1_000_000),
            ("order.max_lines", self.order.max_lines as u64, 1, MAX_BATCH as u64),
            ("order.max_quantity", self.order.max_quantity.cast_unsigned(), 1, 1 << 40),
        ];
        for (key, value, least, most) in within {
            if !(least..=most).contains(&value) {
                problems.push(format!("{key} is {value}: it must be from {least} to {most}"));
            }
        }
    }
}
