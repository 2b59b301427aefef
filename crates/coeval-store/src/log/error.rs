// SPDX-License-Identifier: Apache-2.0
//! [`LogError`]: the disk failed, the log is damaged, or the log has stopped.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::files::FileError;
use crate::log::{Lsn, PAYLOAD_BYTES_MAX};

/// What is wrong at a damaged place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The header of a segment is not valid, though it was durable before the segment got its name.
    SegmentHeader,
    /// There is no valid record, though one was durable here.
    Record,
    /// The log ends before the place up to which the checkpoint contains it.
    EndsBeforeCheckpoint(Lsn),
    /// The place up to which the checkpoint contains the log is inside a record.
    CheckpointInsideRecord(Lsn),
    /// The log ends before the place up to which it was durable when it was closed.
    EndsBeforeNoted(Lsn),
    /// The note of where the log ended when it was closed is not what was written.
    EndNote,
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::SegmentHeader => write!(formatter, "the segment header is not valid"),
            Damage::Record => write!(formatter, "a record that was durable is not valid"),
            Damage::EndsBeforeCheckpoint(from) => {
                write!(formatter, "the log ends here, but the checkpoint contains it up to {from}")
            }
            Damage::CheckpointInsideRecord(from) => {
                write!(formatter, "the checkpoint's place {from} is inside a record")
            }
            Damage::EndsBeforeNoted(end) => {
                write!(formatter, "the log ends here, but reached to {end} when it was closed")
            }
            Damage::EndNote => {
                let without = "without this file the end is not checked";
                write!(formatter, "this is no note of where the log ended ({without})")
            }
        }
    }
}

/// An error of the log. Cheap to clone.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file layer failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The log is damaged before its tail. Nothing was changed.
    #[error("the log is damaged: file {}, offset {offset}: {damage}", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// The offset in the segment file.
        offset: u64,
        /// What is wrong there.
        damage: Damage,
    },
    /// Records between the checkpoint and the end of the log are gone with their segment. Nothing was changed.
    #[error("the log is damaged: segment {} is missing", path.display())]
    MissingSegment {
        /// The name that a segment with the first missing record would have.
        path: PathBuf,
    },
    /// The log does not reach back to a place that somebody wants to read it from.
    #[error("the log does not reach back to {wanted}: it begins at {first}")]
    Gone {
        /// The place.
        wanted: Lsn,
        /// The first record that is there.
        first: Lsn,
    },
    /// The segment was written by another version of the program.
    #[error("{} has log format version {found}; this program reads version {supported}", path.display())]
    UnsupportedVersion {
        /// The segment.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version this program reads and writes.
        supported: u32,
    },
    /// The payload is empty or too long; nothing was written, the log goes on.
    #[error("a log record takes 1 to {PAYLOAD_BYTES_MAX} bytes, not {bytes}")]
    PayloadSize {
        /// The size of the payload.
        bytes: usize,
    },
    /// Whoever writes the log has panicked: a bug. What was under way is of unknown fate, as after a failed write.
    #[error("a panic {during}: {text}")]
    Panicked {
        /// Where.
        during: &'static str,
        /// What the panic said.
        text: String,
    },
    /// Another machine has been promised a timeline beyond that of the log: it is to be written there from now on.
    #[error("timeline {timeline} was promised to another machine: this one has been superseded as primary")]
    Superseded {
        /// The number of the timeline.
        timeline: u32,
    },
    /// There is no room for a record on the disk. Nothing was written, the log goes on: with room, the same record can be
    /// appended.
    #[error("there is no room for a log record, and none was written: {0}")]
    NoRoom(#[source] FileError),
    /// An earlier write or sync failed, and since then the log takes nothing.
    #[error("the log has stopped: {first}")]
    Stopped {
        /// The failure that stopped it.
        #[source]
        first: Arc<LogError>,
    },
}

impl LogError {
    /// Whether the reason, now or when the log stopped, is a full disk.
    pub fn is_disk_full(&self) -> bool {
        match self {
            LogError::File(error) | LogError::NoRoom(error) => error.is_disk_full(),
            LogError::Stopped { first } => first.is_disk_full(),
            LogError::Damaged { .. }
            | LogError::MissingSegment { .. }
            | LogError::Gone { .. }
            | LogError::UnsupportedVersion { .. }
            | LogError::Panicked { .. }
            | LogError::Superseded { .. }
            | LogError::PayloadSize { .. } => false,
        }
    }

    /// Whether the reason, now or when the log stopped, is a panic.
    pub fn is_panic(&self) -> bool {
        match self {
            LogError::Panicked { .. } => true,
            LogError::Stopped { first } => first.is_panic(),
            _ => false,
        }
    }

    /// Whether the reason, now or when the log stopped, is that another machine writes it.
    pub fn is_superseded(&self) -> bool {
        match self {
            LogError::Superseded { .. } => true,
            LogError::Stopped { first } => first.is_superseded(),
            _ => false,
        }
    }

    /// Whether the reason is damage: bytes that were durable are not there.
    pub fn is_damage(&self) -> bool {
        matches!(self, LogError::Damaged { .. } | LogError::MissingSegment { .. })
    }
}

/// Why a log could not be opened: its own reason, or that of the one who took the records.
#[derive(Debug, thiserror::Error)]
pub enum OpenError<E> {
    /// The log's own reason.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The caller refused a record.
    #[error("replay of the log stopped at {}, offset {offset}: {source}", path.display())]
    Replay {
        /// The segment with the record.
        path: PathBuf,
        /// The record's offset in the segment file.
        offset: u64,
        /// The caller's error.
        source: E,
    },
}

impl<E> From<FileError> for OpenError<E> {
    fn from(error: FileError) -> OpenError<E> {
        OpenError::Log(LogError::File(error))
    }
}
