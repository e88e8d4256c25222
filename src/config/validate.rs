//! Which values can work, alone and together.

use super::Settings;

/// The largest size of a batch that every supported database takes in one statement.
const MAX_BATCH: u64 = 10_000;
const HOUR_MS: u64 = 3_600_000;

/// Ten years. The clocks of this program take that, and all databases' timestamps.
const MAX_MS: u64 = 315_360_000_000;

/// The ranges of numbers; times of which none stands here may be zero.
const RANGES: [(&str, u64, u64); 18] = [
    ("database.max_connections", 1, 10_000),
    ("database.acquire_timeout_ms", 1, MAX_MS),
    ("database.statement_timeout_ms", 1, MAX_MS),
    ("redis.command_timeout_ms", 1, MAX_MS),
    ("broker.call_timeout_ms", 1, MAX_MS),
    ("broker.prefetch", 1, u16::MAX as u64),
    ("broker.prefetch_bytes", 1024, 1 << 40),
    ("broker.delivery_limit", 4, 1_000_000_000),
    ("broker.max_message_bytes", 64, 16 << 20),
    ("lease.ttl_ms", 1, MAX_MS),
    ("lease.wait_ms", 1, MAX_MS),
    ("batch.max_orders", 1, MAX_BATCH),
    ("batch.max_lines", 1, MAX_BATCH),
    ("batch.max_in_flight", 1, 1_000),
    ("retry.delays_ms", 1, MAX_MS),
    ("retry.max_attempts", 1, 1_000_000),
    ("order.max_lines", 1, MAX_BATCH),
    ("order.max_quantity", 1, 1 << 40),
];

/// The least and the greatest value of a number.
pub(super) fn range_of(key: &str) -> (u64, u64) {
    let range = RANGES.iter().find(|(known, ..)| *known == key);
    range.map_or((0, MAX_MS), |(_, least, most)| (*least, *most))
}

impl Settings {
    /// What is wrong with the values, alone or together; each number is within its range already.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        self.validate_services(&mut problems);
        self.validate_tls(&mut problems);
        self.validate_times(&mut problems);
        problems
    }

    fn validate_services(&self, problems: &mut Vec<String>) {
        for (key, url, schemes, said) in [
            (
                "database.url",
                &self.database.url,
                &["sqlite", "postgres", "postgresql", "mysql", "mariadb"][..],
                "sqlite, postgres or mysql",
            ),
            (
                "redis.url",
                &self.redis.url,
                &["redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"],
                "redis, rediss, redis+cluster or redis+sentinel",
            ),
            ("broker.url", &self.broker.url, &["amqp", "amqps"], "amqp or amqps"),
        ] {
            if !schemes.contains(&url.scheme().as_str()) {
                problems.push(format!("{key} is {url}: its scheme must be {said}"));
            } else if let Some(fault) = url.fault() {
                problems.push(format!("{key} is {url}: it cannot be read: {fault}"));
            }
        }
        let mut check = |ok: bool, problem: String| {
            if !ok {
                problems.push(problem);
            }
        };
        check(
            !self.database.url.is_in_memory(),
            "database.url names no file: a database in memory is gone with its connection. Name a file, such as \
             sqlite://lastunit.db?mode=rwc"
                .into(),
        );
        check(
            self.database.url.scheme() != "sqlite"
                || self.database.allow_sqlite
                || self.broker.url.is_loopback()
                || self.broker.url.fault().is_some(),
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
        problems.extend(self.admin.address().err());
    }

    fn validate_times(&self, problems: &mut Vec<String>) {
        let lease = &self.lease;
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
    }
}
