// SPDX-License-Identifier: Apache-2.0
//! Tests of the promise of the whole store: what was acknowledged is found again after a crash, what was not is
//! found whole or not at all, in the order of commits.
//!
//! One seed decides everything: the steps (`model_workload.rs`), which calls of the file layer fail, when the
//! machine stops, what survives. A seed that fails names itself; to run it alone, or to run others:
//! `COEVAL_CRASH_SEEDS=4711 cargo test --release -p coeval-store crash_tests`, or `=0..50000`.
//!
//! The same harness on a disk that ignores syncs, or without checksums, has to fail (`seen_to_fail.rs`).

mod damage;
mod full_disk;
mod kinds;
mod lives;
mod panics;
mod random;
mod seen_to_fail;
mod threads;
mod waived;

use std::ops::Range;

/// The seeds to run: those that `COEVAL_CRASH_SEEDS` names (`7` or `0..50000`), else so many from 0 on.
pub(crate) fn seeds_or(usual: u64) -> Range<u64> {
    let Ok(text) = std::env::var("COEVAL_CRASH_SEEDS") else { return 0..usual };
    let number = |text: &str| text.trim().parse::<u64>().expect("COEVAL_CRASH_SEEDS is n or n..m");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}
