// SPDX-License-Identifier: Apache-2.0
//! TLS: the server's certificate and key, and the authorities that vouch for clients, from PEM files.

mod client_certificate;
mod der;
mod end_point;

pub(crate) use client_certificate::ClientCertificate;

use crate::error::ServerError;
use coeval_secret::read_secret_file;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Where the server's certificate and its key are.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate, and those that vouch for it behind it.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificates of those that vouch for clients. With them, clients are asked for certificates, and rules can
    /// demand them; one that none of them vouches for ends its connection.
    pub client_authorities: Option<PathBuf>,
}

/// What encrypts connections.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The digest of the certificate that clients can bind their proofs to, if its signature has one.
    pub(crate) end_point: Option<Arc<[u8]>>,
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> ServerError {
    ServerError::Certificate(format!("cannot use {}: {error}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => Err(failed(path, &"there is no certificate in it")),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(failed(path, &error)),
    }
}

/// What encrypts connections with this certificate.
///
/// # Errors
/// If a file cannot be read, others can read the key, or the two do not go together.
pub(crate) fn of_certificate(certificate: &Certificate) -> Result<Tls, ServerError> {
    let chain = certificates(&certificate.chain)?;
    let end_point = end_point::digest_of(&chain[0]).map(Arc::from);
    let key = read_secret_file(&certificate.key)?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| failed(&certificate.key, &error))?;
    let provider = Arc::new(default_provider());
    let verifier = match &certificate.client_authorities {
        Some(path) => verifier(path, &provider)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_client_cert_verifier(verifier).with_single_cert(chain, key))
        .map_err(|error| failed(&certificate.key, &error))?;
    if certificate.client_authorities.is_some() {
        // A session that is resumed has the certificate of the one before, which is not verified again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), end_point })
}

/// What verifies the certificates of clients, which need not have any: whether they do is for the rules to say, which
/// know who they want to be.
fn verifier(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, ServerError> {
    let mut authorities = RootCertStore::empty();
    for authority in certificates(path)? {
        authorities.add(authority).map_err(|error| failed(path, &error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| failed(path, &error))
}
