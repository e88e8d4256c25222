//! TLS files: they must be there, belong together, and be of use with the URL beside them.

use super::{Address, Settings};

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
/// `PRIVATE KEY`, `RSA PRIVATE KEY`, `EC PRIVATE KEY`.
const KEY: &str = "PRIVATE KEY-----";

/// What a client sees when a server wants its certificate: an alert, or only a link that is cut, which may overtake it.
const SIGNS: [&str; 5] = ["CertificateRequired", "reset by peer", "roken pipe", "closed", "end of file"];

/// For the end of an error's text: what is probably missing, if this is how a server that misses it behaves. `section` is
/// that of the settings.
pub(crate) fn certificate_hint(section: &str, is_encrypted: bool, client_cert: &str, told: &str) -> Option<String> {
    let is_likely = is_encrypted && client_cert.is_empty() && SIGNS.iter().any(|sign| told.contains(sign));
    is_likely.then(|| {
        format!(
            "; if the server wants a client certificate, set {section}.tls_client_cert and {section}.tls_client_key"
        )
    })
}

/// What one section of the settings says about TLS.
struct Tls<'a> {
    section: &'static str,
    ca: &'a str,
    client_cert: &'a str,
    client_key: &'a str,
    /// Why files would be ignored with this URL.
    unused: Option<String>,
}

impl Settings {
    /// Finds at start what would otherwise show as a handshake that fails, or not show at all.
    pub(super) fn validate_tls(&self, problems: &mut Vec<String>) {
        let Self { database, redis, broker, .. } = self;
        let sections = [
            Tls {
                section: "database",
                ca: &database.tls_ca,
                client_cert: &database.tls_client_cert,
                client_key: &database.tls_client_key,
                unused: (database.url.scheme() == "sqlite").then(|| "database.url is a file".to_owned()),
            },
            Tls {
                section: "redis",
                ca: &redis.tls_ca,
                client_cert: &redis.tls_client_cert,
                client_key: &redis.tls_client_key,
                unused: without_tls("redis", &redis.url, "rediss"),
            },
            Tls {
                section: "broker",
                ca: &broker.tls_ca,
                client_cert: &broker.tls_client_cert,
                client_key: &broker.tls_client_key,
                unused: without_tls("broker", &broker.url, "amqps"),
            },
        ];
        sections.iter().for_each(|tls| tls.check(problems));
    }
}

/// A plain URL would send everything in the clear, whatever the files say.
fn without_tls(section: &str, url: &Address, secure: &str) -> Option<String> {
    let scheme = url.scheme();
    (!scheme.starts_with(secure))
        .then(|| format!("{section}.url begins with {scheme}, which is not encrypted: write {secure}"))
}

impl Tls<'_> {
    fn check(&self, problems: &mut Vec<String>) {
        let section = self.section;
        let files = [("tls_ca", self.ca), ("tls_client_cert", self.client_cert), ("tls_client_key", self.client_key)];
        if let Some(unused) = &self.unused {
            let set = files.iter().filter(|(_, file)| !file.is_empty());
            problems.extend(set.map(|(key, _)| format!("{section}.{key} is set, but {unused}")));
            return;
        }
        if self.client_cert.is_empty() != self.client_key.is_empty() {
            problems.push(format!("{section}.tls_client_cert and {section}.tls_client_key go together: set both"));
        }
        for (key, file) in files.into_iter().filter(|(_, file)| !file.is_empty()) {
            let (mark, what) = if key == "tls_client_key" { (KEY, "key") } else { (CERTIFICATE, "certificate") };
            match std::fs::read(file) {
                Ok(bytes) if String::from_utf8_lossy(&bytes).contains(mark) => {}
                Ok(_) => problems.push(format!("{section}.{key} names {file:?}, which holds no {what} in PEM form")),
                Err(fault) => {
                    problems.push(format!("{section}.{key} names {file:?}, which cannot be read: {fault}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;

    fn problems(keys: &[(&str, &str)]) -> String {
        let variable = |(key, value): &(&str, &str)| {
            (format!("LASTUNIT__{}", key.replace('.', "__").to_uppercase()), (*value).to_owned())
        };
        Settings::load(None, keys.iter().map(variable)).map_or_else(|fault| fault.to_string(), |_| String::new())
    }

    #[test]
    fn files_beside_a_url_that_does_not_encrypt_are_refused() {
        let all = problems(&[("database.tls_ca", "ca"), ("redis.tls_ca", "ca"), ("broker.tls_client_cert", "c")]);
        for part in ["database.tls_ca is set, but", "redis.tls_ca is set, but", "write rediss", "write amqps"] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }

    #[test]
    fn a_file_is_looked_at_before_anything_is_opened() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, "not PEM").expect("written");
        let path = file.path().to_string_lossy();
        let url = ("broker.url", "amqps://localhost/%2f");
        assert!(problems(&[url, ("broker.tls_ca", "/nowhere")]).contains("broker.tls_ca names \"/nowhere\""));
        assert!(problems(&[url, ("broker.tls_ca", &path)]).contains("holds no certificate in PEM form"));
        assert!(problems(&[url, ("broker.tls_client_key", &path)]).contains("go together: set both"));
        assert!(problems(&[url, ("broker.tls_client_key", &path)]).contains("holds no key in PEM form"));
        assert_eq!(problems(&[url]), "");
    }
}
