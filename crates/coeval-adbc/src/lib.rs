// SPDX-License-Identifier: Apache-2.0
//! The ADBC driver of the embedded database: a library that driver managers of Python, R, Go, Java, C# and Rust load.
//!
//! # Owns
//! What ADBC's interface says in terms of sessions: options, metadata, parameters as Arrow arrays, ingestion, statuses of errors.
//!
//! # Never does
//! Anything in C: `adbc_ffi` exports what implements the traits of `adbc_core`. It uses the facade `coeval` alone.
//!
//! # Invariants
//! - A connection's statements run one after the other, whatever threads they come from.
//! - A panic is an error of the connection that met it, and of no other.
//! - A value that its type of SQL cannot hold is an error, and never another value.
//!
//! # Start reading at
//! `driver.rs`, then `connection.rs` and `statement.rs`; `client.rs` has the session that they share.

mod binding;
mod client;
mod connection;
mod database;
mod driver;
mod errors;
mod information;
mod ingestion;
mod location;
mod names;
mod nesting;
mod objects;
mod opened;
mod options;
mod panics;
mod parameters;
mod relations;
mod results;
mod statement;
mod statistics;
mod wanted;

pub use driver::CoevalDriver;

// The first name is the one that driver managers make of the library's file name; AdbcDriverInit comes with it.
mod exported {
    adbc_ffi::export_driver!(AdbcCoevalAdbcInit, crate::CoevalDriver);
}
