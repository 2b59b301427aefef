// SPDX-License-Identifier: Apache-2.0
//! What the program `coeval` does: demo, SQL shell, server, replicas, benchmarks, offline check. The binary is
//! `coeval-cli`; the Python package carries the same program.
//!
//! # Owns
//! The command line, what is printed, and the code that the program ends with.
//!
//! # Never does
//! Anything to data by itself: it uses the facade, and the workloads of `coeval-bench`.
//!
//! # Invariants
//! - Errors go to stderr in one line that says what, where and what to do; the code is 1, or 2 for a command line
//!   that makes no sense. A repair that loses data is no error, and its code is 3.
//! - The last line that `coeval bench` prints to stdout is its JSON object.
//!
//! # Start reading at
//! `arguments.rs`, then `sql.rs`, `serve.rs`, `demo.rs`, `bench.rs`, `check.rs`.

mod allocator;
mod archive;
mod arguments;
mod bench;
mod cells;
mod check;
mod check_history;
mod cluster;
mod compare;
mod completions;
mod demo;
mod directory;
mod doctor;
mod failure;
mod feed;
mod grid;
mod holding_server;
mod init;
mod interrupt;
mod machines;
mod place;
mod promote;
mod readable;
mod remote;
mod secret_file;
mod serve;
mod served;
mod sql;

pub use place::{Backslash, Place};

use arguments::{Arguments, Command};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Does what a command line asks for, whose first word is the program's name; prints what there is to say, and gives the code
/// that the process is to end with. The process ends here if the command line makes no sense, or asks for help. `program` is the
/// file to run where servers are to be started, as processes of their own.
pub fn run(command_line: impl IntoIterator<Item = OsString>, program: io::Result<PathBuf>) -> u8 {
    let arguments = Arguments::read(command_line).unwrap_or_else(|error| error.exit());
    let outcome = match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments, program),
        Command::Init(arguments) => init::run(&arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments, program.ok()),
        Command::Check(arguments) => check::run(&arguments),
        Command::Promote(arguments) => promote::run(&arguments),
        Command::Backup(arguments) => archive::backup(&arguments),
        Command::Restore(arguments) => archive::restore(&arguments),
        Command::Feed(arguments) => feed::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::CheckHistory(arguments) => check_history::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Manual(arguments) => completions::write_manual(&arguments),
    };
    match outcome {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    }
}
