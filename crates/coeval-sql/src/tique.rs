// SPDX-License-Identifier: Apache-2.0
//! Tables of other engines, under `coeval-tique`'s transactions: `CREATE SERVER`, `CREATE TABLE ... USING tique`.
//!
//! A foreign table is a definition like any other, which says where its rows are. A statement over tables of one server is
//! sent there whole ([`route`]); a query over others too reads each foreign table and is joined here. The transaction of
//! a session has a part on each server that it touched ([`crate::server_part`]), which ends with it. `docs/tique.md` has the rules and
//! why a commit that spans both is atomic.

mod bound;
mod definitions;
mod ending;
mod explanation;
mod harmless;
mod route;
mod rows;

pub(crate) use definitions::{ServerStatement, create_table};
pub(crate) use ending::end_statement;
pub(crate) use route::{explain, is_sent_whole, run, scan};
