// SPDX-License-Identifier: Apache-2.0
//! Coeval: a database for transactions and analytics on the same live data.
//!
//! Whatever a statement reads, one row or a whole table, it reads from one snapshot in which everything is of
//! the same age.
//!
//! ```
//! use coeval::{Database, Isolation, Value};
//!
//! # fn main() -> Result<(), coeval::Error> {
//! let db = Database::in_memory()?;
//! let mut session = db.session();
//! session.execute("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)")?;
//!
//! // Keys and rows, for code that must be fast: retried until it commits.
//! let accounts = db.table("accounts")?;
//! db.transaction(Isolation::Snapshot, |tx| {
//!     tx.put(&accounts, accounts.row(&[Value::Int64(1), Value::Int64(100)])?)?;
//!     Ok::<_, coeval::Error>(())
//! })?;
//!
//! // The same rows in SQL.
//! let rows = session.query("SELECT sum(balance) FROM accounts")?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Owns
//! What users depend on: [`Database`], [`Session`], [`Transaction`], [`Error`].
//!
//! # Never does
//! Anything itself: the store keeps the data, the SQL layer runs statements.
//!
//! # Invariants
//! - A [`Database::transaction`] closure's result is given out only when its commit was acknowledged.
//! - Dropping the last handle closes the database; what was acknowledged is there at the next open.
//!
//! # Start reading at
//! [`Database`].

mod append;
mod copying;
mod database;
mod error;
mod exporting;
mod reader;
mod session;
mod table;
mod transaction;

pub use append::AppendOptions;
#[doc(hidden)]
pub use coeval_sql::{
    Archiving, ArchivingStatus, BackupExtent, Backups, ChangeSource, Cluster, ClusterAges, ClusterDelete,
    ClusterFigures, ClusterLoad, ClusterLostMessages, ClusterMessageFigures, ClusterNamedLoad,
    ClusterNodeRoles, ClusterNodeShare, ClusterNodeState, ClusterNodeStatus, ClusterSnapshot, CommitMode,
    Engine, PieceOrder, PlacedBricks, PromotionLoss, SnapshotToken, Upstream, UpstreamState, UpstreamStatus,
    run_piece,
};
pub use coeval_sql::{
    CancelHandle, ChangeAsJson, CommandTag, Definitions, QUERY_MEMORY_MIN, QueryProgress, RowSet, RowWork,
    Rows, STATEMENT_STACK_BYTES, Settings, SqlError, SqlState, StatementResult, TransactionStatus, as_given,
    column_type_of_arrow, column_type_of_field, column_type_of_given, format_shown, format_value,
    parse_value,
};
pub use coeval_store::{
    Appended, BrickSnapshot, CheckpointFailures, CheckpointPolicy, ColumnDef, ColumnType, ConflictCounts,
    ConstraintError, CountingAllocator, DamagedTables, DeclaredOrder, Deferral, Direction, Durability,
    Durations, ElementType, ForeignKeyDef, Grant, Identity, IndexDef, IndexEntry, Ingested, IntervalValue,
    Key, KeyRange, KeyWriter, ListEncoder, ListRef, Membership, NUMERIC_PRECISION_MAX, ObjectAccess,
    ObjectRef, Privilege, Privileges, QualifiedName, ReferentialAction, RejectReason, Rejection,
    RepairReport, RoleAttribute, RoleDef, Row, RowRef, SafeSnapshotCounts, ScanOrder, SequenceDef,
    SequenceType, SnapshotLag, SpaceId, StoreError, TableDamage, TableDef, Uniqueness, Value, ValueRef,
    VerifyReport, ViewColumn, ViewDef, value_at,
};
#[doc(hidden)]
pub use coeval_store::{
    BaseCopy, BrickSchema, CHANGE_FEED_NAME, CandidacyError, Catalog, ChangeFeed, ChangeFeedError,
    ChangeFeedOptions, ChangeSink, ChangeStart, ChangeToken, ChangedRow, FORMAT_VERSION, Fed, FedChange,
    FedTransaction, Follower, FormerPrimary, Frame, LogFeed, LogMark, LogTime, MalformedToken, Promise,
    Publication, Rewound, SafeLogging, Store, TermNumber, Timeline, Word,
    files::{DiskFiles, FileError, Holder},
    log::{LogRecord, Lsn},
};
pub use coeval_txn::{Isolation, Version};
pub use copying::{CopyInput, CopyOutcome, CopyOutput};
pub use database::{Database, DatabaseOptions};
pub use error::Error;
pub use exporting::{Exporter, RowColumn, TextForm};
pub use reader::{Outcome, RowReader};
pub use session::{Prepared, Session};
pub use table::Table;
pub use transaction::Transaction;
