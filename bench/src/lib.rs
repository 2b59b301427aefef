// SPDX-License-Identifier: Apache-2.0
//! Workloads of Coeval, the figures they report, and the populations they run on.
//!
//! # Owns
//! TPC-C, TPC-H, CH-benCHmark, YCSB, TiQuE on its engines, and three experiments on gets, loads and opening: their rows,
//! transactions and queries, the threads that run them, the checks of what they leave behind, and the one line of JSON at
//! the end. Histories of clients that append to lists, their recorder and the checker that looks for anomalies in them. A client
//! of PostgreSQL's protocol, so that four of them measure a server, Coeval's or PostgreSQL, in the same way. Primaries and replicas
//! that are started for a run, and the loss of one under load. Scans and loads of bricks on many nodes, each with a core of its own.
//!
//! # Never does
//! Parse a command line or print: the binary `coeval` does. Reach below the facades `coeval`, `coeval-tique` and
//! `coeval-cluster`: a workload does what any user of the libraries can do.
//!
//! # Invariants
//! - A transaction counts when its commit was acknowledged while the clock ran, and not otherwise.
//! - The same seed makes the same population and the same choices of each thread.
//! - A report says what it did not do as asked: a tiny population, violated checks, others on the machine.
//!
//! # Start reading at
//! [`run`], then `board.rs` (how threads are measured) and `tpcc/run.rs`.

mod aosi;
mod board;
mod burner;
pub mod chbench;
mod cluster;
mod connections;
mod directories;
mod drawing;
mod engine;
mod error;
pub mod failover;
mod followed;
mod foreign;
mod get;
mod histogram;
pub mod histories;
mod interval;
mod list_append;
mod load;
mod machine;
mod options;
mod pinning;
mod priority;
mod progress;
mod recovery;
mod replica;
mod report;
mod rss;
mod safe_age;
mod served;
mod sharing;
mod system;
mod table;
mod tique;
pub mod tpcc;
pub mod tpch;
mod wire;
mod workload;
mod ycsb;

pub use coeval_tique::Certification;
pub use error::BenchError;
pub use foreign::Way;
pub use histogram::Histogram;
pub use machine::{Machine, ProcessId};
pub use options::{
    Api, KeyChoice, Options, Population, Readers, Sending, TiquePart, UpdateReads, Workload, YcsbMix,
};
pub use progress::{Progress, Sample, Silent};
pub use report::Report;
pub use table::{ColumnSpec, TableSpec};
pub use workload::run;
