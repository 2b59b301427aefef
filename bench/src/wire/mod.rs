// SPDX-License-Identifier: Apache-2.0
//! A server behind a URL: Coeval or PostgreSQL, through one and the same client.
//!
//! Each thread of a workload has a connection of its own and waits for each answer before it sends the next statement,
//! as applications do. Statements are prepared once; numbers and times travel in binary, decimals as text one way and in
//! binary the other.

mod connection;
mod copy;
mod server;
mod value;

pub(crate) use connection::{Answer, Connection, Ended};
pub(crate) use server::Server;
