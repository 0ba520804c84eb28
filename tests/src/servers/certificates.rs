//! Certificates of the tests' own, and servers that show them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Server, ServerBuilder, ServerKind};
use crate::ports::free_port;

/// A directory of this test's own with an authority, `ca.crt`, and a certificate of it for `localhost`, `tls.crt` and
/// `tls.key`.
#[derive(Debug)]
pub struct Certificates(PathBuf);

impl Certificates {
    /// `None` when there is no `openssl` to make them.
    pub fn make() -> Option<Certificates> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if Command::new("openssl").arg("version").output().is_err() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs openssl");
            eprintln!("SKIPPED: no openssl to make a certificate");
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("redlatch-tls-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let made = Certificates(dir);
        made.authority("ca");
        made.sign("tls", "ca", "DNS:localhost,IP:127.0.0.1");
        Some(made)
    }

    /// Makes another authority, `<name>.crt` and `<name>.key`.
    pub fn authority(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name} -keyout {name}.key \
             -out {name}.crt"
        ));
    }

    /// Makes `<name>.crt` and `<name>.key`, vouched for by the authority, for hosts as `DNS:localhost,IP:127.0.0.1`.
    pub fn sign(&self, name: &str, authority: &str, hosts: &str) {
        self.write(&format!("{name}.ext"), &format!("subjectAltName={hosts}\nbasicConstraints=CA:FALSE\n"));
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days 2 -extfile \
             {name}.ext -out {name}.crt"
        ));
    }

    /// Runs `openssl` in the directory.
    pub fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Writes a file of the directory; its path.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// The path of a file of the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that speaks TLS on a second port, with `tls.crt`: Debian's is built with it. Returns that port.
pub fn tls_server(certificates: &Certificates) -> Option<(Server, u16)> {
    tls_server_with(certificates, "tls", |builder| builder.config("tls-auth-clients", "no"))
}

/// As [`tls_server`], with another of the certificates.
pub fn tls_server_with(
    certificates: &Certificates,
    name: &str,
    configure: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> Option<(Server, u16)> {
    let kind = ServerKind::Redis70;
    if !super::available().contains(&kind) {
        return None;
    }
    let port = free_port();
    let quoted = |name: &str| format!("{:?}", certificates.path(name));
    let builder = Server::builder(kind).config("tls-port", &port.to_string());
    let builder = builder.config("tls-cert-file", &quoted(&format!("{name}.crt")));
    let builder = builder.config("tls-key-file", &quoted(&format!("{name}.key")));
    let builder = configure(builder.config("tls-ca-cert-file", &quoted("ca.crt")));
    Some((builder.user("app on >s3cret ~* &* +@all").start(), port))
}
