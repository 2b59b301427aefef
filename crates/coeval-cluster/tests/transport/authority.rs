// SPDX-License-Identifier: Apache-2.0
//! An authority that gives certificates to nodes, in files of its own.

use coeval_cluster::{Certificates, Security, TransportOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

pub(crate) struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
    given: AtomicUsize,
}

/// Until when a certificate counts.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Validity {
    Valid,
    Expired,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Each has a name of its own, as in life.
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("authority {}", MADE.fetch_add(1, Ordering::SeqCst));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        write(directory.path().join("ca.crt"), issuer.pem()).unwrap();
        Self { directory, issuer, given: AtomicUsize::new(0) }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// A certificate for a host.
    pub(crate) fn certificate(&self, host: &str, validity: Validity) -> Certificates {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        if validity == Validity::Expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let number = self.given.fetch_add(1, Ordering::SeqCst);
        let path = |kind: &str| self.directory.path().join(format!("{number}.{kind}"));
        write(path("crt"), certificate.pem()).unwrap();
        write(path("key"), key.serialize_pem()).unwrap();
        set_permissions(path("key"), Permissions::from_mode(0o600)).unwrap();
        Certificates { authorities: self.file(), chain: path("crt"), key: path("key") }
    }

    /// A node that has a certificate for where it is.
    pub(crate) fn secured(&self, options: TransportOptions) -> TransportOptions {
        let certificate = self.certificate(options.address.host(), Validity::Valid);
        TransportOptions { security: Security::Certificates(certificate), ..options }
    }
}
