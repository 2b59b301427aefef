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
//! # Rooms
//! Modules import each other one way only, which a test holds. From the top:
//! ```text
//! repair, verify                         a directory that nobody has open
//! following, candidacy, ingest           who takes the log of a store, who may be promoted
//! brick_age                              to which moment of a cluster's bricks the rows of a version belong
//! store                                  the handle of an open database
//! keeper, recovery                       the thread that looks after it, and how it is opened
//! transaction, checkpoint, unload ...    what works on an open store
//! shared                                 what all of these share
//! pipeline, publishing                   commits: certified, applied and logged; then seen
//! commit_context                         what commits need of their store: worlds, who reads them, switches
//! serializable, reservations, record     what is certified, reserved, written in the log
//! submission, write_set, reads ...       what a transaction hands in
//! world, view, bulk, age_table ...       all tables at one version; what is read and made of tables
//! table, bricks, space, pieces           one table at one version
//! disk, segment, chunk                   its files, and its base in them
//! catalog, row, column                   definitions, and how rows and columns are kept
//! value, key, types, log, files ...      what stands on nothing but what is below
//! ```
//!
//! # Start reading at
//! [`World`], then `space.rs` (base and delta), `transaction.rs`, `commit_context.rs` and `pipeline.rs`, and `docs/formats.md`
//! for the files.

mod access_rights;
mod age_table;
mod allocations;
mod applied_end;
mod brick_age;
mod brick_def;
mod bricks;
mod build_index;
mod bulk;
mod bulk_load;
mod candidacy;
mod catalog;
mod certification;
mod checkpoint;
mod checkpoints;
mod checks;
mod chunk;
mod chunk_column;
mod chunk_memory;
mod chunk_stats;
mod clock;
mod column;
mod commit_context;
mod companion;
mod conflicts;
#[cfg(test)]
mod crash_tests;
mod cursor;
mod default_privileges;
mod delta;
mod described;
mod disk;
mod durations;
mod enum_type;
mod error;
pub mod files;
mod following;
mod footprint;
mod freshness;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod golden_tests;
mod held_versions;
#[cfg(test)]
mod id_value;
mod ids;
mod index_file;
mod index_uses;
mod ingest;
mod keeper;
mod keeper_signal;
mod kept_log;
mod key;
mod key_column;
mod key_size;
pub mod log;
mod machine;
mod manifest;
mod memory_accounts;
#[cfg(test)]
mod model_workload;
mod narrow_decimals;
mod options;
mod packed_column;
mod pieces;
mod pipeline;
mod promises;
mod publication;
mod publishing;
mod qualified_name;
mod range;
mod reads;
mod recent_loads;
mod record;
mod recovery;
mod repair;
mod replicas;
mod reservations;
mod retention;
mod rewinding_mark;
mod row;
mod row_lock_error;
mod safe_counts;
mod second_digits;
mod segment;
mod sequence;
mod serializable;
mod session_defaults;
mod shared;
mod showing;
mod space;
mod stop;
mod store;
mod submission;
mod syncer;
mod table;
mod table_summary;
mod table_writes;
mod taken_keys;
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
mod write_set;

pub use access_rights::{
    ColumnGrants, Grant, Membership, ObjectAccess, Privilege, Privileges, RoleAttribute, RoleDef,
    UnknownPrivilege,
};
pub use allocations::{CountingAllocator, allocated_here};
pub use brick_def::{BrickDef, BrickDimension, Retention};
pub use bricks::{BrickRows, ScanOrder, bad_rows};
pub use candidacy::{Candidacy, CandidacyError, NotPromoted};
pub use catalog::{
    Catalog, CatalogChange, CheckDef, CheckOption, ColumnDef, ColumnState, DeclaredOrder, Deferral,
    DomainDef, ForeignDef, ForeignKeyDef, Identity, IndexDef, ObjectRef, ReferentialAction, SequenceDef,
    SequenceType, TableDef, TypeDef, Uniqueness, Validity, ViewColumn, ViewDef,
};
pub use checkpoint::CheckpointReport;
pub use checkpoints::CheckpointFailures;
pub use checks::{CheckCompiler, RowChecks};
pub use chunk::{CHUNK_ROWS, Chunk, ChunkPlace};
pub use chunk_memory::DataMemory;
pub use chunk_stats::{ChunkStats, ColumnStats};
pub use clock::LogTime;
pub use coeval_brick::{
    BrickId, BrickSchema, BrickView, ColumnStatistics as BrickColumnStatistics, Coverage, DimensionBounds,
    Grouping, LoadError, Number, Reader, RejectReason, Rejection, Selection,
};
pub use column::{ColumnBuilder, constant_column, missing_value};
pub use commit_context::RunAside;
pub use companion::Companion;
pub use conflicts::{
    ConflictCause, ConflictCounts, ConflictError, ConflictPlace, ConflictReason, Origin, Party,
    RecentConflict, STATEMENT_MARK,
};
pub use default_privileges::{DefaultPrivileges, NewObjects};
pub use delta::{BasePosition, Change, Delta, DeltaEntry};
pub use durations::Durations;
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
pub use key::{KEY_BYTES_MAX, KEY_INLINE_MAX, Key};
pub use key_column::{KeyColumn, KeyColumnBuilder};
pub use machine::{machine_memory, process_memory};
pub use manifest::FORMAT_VERSION;
pub use memory_accounts::{MemoryAccount, MemoryAccounts};
#[doc(hidden)]
pub use narrow_decimals::narrow_decimal_type;
pub use options::SafeLogging;
pub use options::{CheckpointPolicy, DamagedTables, Durability, StoreOptions, Trials};
pub use promises::{LogStanding, Promise};
pub use publication::Publication;
pub use publishing::WAIVED_LAG_MAX;
pub use qualified_name::{DEFAULT_SCHEMA, QualifiedName};
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
pub use second_digits::SECOND_DIGITS_MAX;
pub use serializable::{DeferralError, SafeWorld, SnapshotLag};
pub use session_defaults::{DefaultSetting, DefaultsReach, SessionDefaults};
pub use space::{Base, Found, Space};
pub use store::{SetValue, Store};
pub use table::{IndexEntry, RowRef, Table};
pub use table_summary::{ColumnSummary, TableSummary};
pub use terms::{ForeignHistory, Parting, Term, TermHistory, TermNumber, Timeline};
pub use transaction::{
    AccessMode, Appended, BrickSnapshot, BrickVersion, CheckTime, Committed, ConstraintChoice, IfLocked,
    IndexCursor, LockWaits, LockedRows, LockedState, NOTED_ROWS_MAX, Reading, Refused, RowCursor, RowLock,
    Savepoint, Scanned, Transaction,
};
pub use types::{ColumnType, ElementType, NUMERIC_PRECISION_MAX, NUMERIC_PRECISION_SHORT_MAX, Physical};
pub use value::{
    AnyNumber, AnyNumberRef, IntervalValue, KeyDamage, KeyReader, KeyWriter, ListEncoder, ListRef,
    NUMBER_SCALE_MAX, NUMBER_WHOLE_DIGITS_MAX, Nullable, NumberClass, Value, ValueRef, bits_length, bits_of,
    kept_bits, kept_place, kept_zoned_time, place_of, value_at, zoned_time_of,
};
pub use verify::{Problem, VerifyReport, verify};
pub use view::{
    BatchScan, ChangedRows, PlainRows, SCAN_BATCH_ROWS, ScanCounters, ScanPart, ScanWindow, TableSample,
    TableView, coded_text_type,
};
pub use world::World;
