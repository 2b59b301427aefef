// SPDX-License-Identifier: Apache-2.0
//! YCSB: reads, updates and inserts of records by key. Keys are `bigint` instead of YCSB's text.

mod key_choice;
mod run;
mod wire;

pub(crate) use key_choice::Records;
pub(crate) use run::run;
