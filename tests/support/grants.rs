//! The grants that docs/OPERATIONS.md documents, word for word, for names of a test's own.

// Each test program uses the part that it needs.
#![allow(dead_code)]

use std::path::Path;

/// The user that the document speaks of.
const USER: &str = "lastunit_worker";

/// The lines of code under `**{service}**` in the document's section on grants, for this user instead of `lastunit_worker`.
///
/// # Panics
/// When there are none: then the document has changed, and no test proves it any more.
pub fn documented(service: &str, user: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/OPERATIONS.md");
    let text = std::fs::read_to_string(path).expect("docs/OPERATIONS.md");
    let (_, grants) = text.split_once("\n## Grants\n").expect("a section on grants");
    let grants = grants.split("\n## ").next().unwrap_or_default();
    let (_, after) = grants.split_once(&format!("\n**{service}**")).expect("a paragraph on the service");
    let lines = after.lines().skip_while(|line| !line.starts_with("    "));
    let code = lines.take_while(|line| line.starts_with("    ")).map(|line| line.trim().replace(USER, user));
    let code: Vec<_> = code.collect();
    assert!(!code.is_empty(), "no grants for {service} in docs/OPERATIONS.md");
    code
}

/// The words of `ACL SETUSER …` for a user with this password and key prefix, with what a Cluster needs in addition.
pub fn redis_acl(user: &str, password: &str, prefix: &str) -> Vec<String> {
    let of_user = documented("Redis", user);
    let on_cluster = documented("Redis Cluster", user);
    let words = of_user[0].split(' ').chain(on_cluster[0].split(' ').skip(3));
    words
        .map(|word| word.replace(">PASSWORD", &format!(">{password}")).replace("~lastunit:", &format!("~{prefix}:")))
        .collect()
}
