// SPDX-License-Identifier: Apache-2.0
//! A test that needs what may not be there (an engine, a client, a program) asks here whether to run, so that who reads the
//! output sees what was skipped.
//!
//! What is skipped is written past the test harness, which shows nothing of tests that pass. If `COEVAL_SKIPPED` names a
//! file, each answer is added to it as a line; `tests/skipped` makes the summary of those, and fails if what was installed
//! has been skipped all the same.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// What the calling test needs, if it is there; without it the test is skipped. `what` is a word, and a name if there are
/// several of it.
#[track_caller]
pub(crate) fn needed<T>(what: &str, found: Option<T>) -> Option<T> {
    let test = Location::caller();
    if found.is_none() {
        // In one piece, whatever other tests write; a reader who has gone is no fault of this one.
        let _ = std::io::stderr().write_all(format!("skipped: {test} needs {what}\n").as_bytes());
    }
    if let Some(path) = std::env::var_os("COEVAL_SKIPPED") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let answer = if found.is_some() { "ran" } else { "skipped" };
        let line = format!("{answer}\t{what}\t{test}\n");
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("COEVAL_SKIPPED can be written");
    }
    found
}
