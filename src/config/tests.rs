//! Layers, secrets, and what is refused.

use super::*;

fn load(env: &[(&str, &str)]) -> Result<Settings, Error> {
    Settings::load(None, env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
}

fn problem(env: &[(&str, &str)]) -> String {
    load(env).expect_err("refused").to_string()
}

#[test]
fn defaults_work() {
    let settings = load(&[]).expect("valid");
    assert_eq!((settings.lease.ttl_ms, settings.retry.delays_ms.len()), (Millis(5000), 4));
}

#[test]
fn the_environment_lies_over_the_defaults() {
    let settings = load(&[
        ("LASTUNIT__LEASE__TTL_MS", "7000"),
        ("LASTUNIT__RETRY__DELAYS_MS", "100,200"),
        ("LASTUNIT__BROKER__NAME_PREFIX", "42"),
        ("LASTUNIT_ENV", ""),
        ("OTHER__LEASE__TTL_MS", "1"),
    ]);
    let settings = settings.expect("valid");
    assert_eq!(settings.lease.ttl_ms, Millis(7000));
    assert_eq!(settings.retry.delays_ms, [100, 200]);
    assert_eq!(settings.broker.name_prefix, "42");
}

#[test]
fn a_list_of_one_needs_no_comma() {
    assert_eq!(load(&[("LASTUNIT__RETRY__DELAYS_MS", "50")]).expect("valid").retry.delays_ms, [50]);
}

#[test]
fn a_secret_is_read_from_the_file_that_a_variable_names() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, "redis://:s3cret@redis:6379\n").expect("written");
    let path = file.path().to_string_lossy();
    let settings = load(&[("LASTUNIT__REDIS__URL_FILE", &path)]).expect("valid");
    assert_eq!(settings.redis.url.secret(), "redis://:s3cret@redis:6379");
    let missing = problem(&[("LASTUNIT__REDIS__URL_FILE", "/nowhere")]);
    assert!(missing.contains("LASTUNIT__REDIS__URL_FILE names /nowhere"), "{missing}");
}

#[test]
fn unknown_keys_and_wrong_types_are_refused_by_name() {
    assert!(problem(&[("LASTUNIT__LEASE__TTL", "1")]).contains("ttl"));
    assert!(problem(&[("LASTUNIT__LEASE__TTL_MS", "soon")]).contains("ttl_ms"));
}

#[test]
fn values_that_cannot_work_are_refused_all_at_once() {
    let problems = problem(&[
        ("LASTUNIT__LEASE__TTL_MS", "500"),
        ("LASTUNIT__LEASE__FENCE_IDLE_MS", "1000"),
        ("LASTUNIT__REDIS__KEY_PREFIX", "a{b}"),
        ("LASTUNIT__BATCH__MAX_ORDERS", "0"),
    ]);
    for key in ["lease.safety_margin_ms", "lease.fence_idle_ms", "redis.key_prefix", "batch.max_orders"] {
        assert!(problems.contains(key), "{problems}");
    }
}

#[test]
fn an_embedded_database_is_for_one_host() {
    let remote = ("LASTUNIT__BROKER__URL", "amqp://u:p@rabbit.example:5672/%2f");
    assert!(problem(&[remote]).contains("database.allow_sqlite"));
    assert!(load(&[remote, ("LASTUNIT__DATABASE__ALLOW_SQLITE", "true")]).is_ok());
    assert!(load(&[("LASTUNIT__BROKER__URL", "amqp://u:p@[::1]:5672/%2f")]).is_ok());
}

#[test]
fn printing_an_address_never_shows_a_password() {
    for (url, shown) in [
        ("amqp://guest:s3cret@host:5672/%2f", "amqp://guest:***@host:5672/%2f"),
        ("postgres://u:s3cret@host/db?sslpassword=s3cret", "postgres://u:***@host/db"),
        ("redis://:s3cret@host:6379", "redis://:***@host:6379"),
        ("redis://u:s3c@ret@host:6379", "redis://u:***@host:6379"),
        ("sqlite://lastunit.db?mode=rwc", "sqlite://lastunit.db"),
        ("s3cret", "(not a URL)"),
    ] {
        assert_eq!(Address::new(url).to_string(), shown);
        assert_eq!(format!("{:?}", Address::new(url)), shown);
    }
}

#[test]
fn what_quotes_an_address_does_not_show_its_password() {
    for (said, shown) in [
        ("string \"amqp://u:s3cret@h/x\", expected a map", "string \"amqp://u:***@h/x\", expected a map"),
        ("line 2\n2 | url = redis://:s3c@ret@h\n  | ^", "line 2\n2 | url = redis://:***@h\n  | ^"),
        ("\"postgres://h/db?password=s3cret\" for x", "\"postgres://h/db?***\" for x"),
        ("no address: a@b", "no address: a@b"),
    ] {
        assert_eq!(address::without_passwords(said), shown);
    }
}
