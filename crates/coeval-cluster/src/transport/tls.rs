// SPDX-License-Identifier: Apache-2.0
//! TLS between nodes: both sides show a certificate of the cluster's authorities, for the host that they are at.
//!
//! A client's certificate is checked by the library for its authority and dates only, since TLS has no notion of where a client
//! is: that it names the host of the node it says to be is checked here, once the greeting says which ([`names_host`]).

use super::error::{ConfigurationError, LinkError};
use super::options::Certificates;
use crate::node_address::NodeAddress;
use coeval_secret::read_secret_file;
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, InvalidMessage, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What is spoken inside, so that another program that has a certificate of the same authority is refused in the handshake.
const APPLICATION_PROTOCOL: &[u8] = b"coeval-cluster";

/// What encrypts connections, on either side of them.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
}

impl Tls {
    /// What encrypts connections of a node at this address.
    ///
    /// # Errors
    /// If a file cannot be read, others can read the key, the two do not go together, or the certificate is not for the
    /// node's host.
    pub(super) fn of(files: &Certificates, own: &NodeAddress) -> Result<Self, ConfigurationError> {
        let provider = Arc::new(default_provider());
        let mut authorities = RootCertStore::empty();
        for authority in certificates(&files.authorities)? {
            authorities.add(authority).map_err(|error| unusable(&files.authorities, &error))?;
        }
        let authorities = Arc::new(authorities);
        let chain = certificates(&files.chain)?;
        if !names_host(&chain[0], own.host()) {
            return Err(ConfigurationError::OwnCertificate {
                path: files.chain.clone(),
                host: own.host().to_owned(),
            });
        }
        let key = read_secret_file(&files.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| unusable(&files.key, &error))?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&authorities), Arc::clone(&provider))
                .build()
                .map_err(|error| unusable(&files.authorities, &error))?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| {
                builder.with_client_cert_verifier(verifier).with_single_cert(chain.clone(), key.clone_key())
            })
            .map_err(|error| unusable(&files.key, &error))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| builder.with_root_certificates(authorities).with_client_auth_cert(chain, key))
            .map_err(|error| unusable(&files.key, &error))?;
        // A session that is resumed has the certificate of the one before, which is not verified again.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        client.resumption = Resumption::disabled();
        server.alpn_protocols = vec![APPLICATION_PROTOCOL.to_vec()];
        client.alpn_protocols = vec![APPLICATION_PROTOCOL.to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
        })
    }
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> ConfigurationError {
    ConfigurationError::Certificate { path: path.to_owned(), what: error.to_string() }
}

/// The certificates in a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigurationError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => Err(unusable(path, &"there is no certificate in it")),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unusable(path, &error)),
    }
}

/// Whether a certificate is for this host.
pub(super) fn names_host(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let Ok(name) = ServerName::try_from(host) else { return false };
    webpki::EndEntityCert::try_from(certificate)
        .is_ok_and(|read| read.verify_is_valid_for_subject_name(&name).is_ok())
}

/// What an error on a connection is, if it may be one of TLS.
pub(super) fn link_error(address: &str, error: &io::Error) -> LinkError {
    let address = address.to_owned();
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match of_tls {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => LinkError::Tls {
            address,
            what: "the other side does not speak TLS: it has no certificates, or is no node".to_owned(),
        },
        Some(rustls::Error::AlertReceived(alert)) => LinkError::Tls {
            address,
            what: format!("the other side refuses this node's certificate or TLS as such: {alert:?}"),
        },
        Some(error) => LinkError::Tls { address, what: error.to_string() },
        None => LinkError::Ended { address, what: error.to_string() },
    }
}
