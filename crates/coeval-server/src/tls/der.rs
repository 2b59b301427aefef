// SPDX-License-Identifier: Apache-2.0
//! Elements of DER: a byte for what it is, its length, its contents. Of certificates, a verifier reads the rest.

pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0C;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const IA5_STRING: u8 = 0x16;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The contents of the element of this kind at the beginning, and what is behind it.
pub(super) fn element(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        short @ 0..=0x7F => (usize::from(short), rest),
        // The number of bytes that the length has; a certificate is not longer than four say.
        long @ 0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(long & 0x7F))?;
            (length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    (found == kind).then(|| rest.split_at_checked(length))?
}
