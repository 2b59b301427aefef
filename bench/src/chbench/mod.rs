// SPDX-License-Identifier: Apache-2.0
//! CH-benCHmark.

mod population;
mod queries;

pub use population::{TABLES, generate};
pub use queries::QUERIES;
