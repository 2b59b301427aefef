// SPDX-License-Identifier: Apache-2.0
//! SQL on DataFusion: sessions, planning, DML, DDL, table providers and the point path.
//!
//! # Owns
//! Parsing, names, types as SQL sees them, sessions and their settings, prepared statements, the two ways a
//! statement runs (the point path, and DataFusion), SQLSTATEs, COPY, system tables.
//!
//! # Never does
//! Certify, log or store anything: every change goes through [`coeval_store::Transaction`]. No network.
//!
//! # Invariants
//! - A statement reads one snapshot, its own transaction's, on both paths.
//! - A statement that fails changes nothing that outlives its transaction, and leaves the session usable.
//! - Every error a user can cause has a SQLSTATE; user input never panics.
//! - Both paths give the same rows and the same errors.
//!
//! # Rooms
//! Modules import each other one way only, which a test holds. From the top:
//! ```text
//! opening                             an engine, put together
//! session                             one client: blocks, prepared statements, cursors
//! statement, explain                  which room runs what
//! ddl, copy, tique, dml               statements that change something
//! pieces                              parts of queries that run on other nodes of a cluster
//! query, point                        the two ways in which a query runs
//! spread                              rows of tables that are spread over a cluster
//! context, sequences, values, stored  what a statement runs in, and what definitions hold
//! catalog, system                     what the database says about itself
//! engine, servers                     the store, the threads, the servers: one per database
//! scalar, functions, json, provider   values row by row and in columns, tables as scans
//! parameters                          which ones a statement has, and of which types
//! parse, names, settings, rights      text, names, what a session has set, who may do what
//! types, relations, error, walk ...   what stands on nothing but what is below
//! ```
//!
//! # Start reading at
//! [`Session`] (`session.rs`), then `statement.rs` (which module runs what), then `query.rs` and `point.rs`.

mod advisory;
mod allowance;
mod archiving;
mod cancel;
mod carried;
mod catalog;
mod changes;
mod clock;
mod cluster;
mod column_name;
mod constants;
mod context;
mod copy;
mod ddl;
mod deadline;
mod definitions;
mod dml;
mod engine;
mod error;
mod explain;
mod failing_row;
mod followers;
mod foreign;
mod functions;
#[doc(hidden)]
pub mod fuzzing;
mod guarded;
mod hand_over;
mod json;
mod lock_graph;
mod memory;
mod names;
mod needs;
mod oids;
mod open_objects;
mod opening;
mod parameters;
mod parse;
mod password;
mod pieces;
mod plan_rule;
mod point;
mod progress;
mod provider;
mod query;
mod quota;
mod quoting;
mod registry;
mod relations;
mod result;
mod rights;
mod row_locking;
mod scalar;
mod select;
mod sequences;
mod server_part;
mod servers;
mod session;
mod settings;
mod spread;
mod spread_age;
mod spread_part;
mod stack;
mod standby_names;
mod statement;
mod stored;
mod system;
mod temporary;
mod thread_priority;
mod tique;
mod token;
mod turns;
mod types;
mod unique_keys;
mod upstream;
mod user_types;
mod values;
mod walk;
mod wrapped;
mod writing;

pub use archiving::{Archiving, ArchivingStatus, BackupExtent, Backups};
pub use cancel::{CancelHandle, CancelReason, ReplicaWait, StatementNumber};
pub use catalog::origin_of;
pub use changes::ChangeSource;
pub use clock::Clock;
pub use cluster::{
    Cluster, ClusterAges, ClusterDelete, ClusterFigures, ClusterLoad, ClusterLostMessages,
    ClusterMessageFigures, ClusterNamedLoad, ClusterNodeRoles, ClusterNodeShare, ClusterNodeState,
    ClusterNodeStatus, ClusterSnapshot, CommitMode, PieceOrder, PlacedBricks,
};
pub use context::SequenceValues;
pub use copy::{CopyEncoding, CopyIn, CopyOut, CopyRows};
pub use deadline::Deadline;
pub use definitions::Definitions;
pub use engine::{Engine, STATEMENT_STACK_BYTES};
pub use error::{ErrorObject, SqlError, SqlState};
pub use followers::{Followers, Following, Lags, Reply};
pub use json::ChangeAsJson;
pub use memory::{QUERY_MEMORY_MIN, QueryMemory, default_query_memory};
pub use parse::as_given;
pub use password::Verifier;
pub use pieces::run_piece;
pub use point::Rows;
pub use progress::{QueryProgress, RowWork};
pub use provider::{BrickScan, field_of_column};
pub use query::is_name_of_files;
pub use quota::{Quota, QuotaShare};
pub use registry::{
    Activity, ActivityState, Client, OpenTransaction, Registered, Registry, RegistryGuard, TransactionStatus,
};
pub use relations::CatalogType;
pub use result::{CommandTag, RowSet, RowStream, StatementResult};
pub use rights::Standing;
pub use session::{
    Acknowledgement, Execution, ForwardFetch, LateFailure, NamedStatement, ParsedStatement, Prepared,
    Session, begin_with_kept_settings,
};
pub use settings::Settings;
pub use thread_priority::TransactionsShare;
pub use token::SnapshotToken;
pub use turns::QueryTurns;
pub use types::{
    ParameterType, column_type, column_type_of_arrow, column_type_of_field, column_type_of_given,
    decode_binary, encode_binary, format_shown, format_value, parse_value, text_without_zone, type_number,
    utf8,
};
pub use upstream::{PromotionLoss, Upstream, UpstreamState, UpstreamStatus};
