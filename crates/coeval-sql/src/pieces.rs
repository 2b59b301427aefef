// SPDX-License-Identifier: Apache-2.0
//! Pieces of queries that run where the bricks of spread tables are, so that what is made of rows travels and not the rows.
//!
//! ```text
//!   AggregateExec: mode=Final                      AggregateExec: mode=Final
//!     CoalescePartitionsExec                         CoalescePartitionsExec
//!       AggregateExec: mode=Partial       ==>          SpreadPieces: here=2 bricks, node 2=3 bricks, node 3=3 bricks
//!         FilterExec                                     AggregateExec: mode=Partial      \  done here with the bricks that are
//!           SpreadScan: bricks=8                           FilterExec                      } here, and the same on each of the
//!                                                            SpreadScan: bricks=2         /  other nodes with theirs
//! ```
//! **What goes into a piece.** Filters and projections above the scan of a spread table, and above these a first step of aggregates, what
//! keeps the best rows of each group, a sort, or a limit. What is above a piece does the same once more with what comes out of all of them;
//! it merges all rows of a sort. Aggregates over a union are begun in each branch (`unions.rs`). Who has what bricks is asked when the plan
//! is made. If all are here, or something cannot be written down (`codec.rs`: a function that is not the same wherever it runs, a value of
//! another operator's making), the plan stays as it is: rows are fetched, as for everything else.
//!
//! **What is sent along** (`keys.rs`). The keys that hash joins above look for, once they are known: other nodes leave out rows without a
//! partner. A scan with nothing above it becomes a piece for that alone. Bricks whose ranges rule out a partner are not read, here or elsewhere.
//!
//! **Joins in a piece** (`joins.rs`). Where something is gathered of the rows of a hash join, the join goes into the piece, and all rows of its
//! small input are sent along.
//!
//! **Windows** (`shares.rs`). Each partition of a window has its rows on all nodes. So nodes exchange rows: each has those whose keys fall to its
//! share, and does with them the window and what is above it.
//!
//! **What a piece sees.** The snapshot of its statement, which is one for all nodes, and held until the statement is done with it.
//!
//! **When a node fails** (`asking.rs`). What it has given is dropped; another one that has the bricks is asked, and if that fails too, their
//! rows are read from wherever they are, as without pieces. So an error that the piece itself has made comes again here, with its
//! SQLSTATE. An answer of more than is kept goes on while it comes; if the rest does not come, the statement fails with `57P03`. Outside a
//! block it is run again by itself then, as long as none of its rows has been given out (`session/attempts.rs`).
//!
//! **Memory.** On either side what is kept is the query's: of the statement here, of a query of its own there. An answer is made as it is
//! taken, so no more of it is on its way than a few megabytes.
//!
//! **Versions.** A piece is in the words of one version of the program and of DataFusion, whose states of aggregates are nobody's format.
//! A node of another version refuses it, and its rows are read.
//!
//! | file | what it is |
//! |---|---|
//! | `rule.rs`, `unions.rs` | which part of a plan becomes a piece |
//! | `plan.rs`, `asking.rs` | the node of the plan, and how another node's part of it is had |
//! | `codec.rs`, `expressions.rs`, `aggregates.rs`, `first_rows.rs`, `group_tops.rs`, `windows.rs`, `wire.rs` | a piece, written down and read |
//! | `shares.rs`, `share.rs`, `exchange.rs` | rows that nodes exchange, each its share, and what is done with them |
//! | `joins.rs`, `sent_input.rs` | joins in a piece, and the input that is sent |
//! | `keys.rs` | what joins above look for |
//! | `known.rs` | the functions that both sides have |
//! | `owner.rs` | a piece of another node's query, run here |

mod aggregates;
mod asking;
mod codec;
mod exchange;
mod expressions;
mod first_rows;
mod group_tops;
mod joins;
mod keys;
mod known;
mod owner;
mod plan;
mod rule;
mod sent_input;
mod share;
mod shares;
mod unions;
mod windows;
mod wire;

pub use owner::run_piece;
pub(crate) use plan::SpreadPieces;
pub(crate) use rule::PushPieces;

#[cfg(test)]
mod tests;
