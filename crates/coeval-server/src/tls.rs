// SPDX-License-Identifier: Apache-2.0
//! TLS: the server's certificate and key, from PEM files.

mod end_point;

use crate::error::ServerError;
use crate::secret_file::read_secret_file;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;

/// Where the server's certificate and its key are.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate, and those that vouch for it behind it.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What encrypts connections.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The digest of the certificate that clients can bind their proofs to, if its signature has one.
    pub(crate) end_point: Option<Arc<[u8]>>,
}

/// What encrypts connections with this certificate.
///
/// # Errors
/// If a file cannot be read, others can read the key, or the two do not go together.
pub(crate) fn of_certificate(certificate: &Certificate) -> Result<Tls, ServerError> {
    let failed = |path: &PathBuf, error: &dyn std::fmt::Display| {
        ServerError::Certificate(format!("cannot use {}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(&certificate.chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(&certificate.chain, &error))?;
    let Some(own) = chain.first() else {
        return Err(failed(&certificate.chain, &"there is no certificate in it"));
    };
    let end_point = end_point::digest_of(own).map(Arc::from);
    let key = read_secret_file(&certificate.key)?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| failed(&certificate.key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| failed(&certificate.key, &error))?;
    Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), end_point })
}
