// SPDX-License-Identifier: Apache-2.0
//! Fuzzers: one function for each kind of bytes that comes from outside.
//!
//! Whatever the bytes are, a target returns; it panics only where the program is wrong. `run TARGET SECONDS` drives one by
//! libFuzzer. `corpus/TARGET` holds a few real inputs to begin with, and each input that once broke something; the tests
//! of this crate run all of them, without libFuzzer.

mod plan;

/// A kind of input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// What is done with an input.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 12] = [
    Target { name: "wire", run: coeval_server::fuzzing::wire },
    Target { name: "sql", run: plan::sql },
    Target { name: "log_record", run: coeval_store::fuzzing::log_record },
    Target { name: "log_file", run: coeval_store::fuzzing::log_file },
    Target { name: "segment", run: coeval_store::fuzzing::segment },
    Target { name: "column", run: coeval_store::fuzzing::column },
    Target { name: "brick_rows", run: coeval_store::fuzzing::brick_rows },
    Target { name: "manifest", run: coeval_store::fuzzing::manifest },
    Target { name: "copy", run: coeval_sql::fuzzing::copy },
    Target { name: "json", run: coeval_sql::fuzzing::json },
    Target { name: "pattern", run: pattern },
    Target { name: "value", run: coeval_sql::fuzzing::value },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Patterns: a text and one of `LIKE` if the first byte is a `%`, else a function that takes one, and its arguments.
fn pattern(bytes: &[u8]) {
    match bytes.split_first() {
        Some((b'%', rest)) => coeval_sql::fuzzing::like(rest),
        _ => coeval_sql::fuzzing::function(bytes),
    }
}

#[cfg(test)]
mod tests;
