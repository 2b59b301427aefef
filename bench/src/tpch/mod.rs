// SPDX-License-Identifier: Apache-2.0
//! TPC-H: eight tables, 22 queries, and the same after updates at random keys.

mod answers;
mod files;
mod load;
mod queries;
mod run;
mod tables;
mod update;

pub use answers::{differing_rows, text_rows};
pub use files::{parquet_path, read_parquet, write_parquet};
pub use queries::{QUERY_COUNT, query};
pub use tables::{LINEITEM, ORDERS, TABLES, generate, part_count, row_estimate};

pub(crate) use load::populate;
pub(crate) use run::run;
