// SPDX-License-Identifier: Apache-2.0
//! How a client of another machine makes sure whom it talks to.

use crate::address::{PrimaryAddress, TlsMode};
use crate::error::ReplicaError;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

impl PrimaryAddress {
    /// What makes a connection to it encrypted, if it is to be: the other side has to have a certificate of the authorities in the file that
    /// was named.
    ///
    /// # Errors
    /// [`ReplicaError::Tls`] if that file cannot be read or has none.
    pub fn tls_config(&self) -> Result<Option<ClientConfig>, ReplicaError> {
        match &self.tls {
            TlsMode::Disable => Ok(None),
            TlsMode::VerifyFull(authorities) => trusting(self, authorities).map(Some),
        }
    }
}

/// Trusts the authorities of a file, and nobody else.
pub(crate) fn trusting(to: &PrimaryAddress, authorities: &Path) -> Result<ClientConfig, ReplicaError> {
    let failed = |what: String| ReplicaError::Tls { address: to.to_string(), what };
    let named = |error: &dyn fmt::Display| failed(format!("{}: {error}", authorities.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(authorities).map_err(|error| named(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| named(&error))?;
        roots.add(certificate).map_err(|error| named(&error))?;
    }
    if roots.is_empty() {
        return Err(named(&"there is no certificate in it"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
