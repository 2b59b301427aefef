// SPDX-License-Identifier: Apache-2.0
//! Whom a client's certificate names: the common name of its subject.
//!
//! ```text
//! subject   ::= SEQUENCE OF SET OF SEQUENCE { type OID, value }
//! ```
//! As in PostgreSQL, the first common name counts. One that is no text, or has a zero byte, names nobody.

use super::der::{IA5_STRING, OBJECT_IDENTIFIER, PRINTABLE_STRING, SEQUENCE, SET, UTF8_STRING, element};
use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

/// 2.5.4.3, the common name.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The certificate of a client that has proven to have its key, and that one of the authorities vouches for whom the
/// server was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// Whom it names.
    pub(crate) common_name: Option<String>,
}

impl ClientCertificate {
    /// What this certificate says, which has been verified.
    pub(crate) fn of(verified: &CertificateDer<'_>) -> Self {
        let read = EndEntityCert::try_from(verified).ok();
        Self { common_name: read.and_then(|read| common_name(read.subject())) }
    }
}

/// The first common name of a subject, without the head of the subject itself.
fn common_name(mut subject: &[u8]) -> Option<String> {
    while !subject.is_empty() {
        let (mut names, rest) = element(subject, SET)?;
        while !names.is_empty() {
            let (name, others) = element(names, SEQUENCE)?;
            let (kind, value) = element(name, OBJECT_IDENTIFIER)?;
            if kind == COMMON_NAME {
                return text(value);
            }
            names = others;
        }
        subject = rest;
    }
    None
}

fn text(value: &[u8]) -> Option<String> {
    let kinds = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING];
    let (bytes, _) = kinds.into_iter().find_map(|kind| element(value, kind))?;
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::pem::PemObject;

    fn wrapped(kind: u8, contents: &[u8]) -> Vec<u8> {
        [&[kind, contents.len() as u8], contents].concat()
    }

    fn attribute(kind: &[u8], value_kind: u8, value: &[u8]) -> Vec<u8> {
        let parts = [wrapped(OBJECT_IDENTIFIER, kind), wrapped(value_kind, value)].concat();
        wrapped(SEQUENCE, &parts)
    }

    #[test]
    fn a_certificate_names_the_first_common_name_of_its_subject() {
        let certificate = CertificateDer::from_pem_file("tests/certificate/app.crt").unwrap();
        let expected = ClientCertificate { common_name: Some("app".to_owned()) };
        assert_eq!(ClientCertificate::of(&certificate), expected);
        let organization = attribute(&[0x55, 0x04, 0x0A], UTF8_STRING, b"admin");
        let first = attribute(COMMON_NAME, PRINTABLE_STRING, b"ann");
        let second = attribute(COMMON_NAME, UTF8_STRING, b"admin");
        let one_by_one = [wrapped(SET, &organization), wrapped(SET, &first), wrapped(SET, &second)].concat();
        assert_eq!(common_name(&one_by_one).as_deref(), Some("ann"));
        let together = wrapped(SET, &[organization.clone(), first, second].concat());
        assert_eq!(common_name(&together).as_deref(), Some("ann"));
        assert_eq!(common_name(&wrapped(SET, &organization)), None);
    }

    #[test]
    fn a_name_that_is_no_text_or_has_a_zero_byte_or_is_cut_names_nobody() {
        const BMP_STRING: u8 = 0x1E;
        for (kind, value) in [
            (UTF8_STRING, &b"admin\0.example.org"[..]),
            (UTF8_STRING, b"\xFF"),
            (UTF8_STRING, b""),
            (BMP_STRING, b"\0a\0d"),
        ] {
            let subject = wrapped(SET, &attribute(COMMON_NAME, kind, value));
            assert_eq!(common_name(&subject), None, "{value:?}");
        }
        let subject = wrapped(SET, &attribute(COMMON_NAME, UTF8_STRING, b"ann"));
        for end in 0..subject.len() {
            assert_eq!(common_name(&subject[..end]), None, "{end} bytes of it");
        }
    }
}
