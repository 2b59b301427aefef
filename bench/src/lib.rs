// SPDX-License-Identifier: Apache-2.0
//! Workloads of Coeval and the figures they report.

mod error;
mod histogram;
mod machine;
mod options;
mod progress;
mod report;
mod table;
pub mod tpcc;

pub use error::BenchError;
pub use histogram::Histogram;
pub use machine::Machine;
pub use options::{Api, KeyChoice, Options, Population, Workload, YcsbMix};
pub use progress::{Progress, Sample, Silent};
pub use report::Report;
