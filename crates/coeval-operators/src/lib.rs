// SPDX-License-Identifier: Apache-2.0
//! Operators for analytical queries, put into DataFusion's plans by rules of the SQL layer.
//!
//! # Owns
//!
//! How rows are grouped and added up, over windows too, compared, filtered and joined, and decimals computed, once they are Arrow's batches,
//! what joins tell the scans of their larger sides, and how what a plan has several times is computed once.
//!
//! # Never does
//!
//! I/O other than in temporary files, which DataFusion manages; transactions, tables, SQL. It depends on nothing of ours.
//!
//! # Invariants
//!
//! Each operator gives what DataFusion's own operator gives in its place, up to the order of rows, and each expression what DataFusion's
//! gives. Each can be switched off by a setting, so that a user can compare.
//!
//! # Start reading at
//!
//! [`coded_groups`]; [`shared_subplans`].

mod bytes;
pub mod coded_groups;
pub mod compared_pairs;
pub mod distinct_below_joins;
pub mod grouping_sets;
mod inputs;
pub mod integer_join;
pub mod join_filter;
pub mod join_keys;
#[cfg(test)]
mod model;
pub mod narrow_decimals;
pub mod packed_groups;
pub mod predicate;
pub mod running_windows;
pub mod shared_subplans;
pub mod stepwise_filter;
pub mod unordered;
pub mod vector;
