// SPDX-License-Identifier: Apache-2.0
//! [`ReplicaError`]: why a primary cannot be followed.

use coeval_archive::ArchiveError;
use coeval_store::log::Lsn;
use coeval_store::{ChangeFeedError, FollowError, MalformedFrame, StoreError, TermNumber, Timeline};
use std::io;

/// Why a primary cannot be followed, now or at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// The text does not say where the primary is.
    #[error("\"{text}\" does not say where the primary is: {what}")]
    Address {
        /// The text, without a password.
        text: String,
        /// What is wrong.
        what: String,
    },
    /// The primary cannot be reached, or the connection has ended.
    #[error("the connection to {address}: {error}")]
    Connection {
        /// Host and port.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// TLS was wanted, and does not come about.
    #[error("TLS with {address}: {what}")]
    Tls {
        /// Host and port.
        address: String,
        /// Why.
        what: String,
    },
    /// The primary refuses, with this SQLSTATE.
    #[error("the primary refuses: {message} ({state})")]
    Refused {
        /// The SQLSTATE.
        state: String,
        /// Its message.
        message: String,
    },
    /// What came is not what a primary sends.
    #[error("the primary does not speak as one: {0}")]
    Protocol(String),
    /// It is the primary of another database.
    #[error("this is a replica of database {own}, and the primary has database {found}")]
    OtherDatabase {
        /// The replica's.
        own: u64,
        /// The primary's.
        found: u64,
    },
    /// Its program may write what this one does not read. Nothing was taken.
    #[error(
        "the primary's program writes format {found}, and this program reads formats up to {supported}: use that program \
         here, or a newer one (replicas are brought up to date before their primary)"
    )]
    NewerFormat {
        /// The primary's.
        found: u32,
        /// The newest that is read.
        supported: u32,
    },
    /// It was to be followed by a former primary, and has not come after it.
    #[error(
        "the primary is in term {found}, and this database has gone on to term {own}: which of them is right?"
    )]
    OlderTerm {
        /// The former primary's.
        own: TermNumber,
        /// The primary's.
        found: TermNumber,
    },
    /// A replica has log that the one which was promoted never had, and can be cut back to where they part: while nobody has it open.
    #[error("the histories part at {parting}, and the log can be cut back to there")]
    Rewindable {
        /// Where they part.
        parting: Lsn,
    },
    /// The checkpoint of a former primary, or of a replica of it, contains log that the new one never had: it cannot be cut back to
    /// where they part.
    #[error("the histories part at {parting}, and its checkpoint contains the log up to {checkpoint}")]
    CheckpointBeyond {
        /// Where they part.
        parting: Lsn,
        /// Up to where the checkpoint contains the log.
        checkpoint: Lsn,
    },
    /// It has come after a former primary without a promotion: it is a copy of one's directory that was opened.
    #[error(
        "the primary is in timeline {found}, as this database was: it was not promoted, and may lack what was acknowledged"
    )]
    NotPromoted {
        /// The primary's.
        found: Timeline,
    },
    /// A former primary was to go on with an archive that has heard of nobody who has come after it: it may be the primary still, or who was
    /// promoted has not archived anything yet.
    #[error(
        "the archive has nothing of a database that has come after this one: its newest history ends with term {found}. If another machine was \
         promoted, wait until it has archived something; if none was, this one is served without --replica-of"
    )]
    NotSucceeded {
        /// The last term of the archive's newest history.
        found: TermNumber,
    },
    /// Another machine was promised a timeline beyond the primary's: that one is to be followed.
    #[error("the primary is in timeline {found}, and timeline {promised} was promised to another machine")]
    Superseded {
        /// The primary's.
        found: Timeline,
        /// The promised one.
        promised: Timeline,
    },
    /// A replica is followed that does not have the log from here on, and other machines are known that may be the primary.
    #[error("{address} is a replica itself and does not have the log: {reason}")]
    ReplicaLacks {
        /// Host and port.
        address: String,
        /// What it says.
        reason: String,
    },
    /// A replica is followed that has a part of the log that is here, and no more: it goes on once that has caught up.
    #[error(
        "{address} is a replica itself and has the log only up to {durable}, and this one has it up to {position}"
    )]
    ReplicaBehind {
        /// Host and port.
        address: String,
        /// The end of what it has durably.
        durable: Lsn,
        /// The end of what is here.
        position: Lsn,
    },
    /// It is served with `--salvage`. Another server may come in its place.
    #[error("{0} is served to be read only, as some of its files may be damaged: nobody follows it")]
    Salvaged(String),
    /// It is followed only while it is the primary.
    #[error("{0} is a replica itself")]
    NoPrimary(String),
    /// The archive does not give the log.
    #[error("the archive: {0}")]
    Archive(#[from] ArchiveError),
    /// A copy is not waited for any more.
    #[error("the copy was stopped, as that was asked for")]
    Stopped,
    /// The store does not take what came.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// The copy cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The feed of changes does not go on.
    #[error(transparent)]
    Feed(#[from] ChangeFeedError),
}

impl ReplicaError {
    /// Whether the primary does not have the log any more that is missing here: a new copy is needed.
    #[must_use]
    pub fn needs_copy(&self) -> bool {
        matches!(self, Self::Refused { state, .. } if state == UNDEFINED_FILE)
    }

    /// Whether it was promoted, and its history is another one than is here: what is here has to be cut back, or copied anew.
    pub(crate) fn is_parted(&self) -> bool {
        matches!(self, Self::Rewindable { .. } | Self::CheckpointBeyond { .. })
    }

    /// Whether a command is not known there: its program is older.
    pub(crate) fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Refused { state, .. } if state == SYNTAX_ERROR)
    }

    /// Whether who is followed has not come so far itself.
    pub(crate) fn is_too_early(&self) -> bool {
        matches!(self, Self::Refused { state, .. } if state == CANNOT_CONNECT_NOW)
    }

    /// Whether the replica's own store takes nothing any more, whoever gives it.
    #[must_use]
    pub fn is_of_store(&self) -> bool {
        matches!(self, Self::Follow(_)) && self.is_final()
    }

    /// Whether a machine has promised what was asked for to another, or is beyond it.
    pub(crate) fn has_promised_another(&self) -> bool {
        matches!(self, Self::Refused { state, .. } if state == OBJECT_NOT_IN_PREREQUISITE_STATE)
    }

    /// Whether trying again changes nothing.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::OtherDatabase { .. }
            | Self::OlderTerm { .. }
            | Self::Rewindable { .. }
            | Self::CheckpointBeyond { .. }
            | Self::Address { .. }
            | Self::Feed(_) => true,
            Self::Follow(error) => {
                !matches!(error, FollowError::OutOfPlace { .. } | FollowError::Superseded { .. })
            }
            Self::Refused { state, .. } => state == OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::Archive(error) => matches!(
                error,
                ArchiveError::AnotherDatabase { .. } | ArchiveError::Store(StoreError::ForeignHistory(_))
            ),
            _ => false,
        }
    }
}

/// What the primary says when the log does not reach back so far.
const UNDEFINED_FILE: &str = "58P01";
/// What it says of a command that it does not know.
const SYNTAX_ERROR: &str = "42601";
/// What a replica says to one that is ahead of it, as far as it knows.
const CANNOT_CONNECT_NOW: &str = "57P03";
/// What it says of another history.
const OBJECT_NOT_IN_PREREQUISITE_STATE: &str = "55000";

impl From<MalformedFrame> for ReplicaError {
    fn from(error: MalformedFrame) -> Self {
        Self::Protocol(error.to_string())
    }
}
