// SPDX-License-Identifier: Apache-2.0
//! TPC-C.

mod choice;
mod input;
mod population;
pub mod schema;

pub(crate) use choice::Choice;
pub use choice::{NuRandConstants, last_name};
pub use population::{Generator, POPULATION_TIME, Sizes, TableBatch};
