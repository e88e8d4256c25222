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
fn a_url_that_cannot_be_used_is_told_once_with_what_to_write() {
    let encode = "in names and passwords write / as %2F";
    for (url, said) in [
        ("127.0.0.1:5672", "its scheme must be amqp or amqps"),
        ("http://rabbit", "its scheme must be amqp or amqps"),
        ("amqp:rabbit", "// is missing after the scheme"),
        ("amqp://shop:p/qz@rabbit", encode),
        ("amqp://shop:p#qz@rabbit", encode),
        ("amqp://shop:p?qz@rabbit", encode),
        ("amqp://shop:12/qz@rabbit", encode),
        ("amqp://shop:p@qz/w@rabbit", encode),
        ("amqp://shop:p@qz#w@rabbit", encode),
    ] {
        let problem = problem(&[("LASTUNIT__BROKER__URL", url)]);
        assert!(problem.contains(said) && problem.matches("broker.url is").count() == 1, "{url}: {problem}");
        assert!(!problem.contains("qz"), "a part of the password: {problem}");
    }
    assert!(load(&[("LASTUNIT__BROKER__URL", "amqp://shop:p%2Fqz@127.0.0.1/%2f")]).is_ok());
}

#[test]
fn a_wrong_setting_is_named_with_its_value_where_it_stands_and_what_is_allowed() {
    for (variable, value, said) in [
        (
            "LASTUNIT__LEASE__TTL",
            "1",
            "lease.ttl is no setting (LASTUNIT__LEASE__TTL); there is lease.fence_idle_ms, lease",
        ),
        (
            "LASTUNIT__BROKR__URL",
            "x",
            "brokr.url is no setting (LASTUNIT__BROKR__URL); the sections are admin, batch, broker",
        ),
        (
            "LASTUNIT__LEASE__TTL_MS",
            "soon",
            "lease.ttl_ms is \"soon\" (LASTUNIT__LEASE__TTL_MS): it must be a whole number",
        ),
        (
            "LASTUNIT__BROKER__PREFETCH",
            "70000",
            "broker.prefetch is \"70000\" (LASTUNIT__BROKER__PREFETCH): it must be a whole number from 1 to 65535",
        ),
        ("LASTUNIT__SHUTDOWN__GRACE_MS", "-1", "it must be a whole number from 0 to 315360000000"),
        (
            "LASTUNIT__RETRY__DELAYS_MS",
            "100;200",
            "retry.delays_ms is \"100;200\" (LASTUNIT__RETRY__DELAYS_MS): it must be whole numbers",
        ),
        ("LASTUNIT__RETRY__DELAYS_MS", "100,0", "from 1 to"),
        (
            "LASTUNIT__BROKER__DECLARE",
            "no",
            "broker.declare is \"no\" (LASTUNIT__BROKER__DECLARE): it must be true or false",
        ),
        ("LASTUNIT__LOG__FORMAT", "xml", "log.format is \"xml\" (LASTUNIT__LOG__FORMAT): it must be pretty or json"),
    ] {
        let problem = problem(&[(variable, value)]);
        assert!(problem.starts_with("settings: ") && problem.contains(said), "{problem}");
    }
}

#[test]
fn a_variable_with_too_few_underscores_is_refused_and_strangers_are_left_alone() {
    for (variable, right) in [
        ("LASTUNIT_BROKER_PREFETCH", "broker.prefetch is LASTUNIT__BROKER__PREFETCH"),
        ("LASTUNIT__BROKER_PREFETCH", "broker.prefetch is LASTUNIT__BROKER__PREFETCH"),
        ("LASTUNIT_LEASE__TTL_MS", "lease.ttl_ms is LASTUNIT__LEASE__TTL_MS"),
        ("LASTUNIT_DATABASE_URL_FILE", "database.url is LASTUNIT__DATABASE__URL"),
    ] {
        let problem = problem(&[(variable, "9")]);
        assert!(problem.contains(&format!("{variable} is not read: the setting {right}")), "{problem}");
    }
    // The tests' own, and what a cluster sets for a service of this name.
    for stranger in
        ["LASTUNIT_TEST_DATA", "LASTUNIT_BROKER_PORT_5672_TCP", "LASTUNIT_SERVICE_HOST", "LASTUNIT_SERVICES"]
    {
        assert!(load(&[(stranger, "x")]).is_ok(), "{stranger}");
    }
}

#[test]
fn a_file_is_checked_like_the_environment_and_shows_no_password() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = "[lease]\ntll_ms = 1\nttl_ms = \"5000\"\n[retry]\ndelays_ms = []\n[database]\nurl = [\"s3cret\"]\n[log]\nformat = \"xml\"\n";
    std::fs::write(&file, text).expect("written");
    let problems = Settings::load(Some(file.path()), []).expect_err("refused").to_string();
    let place = file.path().display();
    for said in [
        format!("lease.tll_ms is no setting ({place})"),
        format!("lease.ttl_ms is \"5000\" ({place}): it must be a whole number"),
        format!("retry.delays_ms is [] ({place}): it must be whole numbers"),
        format!("database.url ({place}): it must be text"),
        format!("log.format is \"xml\" ({place}): it must be pretty or json"),
    ] {
        assert!(problems.contains(&said), "{said}: {problems}");
    }
    assert!(!problems.contains("s3cret"), "{problems}");
    std::fs::write(&file, "[lease]\nttl_ms = 7000\n[retry]\ndelays_ms = [5, 6]\n").expect("written");
    let over = [("LASTUNIT__LEASE__TTL_MS".to_owned(), "8000".to_owned())];
    let settings = Settings::load(Some(file.path()), over).expect("valid");
    assert_eq!((settings.lease.ttl_ms, settings.retry.delays_ms), (Millis(8000), vec![5, 6]));
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
fn an_embedded_database_is_a_file() {
    for url in [
        "sqlite::memory:",
        "sqlite://:memory:",
        "sqlite://%3Amemory%3A",
        "sqlite://shop.db?mode=memory",
        "sqlite:shop.db?cache=shared&mode=memory",
        "SQLITE::memory:",
        "sqlite:",
        "sqlite://?mode=rwc",
    ] {
        let problems = problem(&[("LASTUNIT__DATABASE__URL", url)]);
        assert!(problems.contains("Name a file, such as sqlite://lastunit.db?mode=rwc"), "{url}: {problems}");
    }
    for url in ["sqlite://memory?mode=rwc", "sqlite:shop.db", "sqlite:///var/lib/shop.db", "postgres://u@h/memory"] {
        assert!(load(&[("LASTUNIT__DATABASE__URL", url)]).is_ok(), "{url}");
    }
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
