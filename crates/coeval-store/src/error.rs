// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, by family: the user's doing, a conflict (try again), damage, the machine.

use crate::catalog::QualifiedName;
use crate::conflicts::ConflictError;
use crate::files::FileError;
use crate::ids::SpaceId;
use crate::log::{LogError, Lsn};
use crate::retention::SlotError;
use crate::row::ValueTypeMismatch;
use crate::row_lock_error::RowLockError;
use crate::terms::{ForeignHistory, Timeline};
use crate::value::KeyDamage;
use coeval_brick::{CutBrick, LoadError, ShardStopped};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A constraint was violated. The statement has no effect; the transaction goes on where the caller kept a
/// savepoint.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstraintError {
    /// A second owner of a primary key or unique key (23505).
    #[error("duplicate key value violates unique constraint \"{constraint}\"")]
    Unique {
        /// The table.
        table: Box<QualifiedName>,
        /// The constraint.
        constraint: String,
        /// `(columns)=(values)`.
        key: String,
    },
    /// NULL in a NOT NULL column (23502).
    #[error("null value in column \"{column}\" of relation \"{table}\" violates not-null constraint")]
    NotNull {
        /// The table.
        table: Box<QualifiedName>,
        /// The column.
        column: String,
    },
    /// A child without a parent (23503).
    #[error("insert or update on table \"{table}\" violates foreign key constraint \"{constraint}\"")]
    ForeignKeyMissing {
        /// The child table.
        table: Box<QualifiedName>,
        /// The constraint.
        constraint: String,
        /// The parent table.
        parent: Box<QualifiedName>,
        /// `(columns)=(values)`.
        key: String,
    },
    /// A parent with children (23503).
    #[error(
        "update or delete on table \"{parent}\" violates foreign key constraint \"{constraint}\" on table \"{table}\""
    )]
    ForeignKeyReferenced {
        /// The child table.
        table: Box<QualifiedName>,
        /// The constraint.
        constraint: String,
        /// The parent table.
        parent: Box<QualifiedName>,
        /// `(columns)=(values)`.
        key: String,
    },
    /// A CHECK that is false (23514).
    #[error("new row for relation \"{table}\" violates check constraint \"{constraint}\"")]
    Check {
        /// The table.
        table: Box<QualifiedName>,
        /// The constraint.
        constraint: String,
    },
    /// NULL in a column whose domain does not allow it (23502).
    #[error("domain {domain} does not allow null values")]
    DomainNull {
        /// The domain.
        domain: Box<QualifiedName>,
    },
    /// A CHECK of a column's domain that is false (23514).
    #[error("value for domain {domain} violates check constraint \"{constraint}\"")]
    DomainCheck {
        /// The domain.
        domain: Box<QualifiedName>,
        /// The constraint.
        constraint: String,
    },
    /// An expression of the definition, a CHECK or a DEFAULT, that could not be computed for this row.
    #[error("{message}")]
    Expression {
        /// The SQLSTATE.
        state: &'static str,
        /// What was wrong.
        message: String,
    },
}

