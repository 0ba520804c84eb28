//! Certificates of one's own for TLS, from PEM files.

use std::path::PathBuf;

use crate::error::{Error, Result};

use super::{Endpoint, Target};

/// The files that the options name. None of their content shows in an error.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads the files and has connections to `target` use them.
    ///
    /// # Errors
    /// [`Config`](Error::Config) for options that do not fit each other or `target`, and for a file that cannot be used.
    pub(crate) fn apply(&self, target: &mut Target) -> Result<()> {
        let named = [("tls_ca", &self.ca), ("tls_cert", &self.cert), ("tls_key", &self.key)];
        let Some((option, path)) = named.into_iter().find_map(|(option, path)| Some((option, path.as_ref()?))) else {
            return Ok(());
        };
        if cfg!(not(feature = "tls")) {
            return Err(refused(option, path, "it needs redlatch built with its `tls` feature"));
        }
        match (&self.cert, &self.key) {
            (Some(cert), None) => return Err(refused("tls_cert", cert, "it needs tls_key as well")),
            (None, Some(key)) => return Err(refused("tls_key", key, "it needs tls_cert as well")),
            _ => {}
        }
        let endpoints = target.endpoints();
        let is_tls = |endpoint: &Endpoint| matches!(endpoint.address, redis::ConnectionAddr::TcpTls { .. });
        if endpoints.is_empty() || !endpoints.iter().all(|endpoint| is_tls(endpoint)) {
            return Err(refused(option, path, "it needs a URL that begins with rediss:// or rediss+"));
        }
        #[cfg(feature = "tls")]
        for endpoint in endpoints {
            endpoint.address = files::certified(self, (option, path), &endpoint.address)?;
        }
        Ok(())
    }
}

fn refused(option: &'static str, path: &std::path::Path, expected: impl Into<String>) -> Error {
    Error::config(option, path.display(), expected)
}

#[cfg(feature = "tls")]
mod files {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use redis::{ClientTlsConfig, ConnectionAddr, TlsCertificates};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ClientConfig, RootCertStore};

    use crate::error::{Error, Result};

    use super::{TlsFiles, refused};

    /// `address` with the certificates of `files`, each of them checked: what is wrong is told now and not at each
    /// connection.
    pub(super) fn certified(
        files: &TlsFiles,
        (option, path): (&'static str, &Path),
        address: &ConnectionAddr,
    ) -> Result<ConnectionAddr> {
        let root_cert = files.ca.as_deref().map(authorities).transpose()?;
        let client_tls = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => Some(identity(cert, key)?),
            _ => None,
        };
        let unusable = |_| refused(option, path, "certificates that TLS can use");
        let client = redis::Client::build_with_tls(address.clone(), TlsCertificates { client_tls, root_cert });
        Ok(client.map_err(unusable)?.get_connection_info().addr().clone())
    }

    fn authorities(path: &Path) -> Result<Vec<u8>> {
        let pem = read("tls_ca", path)?;
        let mut store = RootCertStore::empty();
        for certificate in certificates("tls_ca", path, &pem)? {
            let unusable = |_| refused("tls_ca", path, "a PEM file of certificates of authorities");
            store.add(certificate).map_err(unusable)?;
        }
        Ok(pem)
    }

    fn identity(cert: &Path, key: &Path) -> Result<ClientTlsConfig> {
        let (client_cert, client_key) = (read("tls_cert", cert)?, read("tls_key", key)?);
        let chain = certificates("tls_cert", cert, &client_cert)?;
        // The parser's own words may quote the file.
        let unreadable = |_| refused("tls_key", key, "a PEM file with a private key that is not encrypted");
        let parsed = PrivateKeyDer::from_pem_slice(&client_key).map_err(unreadable)?;
        let unusable =
            |error| refused("tls_key", key, format!("the private key of the certificate in tls_cert: {error}"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(unusable)?.with_root_certificates(RootCertStore::empty());
        builder.with_client_auth_cert(chain, parsed).map_err(unusable)?;
        Ok(ClientTlsConfig { client_cert, client_key })
    }

    fn certificates(option: &'static str, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
        let parsed: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match parsed {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            _ => Err(refused(option, path, "a PEM file with at least one certificate")),
        }
    }

    fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
        fs::read(path).map_err(|error| refused(option, path, format!("a PEM file that can be read: {error}")))
    }
}
