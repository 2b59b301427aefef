// SPDX-License-Identifier: Apache-2.0
//! CH-benCHmark: TPC-C's transactions and 22 analytical queries on the same live tables.

mod population;
mod queries;
mod run;

pub use population::{TABLES, generate};
pub use queries::QUERIES;
pub use run::{populate_all, run_mixed};

pub(crate) use run::{Mixed, Stations, Turns, mix, mix_at, populate, run};
