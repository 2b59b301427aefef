// SPDX-License-Identifier: Apache-2.0
//! A persistent, parallel, ordered map: the P-Tree.
//!
//! A clone of a [`PTree`] is a snapshot for the price of a reference count. Updates copy the path from the root
//! to what they change, or change it in place when no other tree holds it. Bulk operations run in parallel.
//! Theory, differences from the papers and measured costs are in the crate's `README.md`.
//!
//! ```
//! use coeval_ptree::PTree;
//!
//! let mut accounts: PTree<u64, i64> = PTree::from_sorted((0..1000).map(|id| (id, 100)).collect());
//! let snapshot = accounts.clone();
//! accounts.multi_insert(vec![(1, -30), (2, 30)], |_, balance, change| balance + change);
//!
//! assert_eq!((accounts.get(&1), accounts.get(&2)), (Some(&70), Some(&130)));
//! assert_eq!(snapshot.map_reduce(|_, balance| *balance, |a, b| a + b, 0), 100_000);
//! ```
//!
//! # Owns
//! The tree's nodes: their layout, balance, sharing and the algorithms on them.
//!
//! # Never does
//! Knows of databases, versions or files; uses `unsafe`; blocks; spawns anything for small work.
//!
//! # Invariants
//! - Keys strictly increase from left to right.
//! - The separator of an inner node is greater than all keys to its left and not greater than any to its right.
//! - Each of two siblings holds at least 29 % of their parent's entries.
//! - A leaf holds at most `B` entries, and below an inner node at least 29 % of `B + 1`.
//! - A node's summary is that of its entries.
//! - A node is changed only through its sole reference, so what a clone can reach never changes.
//!
//! [`PTree::check_invariants`] checks all but the last.
//!
//! # Start reading at
//! `node` (layout), `balance` (the join primitive, the only code that knows about balance), then `bulk` and `sets`,
//! which are the papers' algorithms on top of it. `warm` and `directory` are about speed only. `tree` and `read`, `batch`, `pass` and
//! `aggregate` hold the public operations: on one key, on many keys, on all entries, and on what summaries know.
//! `nested` is about trees in trees.
#![forbid(unsafe_code)]

mod aggregate;
mod balance;
mod batch;
mod build;
mod bulk;
mod cut;
mod directory;
mod find;
mod grain;
mod invariants;
mod iter;
mod memory;
#[cfg(test)]
mod model;
mod nested;
mod node;
mod packed;
mod par_iter;
mod pass;
mod range_iter;
mod read;
mod sets;
mod summary;
mod tree;
mod update;
mod warm;

pub use crate::bulk::Fate;
pub use crate::directory::Directory;
pub use crate::grain::Grain;
pub use crate::invariants::{BrokenInvariant, Shape};
pub use crate::iter::Iter;
pub use crate::memory::Memory;
pub use crate::nested::{NestedBatch, group_batch, pairing, pairing_outer, primary, secondary};
pub use crate::node::DEFAULT_BLOCK;
pub use crate::packed::{Delta, DeltaMeasure, Encoding, Integer, PackedTree};
pub use crate::par_iter::ParIter;
pub use crate::pass::Scan;
pub use crate::range_iter::RangeIter;
pub use crate::summary::{Count, Max, Min, Sum, Summary};
pub use crate::tree::PTree;
