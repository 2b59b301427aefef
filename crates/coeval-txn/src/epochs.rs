// SPDX-License-Identifier: Apache-2.0
//! Epochs: the numbers of the transactions that write brick tables, and who sees which of them.
//!
//! Why: brick tables label rows with the epoch of the transaction that wrote them, one label for a run of rows
//! (AOSI). So a snapshot of them is a set of epochs, and taking it costs no look at a row.
//!
//! Terms (AOSI III-B): *EC*, the epoch clock, is the epoch that the next transaction gets; *LCE* the latest
//! committed epoch with nothing pending below; *LSE* the latest safe epoch: nothing pending below, no reader
//! that does not see all of it, everything flushed. `EC > LCE >= LSE` holds at every step and is asserted.
//!
//! - [`Epoch`], [`Stride`]: the number, and which numbers a node hands out;
//! - [`EpochSet`]: what a snapshot sees;
//! - [`EpochClock`]: EC, LCE, LSE and the pending epochs of one process;
//! - [`cluster`]: the same on many nodes, by messages (AOSI IV).

mod clock;
pub mod cluster;
mod counters;
mod epoch;
mod epoch_set;

pub use clock::{BegunEpoch, EpochClock, EpochStatus, HeldEpochs};
pub use epoch::{Epoch, Stride};
pub use epoch_set::EpochSet;
