// SPDX-License-Identifier: Apache-2.0
//! Failovers in a simulation of machines ([`cluster`]), with two kinds of clients: those that insert rows, and everything that
//! they were told of or saw is looked for behind each failover ([`inserts`]); and those that append to lists and read them
//! on all machines, whose history has to be serializable ([`lists`], [`history`]).

use super::{SimulatedFiles, Store, copy_to, feed_of, log_options, options, sizes};

mod chains_changes_slots;
mod cluster;
mod history;
mod inserts;
mod lists;
mod unseen;
