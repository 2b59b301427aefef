// SPDX-License-Identifier: Apache-2.0
//! What is inside of the messages of a replication connection: pieces of the log and of files, as bytes.
//!
//! ```text
//! records (R)   each: end u64, length u32, payload
//! file (F)      length u64, name: the bytes of the file follow
//! bytes (D)     of the file
//! end (E)       of the file
//! published (P) version u64: all up to it may be shown
//! boundary (B)  version u64: behind all records so far, safe snapshots may go to it
//! manifest (M)  the bytes of the manifest: the copy is complete
//! ```
//! Numbers are little-endian.

use super::Fed;
use crate::error::StoreError;
use crate::log::{LogRecord, Lsn};
use coeval_txn::Version;
use std::fmt;

/// Bytes of a file in one frame.
const FILE_PIECE_BYTES: usize = 1 << 20;

/// A frame that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Records that follow on.
    Records(Vec<LogRecord>),
    /// The file of this name and length begins.
    File {
        /// Its name.
        name: &'a str,
        /// Its bytes.
        length: u64,
    },
    /// The next bytes of the file.
    Bytes(&'a [u8]),
    /// The file is complete.
    FileEnd,
    /// All up to this version may be shown.
    Published(Version),
    /// Safe snapshots may go to this version.
    Boundary(Version),
    /// The manifest of a copy, all files of which came before.
    Manifest(&'a [u8]),
}

/// The bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedFrame;

impl fmt::Display for MalformedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message of the replication stream is malformed")
    }
}

impl std::error::Error for MalformedFrame {}

impl<'a> Frame<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// [`MalformedFrame`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, MalformedFrame> {
        let (kind, body) = bytes.split_first().ok_or(MalformedFrame)?;
        match kind {
            b'R' => decode_records(body).map(Self::Records),
            b'F' => {
                let (length, name) = take_u64(body)?;
                Ok(Self::File { name: std::str::from_utf8(name).map_err(|_| MalformedFrame)?, length })
            }
            b'D' => Ok(Self::Bytes(body)),
            b'E' if body.is_empty() => Ok(Self::FileEnd),
            b'B' => match take_u64(body)? {
                (version, []) => Ok(Self::Boundary(Version::new(version))),
                _ => Err(MalformedFrame),
            },
            b'P' => match take_u64(body)? {
                (version, []) => Ok(Self::Published(Version::new(version))),
                _ => Err(MalformedFrame),
            },
            b'M' => Ok(Self::Manifest(body)),
            _ => Err(MalformedFrame),
        }
    }

    /// The frames of what a feed gives, one after the other, until one of them is not wanted any more. A file is read as they
    /// are made.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn encode_fed(fed: Fed, frames: &mut dyn FnMut(Vec<u8>) -> bool) -> Result<bool, StoreError> {
        match fed {
            Fed::Records(records) => Ok(frames(encode_records(&records))),
            Fed::Published(version) => Ok(frames(encode_version(b'P', version))),
            Fed::Boundary(boundary) => Ok(frames(encode_version(b'B', boundary))),
            Fed::File(name, mut file) => {
                let mut frame = vec![b'F'];
                frame.extend_from_slice(&file.length().to_le_bytes());
                frame.extend_from_slice(name.as_bytes());
                if !frames(frame) {
                    return Ok(false);
                }
                loop {
                    let bytes = file.read(FILE_PIECE_BYTES)?;
                    if bytes.is_empty() {
                        return Ok(frames(vec![b'E']));
                    }
                    let mut frame = vec![b'D'];
                    frame.extend_from_slice(&bytes);
                    if !frames(frame) {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// The frame of a manifest.
    #[must_use]
    pub fn encode_manifest(manifest: &[u8]) -> Vec<u8> {
        let mut frame = vec![b'M'];
        frame.extend_from_slice(manifest);
        frame
    }
}

fn encode_version(kind: u8, version: Version) -> Vec<u8> {
    let mut frame = vec![kind];
    frame.extend_from_slice(&version.get().to_le_bytes());
    frame
}

fn encode_records(records: &[LogRecord]) -> Vec<u8> {
    let mut frame = vec![b'R'];
    for record in records {
        frame.extend_from_slice(&record.end.get().to_le_bytes());
        let length = u32::try_from(record.payload.len()).expect("a record is shorter than 4 GiB");
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&record.payload);
    }
    frame
}

fn decode_records(mut bytes: &[u8]) -> Result<Vec<LogRecord>, MalformedFrame> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (end, rest) = take_u64(bytes)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(MalformedFrame)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (payload, rest) = rest.split_at_checked(length).ok_or(MalformedFrame)?;
        let record = LogRecord { end: Lsn::new(end), payload: payload.to_vec() };
        if !record.has_room() {
            return Err(MalformedFrame);
        }
        records.push(record);
        bytes = rest;
    }
    Ok(records)
}

fn take_u64(bytes: &[u8]) -> Result<(u64, &[u8]), MalformedFrame> {
    let (number, rest) = bytes.split_first_chunk::<8>().ok_or(MalformedFrame)?;
    Ok((u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(end: u64, payload: &[u8]) -> LogRecord {
        LogRecord { end: Lsn::new(end), payload: payload.to_vec() }
    }

    #[test]
    fn records_and_boundaries_are_read_as_they_were_written() {
        let records = vec![record(25, b"first"), record(51, b"second")];
        assert_eq!(Frame::decode(&encode_records(&records)), Ok(Frame::Records(records)));
        let version = Version::new(7);
        let mut frames = Vec::new();
        for fed in [Fed::Boundary(version), Fed::Published(version)] {
            let wanted = Frame::encode_fed(fed, &mut |frame| {
                frames.push(frame);
                true
            });
            assert!(wanted.unwrap());
        }
        assert_eq!(Frame::decode(&frames[0]), Ok(Frame::Boundary(version)));
        assert_eq!(Frame::decode(&frames[1]), Ok(Frame::Published(version)));
        assert_eq!(Frame::decode(&Frame::encode_manifest(b"{}")), Ok(Frame::Manifest(b"{}")));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let cut = &encode_records(&[record(25, b"first")]);
        let wrong: [&[u8]; 9] = [
            b"",
            b"X",
            b"Ex",
            b"B\0",
            b"P\0",
            b"F\0",
            &cut[..cut.len() - 1],
            &cut[..9],
            b"B\0\0\0\0\0\0\0\0\0",
        ];
        for bytes in wrong {
            assert_eq!(Frame::decode(bytes), Err(MalformedFrame), "{bytes:?}");
        }
        // A record cannot end before it has begun.
        assert_eq!(Frame::decode(&encode_records(&[record(24, b"first")])), Err(MalformedFrame));
    }
}
