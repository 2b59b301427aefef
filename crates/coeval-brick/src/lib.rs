// SPDX-License-Identifier: Apache-2.0
//! Bricks: append-only columns, partitioned on every dimension, with an epochs vector in place of timestamps.
//!
//! The theory, our differences from the paper and why they are sound, and what things cost are in the crate's
//! `README.md`.
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{Int32Array, RecordBatch, StringArray};
//! use arrow::datatypes::DataType;
//! use coeval_brick::{
//!     BrickSchema, BrickTable, Column, Dimension, DimensionValues, Metric, Nulls, Reader, Shards,
//! };
//! use coeval_txn::{EpochClock, Stride};
//!
//! let region = Dimension {
//!     name: "region".into(), values: DimensionValues::String, cardinality: 4, range_size: 2,
//! };
//! let likes = Metric { name: "likes".into(), data_type: DataType::Int32, nulls: Nulls::Refused };
//! let schema = BrickSchema::new(vec![Column::Dimension(region), Column::Metric(likes)])?;
//! let table = BrickTable::new(schema, Arc::new(Shards::start(2, 16)?));
//! let clock = EpochClock::new(Stride::ALONE);
//!
//! let batch = RecordBatch::try_from_iter([
//!     ("region", Arc::new(StringArray::from(vec!["north", "south", "north"])) as _),
//!     ("likes", Arc::new(Int32Array::from(vec![3, 5, 8])) as _),
//! ])?;
//! let load = table.route(&batch, 0)?.load;
//! let epoch = clock.begin().epoch;
//! table.append(epoch, load)?.wait()?;
//!
//! let before = Reader::of(clock.committed());
//! clock.commit(&[epoch]);
//! let after = Reader::of(clock.committed());
//! let view = table.view(&table.selection());
//! assert_eq!((view.count(&before), view.count(&after)), (0, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Owns
//!
//! The rows of brick tables in memory: columns, epochs vectors, dictionaries, and the threads that change them.
//!
//! # Never does
//!
//! Knows of transactions, SQL or files: it labels rows with epochs and shows them to sets of epochs; who begins,
//! commits and holds those is [`coeval_txn::EpochClock`]'s part. Makes a reader wait.
//!
//! # Invariants
//!
//! - A brick is changed by the one thread of its shard.
//! - What has been published (bytes of a column, rows of a brick, entries of an epochs vector) never changes and
//!   never moves. Rollback and purge make another brick, and readers keep the one they have.
//! - The entries of an epochs vector cover all rows of the brick, each once.
//! - Whoever sees an epoch finds all its rows: appends are done before their epoch is committed, rows of a
//!   rolled-back epoch are gone before it ends.
//!
//! # Start reading at
//!
//! `epochs_vector` and `visibility`, which are the paper's sections III-C1 to III-C3; the tests of `brick`, which are
//! its figures and tables; then `brick` itself, `rebuild` (purge and rollback), `table`. `fixed_buffer` is the one module with `unsafe`.

mod bits;
mod block;
mod brick;
mod brick_id;
mod chain;
mod column;
mod declaration;
mod dictionaries;
mod dictionary;
mod epochs_vector;
#[expect(unsafe_code, reason = "readers scan memory in place while its one writer appends behind them")]
mod fixed_buffer;
mod grouping;
mod load;
mod marks;
mod missing;
mod new_strings;
mod ordinals;
mod rebuild;
mod rejections;
mod route;
mod scan;
mod schema;
mod selection;
mod shards;
mod statistics;
mod stored;
mod table;
mod table_shard;
mod visibility;
mod written;

pub use brick::{BrickMemory, BrickView, Deletion};
pub use brick_id::{BrickId, BrickLayout, LayoutError};
pub use declaration::{Column, Dimension, DimensionValues, Metric, Nulls};
pub use epochs_vector::{DeleteMarker, EpochsPair};
pub use grouping::Grouping;
pub use load::{LoadError, RejectReason, Rejection, Routed, RoutedBatches, RoutedLoad};
pub use marks::{BRICK_MARK_BYTES, BrickMark};
pub use scan::{BrickFlush, DimensionBounds, TableView};
pub use schema::{BrickSchema, SchemaError};
pub use selection::{Coverage, CutBrick, Selection};
pub use shards::{ShardStopped, Shards, Ticket};
pub use statistics::{ColumnStatistics, Number};
pub use stored::MalformedLoad;
pub use table::BrickTable;
pub use table_shard::Applied;
pub use visibility::{Reader, Visible, VisibleRows};
