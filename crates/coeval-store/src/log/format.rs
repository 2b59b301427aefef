// SPDX-License-Identifier: Apache-2.0
//! The bytes of segments and records: encoding, decoding, and nothing else. The tables are in `log.rs`.

use std::fmt;
use std::path::{Path, PathBuf};

use crc32c::{crc32c, crc32c_append, crc32c_combine};

use crate::log::ChecksumPolicy;

/// A byte position in the whole log. Segment headers do not count. People are shown it in one form, which they can give back as an
/// argument: [`to_wal_text`](Self::to_wal_text).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// The beginning of a log that has never held a record.
    pub const START: Lsn = Lsn(0);

    /// The position `bytes` behind the start. To read one back from a manifest.
    pub const fn new(bytes: u64) -> Lsn {
        Lsn(bytes)
    }

    /// The number of bytes before this position. To write it into a manifest.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The bytes from `earlier` to here.
    ///
    /// # Panics
    /// When `earlier` is later.
    pub fn distance_from(self, earlier: Lsn) -> u64 {
        self.0.checked_sub(earlier.0).expect("distances are asked from the earlier position")
    }

    /// The position `bytes` further on.
    pub(crate) fn plus(self, bytes: u64) -> Lsn {
        Lsn(self.0.checked_add(bytes).expect("a log never reaches 2^64 bytes"))
    }
}

impl Lsn {
    /// As PostgreSQL writes a place in its log, `0/1A2B3C`.
    #[must_use]
    pub fn to_wal_text(self) -> String {
        format!("{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }

    /// Reads what [`to_wal_text`](Self::to_wal_text) writes.
    #[must_use]
    pub fn from_wal_text(text: &str) -> Option<Self> {
        let (high, low) = text.split_once('/')?;
        let half = |text: &str| u32::from_str_radix(text, 16).ok().map(u64::from);
        Some(Self(half(high)? << 32 | half(low)?))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LSN {}", self.to_wal_text())
    }
}

/// What is shown of whole structures, as in lines of the server's log, has the same form.
impl fmt::Debug for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Lsn({})", self.to_wal_text())
    }
}

/// The longest payload: it is held in memory, and a length that damage made up must not exhaust it.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// The version in each segment header.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The size of a segment header; later versions keep it and its checksum, so that they are told from damage.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 24;

/// The size of a record header.
pub(crate) const RECORD_HEADER_BYTES: usize = 20;

const MAGIC: [u8; 8] = *b"COEVALOG";
const SEGMENT_SUFFIX: &str = ".log";
const LSN_DIGITS: usize = 20;

/// The ending of a segment that has not got its name yet; of no value after a crash.
pub(crate) const UNFINISHED_SUFFIX: &str = ".log.tmp";

// A payload length must fit in its four bytes, and an LSN in the digits of a file name.
const _: () = assert!(PAYLOAD_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(u64::MAX.ilog10() as usize + 1 == LSN_DIGITS);

/// The path of the segment that starts at `first`.
pub(crate) fn segment_path(dir: &Path, first: Lsn) -> PathBuf {
    dir.join(format!("{:0LSN_DIGITS$}{SEGMENT_SUFFIX}", first.0))
}

/// The path under which that segment is made before it gets its name.
pub(crate) fn unfinished_path(dir: &Path, first: Lsn) -> PathBuf {
    dir.join(format!("{:0LSN_DIGITS$}{UNFINISHED_SUFFIX}", first.0))
}

/// The first LSN in a segment's file name; `None` for a file that is no segment.
pub(crate) fn parse_segment_name(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    let well_formed = digits.len() == LSN_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if well_formed { digits.parse().ok().map(Lsn) } else { None }
}

/// What the first bytes of a segment file say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SegmentHeader {
    /// A segment of this version that starts here.
    Valid(Lsn),
    /// A whole header of another version.
    OtherVersion(u32),
    /// No header.
    Invalid,
}

fn segment_checksum(header: &[u8; SEGMENT_HEADER_BYTES]) -> u32 {
    crc32c_append(crc32c(&header[..12]), &header[16..])
}

