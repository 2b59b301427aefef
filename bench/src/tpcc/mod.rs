// SPDX-License-Identifier: Apache-2.0
//! TPC-C: nine tables, five transaction types, the specification's population, mix and consistency conditions.
//!
//! What is not as the specification asks: terminals neither think nor type, a delivery is run at once instead of
//! queued, and the figures are no audited tpmC. Transactions that the specification has rolled back are part of the
//! mix but not of the throughput.

mod choice;
mod client;
mod consistency;
mod embedded;
mod execution;
mod foreign;
mod input;
mod load;
mod population;
mod run;
pub mod schema;
mod sql;
mod statements;
mod typed;
mod wire;

pub use choice::{NuRandConstants, last_name};
pub use consistency::{CONDITIONS, Condition, SNAPSHOT_CONDITIONS, violations};
pub use load::{Populated, populate};
pub use population::{Generator, POPULATION_TIME, Sizes, TableBatch};

pub(crate) use choice::Choice;
pub(crate) use consistency::{check_all, violations_at};
pub(crate) use input::Kind;
pub(crate) use load::{load, populate_system, send};
pub(crate) use run::{largest_history_id, report_terminals, run, terminal_worker, terminal_workers};
