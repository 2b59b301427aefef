// SPDX-License-Identifier: Apache-2.0
//! A target for fuzzers: the bytes on standard input are a sequence of operations on several versions of a tree, whose
//! contents are compared with a model and whose invariants are checked after each one. A difference is a panic.
//!
//! ```text
//! cargo run --release -p coeval-ptree --example fuzz_sequences < INPUT
//! afl-fuzz -i inputs -o findings -- target/release/examples/fuzz_sequences    # built with cargo afl
//! ```
//!
//! `tests/sequences.rs` runs the same on random bytes.

#[path = "../tests/sequences/steps.rs"]
mod steps;

use std::io::{Read, stdin};

fn main() -> std::io::Result<()> {
    let mut input = Vec::new();
    stdin().read_to_end(&mut input)?;
    steps::run(&input);
    Ok(())
}