/// The header of the segment that starts at `first`.
pub(crate) fn encode_segment_header(first: Lsn) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut header = [0; SEGMENT_HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[16..].copy_from_slice(&first.0.to_le_bytes());
    let checksum = segment_checksum(&header);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Reads the header at the front of a segment file.
pub(crate) fn decode_segment_header(file: &[u8], checksums: ChecksumPolicy) -> SegmentHeader {
    let Some(header) = file.first_chunk::<SEGMENT_HEADER_BYTES>() else {
        return SegmentHeader::Invalid;
    };
    let checked = u32_at(header, 12) == segment_checksum(header);
    if header[..8] != MAGIC || !(checked || checksums == ChecksumPolicy::IgnoredOnPurpose) {
        return SegmentHeader::Invalid;
    }
    match u32_at(header, 8) {
        FORMAT_VERSION => SegmentHeader::Valid(Lsn(u64_at(header, 16))),
        other => SegmentHeader::OtherVersion(other),
    }
}

/// A record header that can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// The payload's size in bytes; never 0.
    pub(crate) length: usize,
    /// Up to here the log was durable when the header was written.
    pub(crate) synced: Lsn,
    /// CRC32C of the payload.
    pub(crate) payload_checksum: u32,
}

impl RecordHeader {
    /// Whether `payload` is the one that the header was written for.
    pub(crate) fn fits(&self, payload: &[u8], checksums: ChecksumPolicy) -> bool {
        debug_assert_eq!(payload.len(), self.length);
        checksums == ChecksumPolicy::IgnoredOnPurpose || crc32c(payload) == self.payload_checksum
    }

    /// The bytes that the whole record takes in the log.
    pub(crate) fn record_bytes(&self) -> u64 {
        (RECORD_HEADER_BYTES + self.length) as u64
    }
}

fn record_header_checksum(lsn: Lsn, header: &[u8; RECORD_HEADER_BYTES]) -> u32 {
    let checksum = crc32c_append(crc32c(&lsn.0.to_le_bytes()), &header[..4]);
    crc32c_append(checksum, &header[8..])
}

/// The last bytes of a payload, which stand elsewhere: how many, and their checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadTail {
    pub(crate) bytes: usize,
    pub(crate) checksum: u32,
}

impl PayloadTail {
    /// No bytes.
    pub(crate) const NONE: PayloadTail = PayloadTail { bytes: 0, checksum: 0 };

    /// Costs a pass over the bytes.
    pub(crate) fn checksum_of(bytes: &[u8]) -> u32 {
        crc32c(bytes)
    }
}

/// Writes the header into the first bytes of `record`, whose payload stands behind it already, but for its tail.
///
/// # Panics
/// When the payload is empty or too long, or `synced` is above `lsn`: the caller has checked both.
pub(crate) fn seal_record(record: &mut [u8], tail: PayloadTail, lsn: Lsn, synced: Lsn) {
    let (header, payload) =
        record.split_first_chunk_mut::<RECORD_HEADER_BYTES>().expect("the caller left room for the header");
    let bytes = payload.len() + tail.bytes;
    assert!(bytes > 0 && bytes <= PAYLOAD_BYTES_MAX, "payload size was checked");
    assert!(synced <= lsn, "the log cannot be durable beyond its end");
    let length = u32::try_from(bytes).expect("PAYLOAD_BYTES_MAX fits in 32 bits");
    let checksum = match tail.bytes {
        0 => crc32c(payload),
        bytes => crc32c_combine(crc32c(payload), tail.checksum, bytes),
    };
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[8..16].copy_from_slice(&synced.0.to_le_bytes());
    header[16..].copy_from_slice(&checksum.to_le_bytes());
    let checksum = record_header_checksum(lsn, header);
    header[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads the header of the record at `lsn` from the front of `bytes`; `None` if there is no valid one.
pub(crate) fn decode_record_header(
    bytes: &[u8],
    lsn: Lsn,
    checksums: ChecksumPolicy,
) -> Option<RecordHeader> {
    let header = bytes.first_chunk::<RECORD_HEADER_BYTES>()?;
    let length = u32_at(header, 0) as usize;
    let synced = Lsn(u64_at(header, 8));
    // The cheap conditions come first: a search for attesting headers asks at every byte of a tail.
    if length == 0 || length > PAYLOAD_BYTES_MAX || synced > lsn {
        return None;
    }
    let checked = u32_at(header, 4) == record_header_checksum(lsn, header);
    if !(checked || checksums == ChecksumPolicy::IgnoredOnPurpose) {
        return None;
    }
    Some(RecordHeader { length, synced, payload_checksum: u32_at(header, 16) })
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(*bytes[offset..].first_chunk().expect("offset lies inside a header of fixed size"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(*bytes[offset..].first_chunk().expect("offset lies inside a header of fixed size"))
}