/// An operation on a transaction failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A constraint refused the change.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// Another transaction was first.
    #[error(transparent)]
    Conflict(#[from] ConflictError),
    /// There is no memory for what the transaction would keep until it commits. The change that needed it was not made.
    #[error("out of memory for the changes of a transaction")]
    OutOfMemory(String),
    /// A row lock was not got.
    #[error(transparent)]
    RowLock(#[from] RowLockError),
    /// No such table in the snapshot.
    #[error("there is no table or index with number {0}")]
    UnknownSpace(SpaceId),
    /// The row to change is not there.
    #[error("the row to change is not there")]
    MissingRow,
    /// The transaction was declared read-only (25006).
    #[error("cannot execute {0} in a read-only transaction")]
    ReadOnly(&'static str),
    /// A sequence has no further value (2200H).
    #[error("nextval: reached the end of sequence \"{0}\"")]
    SequenceExhausted(String),
    /// No such sequence.
    #[error("sequence does not exist")]
    UnknownSequence,
    /// A value is not of its column's type: the caller's bug.
    #[error(transparent)]
    ValueType(#[from] ValueTypeMismatch),
    /// Bytes of a key do not read back.
    #[error(transparent)]
    KeyDamage(#[from] KeyDamage),
    /// A row of a bulk load is out of its place, or the batches have other columns than the table.
    #[error("{0}")]
    BulkLoad(String),
    /// The database no longer takes commits: a write or sync of its log failed before, or a panic stopped them. Nothing
    /// was done. Reads go on.
    #[error("commits have stopped: {0}")]
    Stopped(#[source] LogError),
    /// A write or sync of the log failed under this commit: whether it is durable is decided by what is on the disk, and
    /// known when the database is opened again (08007). Nobody saw it meanwhile.
    #[error(
        "it is not known whether the transaction is committed; opening the database again decides by what is on disk: {0}"
    )]
    OutcomeUnknown(#[source] LogError),
    /// The wait for replicas was interrupted. The transaction is committed here, and is seen when they have it.
    #[error("the wait for synchronous replicas was canceled")]
    NotReplicated,
    /// The database lives in memory alone, and that needs files.
    #[error("a database in memory cannot be followed or copied")]
    NoDirectory,
    /// The directory is a replica's, and was to be opened as a database of its own: it would not be a replica any more.
    #[error("{directory} holds a replica: start it as one, or promote it first")]
    FollowsAnother {
        /// The directory.
        directory: String,
    },
    /// The directory is no replica's, and was to be opened as one.
    #[error("{directory} holds no replica: one begins with a copy, in a directory of its own")]
    FollowsNobody {
        /// The directory.
        directory: String,
    },
    /// The copy that a replica begins with did not end.
    #[error(
        "{directory} holds an unfinished copy of a database: start it as a replica to begin the copy anew"
    )]
    UnfinishedCopy {
        /// The directory.
        directory: String,
    },
    /// The log of a former primary, or of a replica of it, is being cut back, and that did not end (55000). Nobody opens it before it has.
    #[error(
        "{directory} is being cut back to the log of another primary: start it with --replica-of, which goes on with that"
    )]
    UnfinishedRewinding {
        /// The directory.
        directory: String,
    },
    /// The log of a former primary, or of a replica of it, cannot be cut back to this place (55000). Nothing was changed.
    #[error("{directory} cannot be cut back to {place}: {what}; put it aside and begin with a copy")]
    NotRewindable {
        /// The directory.
        directory: String,
        /// The place.
        place: Lsn,
        /// Why.
        what: String,
    },
    /// A follower's log is not the beginning of this one.
    #[error("the follower's log is not the beginning of this one: {0}")]
    ForeignHistory(#[from] ForeignHistory),
    /// The store follows another one, and a follower of its own has more of the log (57P03): it may be given the rest later.
    #[error("this replica has the log up to {end}, and the follower up to {position} already")]
    FollowerIsAhead {
        /// What is here.
        end: Lsn,
        /// What the follower has.
        position: Lsn,
    },
    /// Another machine was promised this timeline, or a higher one (55000). Nothing was promised.
    #[error("timeline {asked} cannot be promised any more: this machine has got to timeline {promised}")]
    PromisedAnother {
        /// What was asked for.
        asked: Timeline,
        /// The highest that was promised, or that the log is in.
        promised: Timeline,
    },
    /// A slot that was asked for. Nothing was changed.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The store follows another one, which alone is written to (25006).
    #[error("cannot execute {0} on a replica")]
    OnReplica(&'static str),
    /// The database is being closed.
    #[error("the database is being closed")]
    Closing,
    /// An operation on rows of a brick table (0A000).
    #[error("\"{table}\" is a brick table: its rows have no keys and are not changed one by one")]
    BrickTable {
        /// The table.
        table: Box<QualifiedName>,
    },
    /// An operation on bricks of a table of rows: the caller's bug.
    #[error("\"{0}\" is no brick table")]
    NoBrickTable(Box<QualifiedName>),
    /// An operation on rows of a table that are spread over the nodes of a cluster (0A000): none of them is here, and a store that
    /// took some would lose them to all others.
    #[error("the rows of \"{0}\" are spread over the nodes of a cluster, and none is in the store")]
    SpreadTable(Box<QualifiedName>),
    /// What a brick table cannot have (0A000).
    #[error("brick table \"{table}\" does not take {what}")]
    BrickDefinition {
        /// The table.
        table: Box<QualifiedName>,
        /// What was asked for.
        what: String,
    },
    /// The definition of a brick table, or its threads, are not as they must be.
    #[error("{0}")]
    Brick(String),
    /// Rows that a brick table does not take.
    #[error(transparent)]
    BrickLoad(#[from] LoadError),
    /// A delete that would cut a brick (0A000).
    #[error(transparent)]
    CutBrick(#[from] CutBrick),
    /// An order of a scan that cannot be run here (55000). Nothing was read.
    #[error("the scan cannot be run: {0}")]
    ScanOrder(String),
    /// A thread that writes bricks has stopped.
    #[error(transparent)]
    ShardStopped(#[from] ShardStopped),
    /// More bytes of changes than one log record takes (54000). Nothing of the transaction took effect.
    #[error("the changes of one transaction take {bytes} bytes in the log; at most {max} are possible")]
    TransactionSize {
        /// What it would take.
        bytes: usize,
        /// What it may take.
        max: usize,
    },
    /// A key that is longer than one may be (54000). Nothing was changed.
    #[error("a key of \"{index}\" takes {bytes} bytes; at most {max} are possible")]
    KeySize {
        /// The index, or the primary key.
        index: String,
        /// What it would take.
        bytes: usize,
        /// What it may take.
        max: usize,
    },
    /// The log could not be written or read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file could not be written or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file holds what no writer of ours wrote (XX001).
    #[error("{file} is damaged at offset {offset}: {what}")]
    Corrupt {
        /// Which file.
        file: String,
        /// Where.
        offset: u64,
        /// What was expected.
        what: String,
    },
    /// The directory holds no database, but files of somebody else (55000). Nothing was written.
    #[error(
        "\"{directory}\" is no database and not empty (it holds \"{file}\"): name a new or an empty directory"
    )]
    ForeignDirectory {
        /// The directory.
        directory: String,
        /// One of the files.
        file: String,
    },
    /// Some files of a database are there, and what they need is not (XX001). Nothing was changed.
    #[error(
        "\"{directory}\" holds {found} of a database, but {directory}/{missing} is not there: {advice}; nothing was changed"
    )]
    IncompleteDatabase {
        /// The directory.
        directory: String,
        /// One of the files that are there.
        found: String,
        /// What is missing.
        missing: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A table whose files are damaged, in a database that is served without it (XX001).
    #[error("table \"{table}\" cannot be read: {damage}")]
    DamagedTable {
        /// The table.
        table: Box<QualifiedName>,
        /// What is damaged, and where.
        damage: Arc<TableDamage>,
    },
    /// The database was opened to be read only, because some of it is damaged (25006).
    #[error("cannot execute {0}: the database is open to be read only, as some of it may be damaged")]
    ServedReadOnly(&'static str),
    /// A file was written by another version of the program.
    #[error("{file} has format version {found}; this program reads version {supported}")]
    UnsupportedVersion {
        /// Which file.
        file: String,
        /// Its version.
        found: u32,
        /// The version this program reads and writes.
        supported: u32,
    },
    /// The text of a CHECK constraint has no meaning (any more).
    #[error("{0}")]
    CheckText(String),
    /// Arrow refused a batch.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
}

/// Why a table cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDamage {
    /// The file, or the directory of the log.
    pub file: String,
    /// Where in it; of the log, the position behind the record.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for TableDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at offset {}: {}", self.file, self.offset, self.what)
    }
}

impl TableDamage {
    /// What an error says of a table; of one that names no file, that it came of `file`.
    pub(crate) fn of(error: &StoreError, file: &Path, offset: u64) -> Self {
        match error {
            StoreError::Corrupt { file, offset, what } => {
                Self { file: file.clone(), offset: *offset, what: what.clone() }
            }
            StoreError::File(error) => {
                Self { file: error.path().display().to_string(), offset: 0, what: error.to_string() }
            }
            other => Self { file: file.display().to_string(), offset, what: other.to_string() },
        }
    }
}

impl StoreError {
    /// What an error of the wait for the log means to a transaction whose record was appended.
    pub(crate) fn under_commit(self) -> Self {
        match self {
            Self::Stopped(reason) => Self::OutcomeUnknown(reason),
            other => other,
        }
    }

    /// Damage of a file, at an offset.
    pub(crate) fn corrupt(file: &Path, offset: u64, what: &str) -> Self {
        Self::Corrupt { file: file.display().to_string(), offset, what: what.to_owned() }
    }
}
