// SPDX-License-Identifier: Apache-2.0
//! The envelope of all objects but pieces: a version, a checksum, a JSON head, and data.
//!
//! | bytes | field | value |
//! |---|---|---|
//! | 0..8 | magic | `COEVALAR` |
//! | 8..12 | version | 1 |
//! | 12..16 | checksum | CRC32C of bytes 0..12 and 16.. |
//! | 16..24 | length | of the head |
//! | 24.. | head | JSON |
//! | | data | to the end |

use crate::error::ArchiveError;
use bytes::Bytes;
use crc32c::{crc32c, crc32c_append};
use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: [u8; 8] = *b"COEVALAR";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;

/// The bytes of an object.
pub(crate) fn seal(head: &impl Serialize, data: &[u8]) -> Bytes {
    let head = serde_json::to_vec(head).expect("heads are plain data");
    let mut bytes = Vec::with_capacity(HEADER_BYTES + head.len() + data.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(head.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(data);
    let checksum = checksum_of(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes.into()
}

/// The head and the data of an object.
///
/// # Errors
/// [`ArchiveError::Damaged`], [`ArchiveError::UnsupportedVersion`].
pub(crate) fn unseal<T: DeserializeOwned>(name: &str, bytes: &Bytes) -> Result<(T, Bytes), ArchiveError> {
    let damaged = |what: &str| ArchiveError::Damaged { object: name.to_owned(), what: what.to_owned() };
    let header = bytes.first_chunk::<HEADER_BYTES>().ok_or_else(|| damaged("it is cut off"))?;
    let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if header[..8] != MAGIC || checksum_of(bytes) != number(12) {
        return Err(damaged("the contents do not fit the checksum"));
    }
    if number(8) != FORMAT_VERSION {
        let (object, found) = (name.to_owned(), number(8));
        return Err(ArchiveError::UnsupportedVersion { object, found, supported: FORMAT_VERSION });
    }
    let length = u64::from_le_bytes(header[16..].try_into().expect("eight bytes"));
    let end = usize::try_from(length).ok().and_then(|length| HEADER_BYTES.checked_add(length));
    let end = end.filter(|end| *end <= bytes.len()).ok_or_else(|| damaged("the head is longer than all"))?;
    let head =
        serde_json::from_slice(&bytes[HEADER_BYTES..end]).map_err(|error| damaged(&error.to_string()))?;
    Ok((head, bytes.slice(end..)))
}

fn checksum_of(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&bytes[..12]), &bytes[16..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_pinned_and_each_of_them_counts() {
        let sealed = seal(&vec![1, 2], b"data");
        assert_eq!(sealed[..12], *b"COEVALAR\x01\0\0\0");
        assert_eq!(sealed[16..], *b"\x05\0\0\0\0\0\0\0[1,2]data");
        let (head, data) = unseal::<Vec<u8>>("x", &sealed).unwrap();
        assert_eq!((head, &*data), (vec![1, 2], &b"data"[..]));
        for at in 0..sealed.len() {
            let mut damaged = sealed.to_vec();
            damaged[at] ^= 4;
            assert!(unseal::<Vec<u8>>("x", &damaged.into()).is_err(), "byte {at}");
            assert!(unseal::<Vec<u8>>("x", &sealed.slice(..at)).is_err(), "{at} bytes");
        }
        let mut newer = sealed.to_vec();
        newer[8] = 2;
        let checksum = checksum_of(&newer);
        newer[12..16].copy_from_slice(&checksum.to_le_bytes());
        let refused = unseal::<Vec<u8>>("x", &newer.into());
        assert!(matches!(refused, Err(ArchiveError::UnsupportedVersion { found: 2, .. })));
    }
}
