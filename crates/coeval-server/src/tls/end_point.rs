// SPDX-License-Identifier: Apache-2.0
//! The digest of the server's certificate that clients bind their proofs to: `tls-server-end-point` (RFC 5929, section
//! 4.1).
//!
//! ```text
//! Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { OID, .. }, signatureValue }
//! ```
//! The digest is the one of the certificate's own signature, SHA-256 in place of the broken MD5 and SHA-1. A signature
//! that has none of its own (Ed25519) has no such binding.

use super::der::{OBJECT_IDENTIFIER, SEQUENCE, element};
use ring::digest::{self, Algorithm, SHA256, SHA384, SHA512};

/// The contents of the object identifiers of signatures, and the digests that certificates with them are bound by.
const SIGNATURES: [(&[u8], &Algorithm); 9] = [
    // 1.2.840.113549.1.1: RSA with MD5, SHA-1, SHA-256, SHA-384, SHA-512.
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x04], &SHA256),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x05], &SHA256),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0B], &SHA256),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0C], &SHA384),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0D], &SHA512),
    // 1.2.840.10045.4: ECDSA with SHA-1, SHA-256, SHA-384, SHA-512.
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x01], &SHA256),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x02], &SHA256),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x03], &SHA384),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x04], &SHA512),
];

/// The digest of a certificate in DER; `None` if its signature has none that binds.
pub(super) fn digest_of(certificate: &[u8]) -> Option<Box<[u8]>> {
    let (whole, _) = element(certificate, SEQUENCE)?;
    let (_, behind_what_is_signed) = element(whole, SEQUENCE)?;
    let (signature, _) = element(behind_what_is_signed, SEQUENCE)?;
    let (identifier, _) = element(signature, OBJECT_IDENTIFIER)?;
    let (_, algorithm) = SIGNATURES.iter().find(|(known, _)| *known == identifier)?;
    Some(digest::digest(algorithm, certificate).as_ref().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;

    #[test]
    fn the_digest_is_that_of_the_whole_certificate_by_its_own_signature() {
        let certificate = CertificateDer::from_pem_file("tests/certificate/server.crt").unwrap();
        let expected = digest::digest(&SHA256, &certificate);
        assert_eq!(digest_of(&certificate).as_deref(), Some(expected.as_ref()));
        for end in 0..40 {
            assert_eq!(digest_of(&certificate[..end]), None, "{end} bytes of it");
        }
    }

    #[test]
    fn a_signature_that_has_no_digest_binds_nothing() {
        let certificate = |identifier: &[u8]| {
            let sequence = |bytes: &[u8]| [&[SEQUENCE, bytes.len() as u8][..], bytes].concat();
            let identifier = [&[OBJECT_IDENTIFIER, identifier.len() as u8][..], identifier].concat();
            sequence(&[sequence(b""), sequence(&identifier)].concat())
        };
        let ecdsa_384 = certificate(SIGNATURES[7].0);
        assert_eq!(digest_of(&ecdsa_384).unwrap()[..], *digest::digest(&SHA384, &ecdsa_384).as_ref());
        // Ed25519.
        assert_eq!(digest_of(&certificate(&[0x2B, 0x65, 0x70])), None);
    }
}
