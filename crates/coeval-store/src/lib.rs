// SPDX-License-Identifier: Apache-2.0
//! The store of Coeval: worlds, row tables, catalog, commit pipeline, log, checkpoint, recovery.
//!
//! # Owns
//! The data: every version of it in memory, and the files that it survives in. The catalog as definitions.
//! Constraints that concern keys: primary keys, uniqueness, foreign keys, NOT NULL.
//!
//! # Never does
//! SQL: expressions are text to it, types are physical. It decides nothing about isolation beyond what
//! `coeval-txn` says.
//!
//! # Invariants
//! - A world never changes; worlds are published in the order of their versions, each after its log record is
//!   durable (or durability was waived).
//! - A table's contents are base without delta's keys plus delta's rows; a checkpoint changes the parts and
//!   not the contents.
//! - Each row has exactly one entry in each index of its table, in every world.
//! - What was acknowledged is found again after a crash; what was not is found whole or not at all.
//!
//! # Start reading at
//! [`World`], then `space.rs` (base and delta), `transaction.rs`, `pipeline.rs`, and `docs/formats.md` for the
//! files.

mod access_rights;
mod allocations;
mod applied_end;
mod brick_def;
mod bricks;
mod build_index;
mod bulk;
mod candidacy;
mod catalog;
mod checkpoint;
mod checks;
mod chunk;
mod chunk_memory;
mod clock;
mod column;
mod companion;
mod conflicts;
mod cursor;
mod delta;
mod disk;
mod durations;
mod element;
mod enum_type;
mod error;
pub mod files;
mod following;
mod footprint;
mod freshness;
#[doc(hidden)]
pub mod fuzzing;
mod held_versions;
#[cfg(test)]
mod id_value;
mod ids;
mod index_uses;
mod ingest;
mod keeper;
mod kept_log;
mod key;
mod key_column;
mod key_size;
mod list;
pub mod log;
mod machine;
mod manifest;
#[cfg(test)]
mod model_workload;
mod options;
mod pipeline;
mod promises;
mod publishing;
mod range;
mod recent_loads;
mod record;
mod recovery;
mod repair;
mod replicas;
mod reservations;
mod retention;
mod row;
mod row_lock_error;
mod safe_counts;
mod segment;
mod sequence;
mod serializable;
mod shared;
mod showing;
mod space;
mod stop;
mod stopping;
mod store;
mod submission;
mod syncer;
mod table;
mod terms;
mod transaction;
mod trap;
mod turns;
mod types;
mod unload;
mod value;
mod verify;
mod view;
mod world;

pub use access_rights::{
    Grant, Membership, ObjectAccess, Privilege, Privileges, RoleAttribute, RoleDef, UnknownPrivilege,
};
pub use allocations::{CountingAllocator, allocated_here};
pub use brick_def::{BrickDef, BrickDimension, Retention};
pub use bricks::{BrickRows, ScanOrder};
pub use candidacy::{Candidacy, CandidacyError, NotPromoted};
pub use catalog::{
    Catalog, CatalogChange, CheckDef, ColumnDef, ColumnState, DEFAULT_SCHEMA, DeclaredOrder, Deferral,
    ForeignDef, ForeignKeyDef, Identity, IndexDef, ObjectRef, QualifiedName, ReferentialAction, SequenceDef,
    TableDef, TypeDef, Uniqueness, ViewDef,
};
pub use checkpoint::{CheckpointFailures, CheckpointReport};
pub use checks::{CheckCompiler, RowChecks};
pub use chunk::{CHUNK_ROWS, Chunk, ChunkPlace, ChunkStats, ColumnStats};
pub use chunk_memory::DataMemory;
pub use clock::LogTime;
pub use coeval_brick::{
    BrickView, ColumnStatistics as BrickColumnStatistics, Coverage, DimensionBounds, Grouping, LoadError,
    Number, Reader, RejectReason, Rejection, Selection,
};
pub use column::{ColumnBuilder, constant_column, missing_value, value_at};
pub use companion::Companion;
pub use conflicts::{
    ConflictCause, ConflictCounts, ConflictError, ConflictPlace, ConflictReason, Origin, Party,
    RecentConflict, STATEMENT_MARK,
};
pub use delta::{BasePosition, Change, Delta, DeltaEntry};
pub use durations::Durations;
pub use element::ElementType;
pub use enum_type::{EnumDef, EnumLabel, EnumType, LabelPlace};
pub use error::{ConstraintError, StoreError, TableDamage};
pub use following::{
    Acknowledgement, BaseCopy, ChangeFeed, ChangeFeedError, ChangeFeedOptions, ChangeSink, ChangeStart,
    ChangeToken, ChangedRow, CopiedFile, CopyWriter, Fed, FedChange, FedTransaction, FileWriter, FollowError,
    Follower, FormerPrimary, Frame, LastWord, LogFeed, MalformedFrame, MalformedToken, PrimaryWriter,
    ReplicaSession, Rewound, TakenLog, WayBack, Word, demote, go_on_rewinding, is_replica, promote, rewind,
    superseded,
};
pub use footprint::GlobalKey;
pub use freshness::Questions;
pub use held_versions::HeldVersions;
pub use ids::{CATALOG_SPACE, SequenceId, SpaceId};
pub use ingest::{IngestOffset, Ingested, SourceOffset};
pub use key::{KEY_BYTES_MAX, KEY_INLINE_MAX, Key, KeyDamage, KeyReader, KeyWriter, Nullable};
pub use key_column::{KeyColumn, KeyColumnBuilder};
pub use list::{ListEncoder, ListRef};
pub use machine::{machine_memory, process_memory};
pub use manifest::FORMAT_VERSION;
#[doc(hidden)]
pub use options::SafeLogging;
pub use options::{CheckpointPolicy, DamagedTables, Durability, StoreOptions, Trials};
pub use promises::{LogStanding, Promise};
pub use publishing::{Publication, WAIVED_LAG_MAX};
pub use range::{Direction, KeyRange};
pub use record::LogMark;
pub use repair::{RepairReport, repair};
pub use replicas::{
    CHANGE_FEED_NAME, Progress, ReplicaChoice, ReplicaRole, ReplicaStanding, SynchronousCommit,
    SynchronousReplicas,
};
pub use reservations::Priority;
pub use retention::{Slot, SlotError};
pub use row::{Layout, Row, RowWriter, ValueTypeMismatch};
pub use row_lock_error::RowLockError;
pub use safe_counts::SafeSnapshotCounts;
pub use serializable::{DeferralError, SafeWorld, SnapshotLag};
pub use shared::RunAside;
pub use space::{Base, Found, Space};
pub use store::{SetValue, Store};
pub use table::{IndexEntry, RowRef, Table};
pub use terms::{ForeignHistory, Parting, Term, TermHistory, TermNumber, Timeline};
pub use transaction::{
    AccessMode, Appended, BrickSnapshot, CheckTime, Committed, ConstraintChoice, IfLocked, IndexCursor,
    LockWaits, LockedRows, LockedState, MemoryAccount, MemoryAccounts, NOTED_ROWS_MAX, Reading, RowCursor,
    RowLock, Savepoint, Scanned, Transaction,
};
pub use types::{ColumnType, NUMERIC_PRECISION_MAX, NUMERIC_PRECISION_SHORT_MAX, Physical};
pub use value::{IntervalValue, Value, ValueRef};
pub use verify::{Problem, VerifyReport, verify};
pub use view::{
    BatchScan, ColumnSummary, SCAN_BATCH_ROWS, ScanCounters, ScanPart, TableSample, TableSummary, TableView,
};
pub use world::World;
