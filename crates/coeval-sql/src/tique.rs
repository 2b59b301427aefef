// SPDX-License-Identifier: Apache-2.0
//! Tables of other engines, under `coeval-tique`'s transactions (DESIGN 7): `CREATE SERVER`, `CREATE TABLE ... USING tique`.
//!
//! A foreign table is a definition like any other, which says where its rows are. A statement over tables of one server is
//! sent there whole ([`route`]); a query over others too reads each foreign table and is joined here. The transaction of
//! a session has a part on each server that it touched ([`part`]), which ends with it. `docs/tique.md` has the rules and
//! why a commit that spans both is atomic.

mod bound;
mod definitions;
mod engines;
mod error;
mod explanation;
mod harmless;
mod moments;
mod part;
mod route;
mod rows;
mod servers;

pub(crate) use definitions::{
    ServerStatement, children, create_table, forget_table, is_server, refuse_alter, refuse_definition,
};
pub(crate) use error::unknown_server;
pub(crate) use part::{Ended, Part, end_statement};
pub(crate) use route::{explain, is_sent_whole, refuse_change, run, scan};
pub(crate) use servers::Servers;

/// The schema of the tables below.
const SCHEMA: &str = "tique";
/// The servers, each with its engine and options.
const SERVERS: &str = "servers";
/// The transactions of servers that have committed here, as far as the server has not said that it knows.
const DECISIONS: &str = "decisions";
