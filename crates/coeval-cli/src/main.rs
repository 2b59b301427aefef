// SPDX-License-Identifier: Apache-2.0
//! The binary `coeval`: demo, SQL shell, server, replicas, benchmarks, offline check.
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
mod compare;
mod demo;
mod directory;
mod failure;
mod feed;
mod grid;
mod interrupt;
mod machines;
mod promote;
mod readable;
mod serve;
mod sql;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Promote(arguments) => promote::run(&arguments),
        Command::Backup(arguments) => archive::backup(&arguments),
        Command::Restore(arguments) => archive::restore(&arguments),
        Command::Feed(arguments) => feed::run(&arguments),
        Command::CheckHistory(arguments) => check_history::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
