//! An authority of a test's own, certificates for a server and a client, and an authority that signed neither.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Files in a folder of their own, gone when this is dropped: `ca`, `server`, `client` and `stranger`, each with `.crt`
/// and `.key`.
pub struct Certificates(TempDir);

impl Certificates {
    /// Makes them. The server's is good for `localhost` and 127.0.0.1.
    pub fn make() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script = r#"
            new="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
            for name in ca stranger; do
                openssl req -x509 $new -keyout $name.key -out $name.crt -days 2 -subj /CN=test-$name
            done
            for name in server client; do
                openssl req $new -keyout $name.key -out $name.csr -subj /CN=$name
                printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' > $name.ext
                openssl x509 -req -in $name.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out $name.crt \
                    -extfile $name.ext
            done
            # Servers with a user of their own read them, too.
            chmod 755 . && chmod 644 *.crt *.key"#;
        let made = Command::new("sh").args(["-ec", script]).current_dir(folder.path()).output().expect("a shell");
        assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        Self(folder)
    }

    /// Where a file is.
    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// All of them.
    #[allow(dead_code)]
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}
