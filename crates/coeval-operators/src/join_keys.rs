// SPDX-License-Identifier: Apache-2.0
//! What a hash join looks for, noted while its smaller side is read.
//!
//! DataFusion's join hands the scan of its larger side a filter: the least and the greatest value of each key, and a look-up of a row's keys
//! in its own table, which may be far larger than the processor's caches: an array of the join's rows with a place for each value between
//! these two, or a table of hashes of a row's keys together. Neither tells its values but by being asked for each.
//!
//! An operator below the join notes the columns of keys instead, which costs a reference for each batch. When the smaller side has
//! ended, the first scan that asks has a set made of them: for each column a bit for each value between its bounds, if these are not
//! far apart, and otherwise, or if there are several, a Bloom filter of the keys together.
//!
//! ```text
//! HashJoinExec: on=[(a, x), (b, y)]            HashJoinExec: on=[(a, x), (b, y)]
//!   smaller side                        ==>      NotedKeysExec: columns=[a, b]
//!   scan of the larger side                        smaller side
//!                                                scan of the larger side, which asks for the set
//! ```
//!
//! The set errs to one side only: it may let a row through that has no partner, never the other way round. It knows whole numbers, dates and
//! instants; other columns of the join are left to the join. NULL is in no set, as it equals nothing.
//!
//! ```text
//! noting.rs    the operator
//! set.rs       what it notes, and what is made of that
//! bits.rs      the values of one column
//! bloom.rs     the values of all columns of a row together
//! numbers.rs   the columns that keys can be of
//! ```

mod bits;
mod bloom;
mod noting;
mod numbers;
mod set;
#[cfg(test)]
mod tests;

pub use bits::KeyBits;
pub use bloom::KeyBloom;
pub use noting::NotedKeysExec;
pub use numbers::Numbers;
pub use set::{JoinKeys, KeySet};
