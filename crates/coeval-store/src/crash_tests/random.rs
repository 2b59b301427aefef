// SPDX-License-Identifier: Apache-2.0
//! Random work, faults and crashes on one thread, so that a seed repeats exactly.

use super::lives::{HONEST, Met, run_seed};
use super::seeds_or;

/// As many as say how often each kind of event is met; `tests/long crash` runs ten times as many.
const SEEDS: u64 = 1_000;

#[test]
fn after_any_crash_all_that_was_acknowledged_is_there_and_nothing_is_half() {
    let seeds = seeds_or(SEEDS);
    let mut met = Met::new();
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        if let Err(reason) = run_seed(seed, HONEST, &mut met) {
            println!("seed {seed}: {reason}\nrepeat it with COEVAL_CRASH_SEEDS={seed}");
            failed.push(seed);
        }
    }
    println!("{met:?}");
    assert!(failed.is_empty(), "{} seeds failed: {failed:?}", failed.len());
    let count = seeds.end - seeds.start;
    if count < 1_000 {
        return;
    }
    for kind in [
        "crash",
        "torn tail",
        "failed open",
        "stopped log",
        "checkpoint",
        "checkpoint with work between",
        "abandoned checkpoint",
        "failed checkpoint",
        "exactly the acknowledged",
        "kept unacknowledged",
        "lost undurable",
        "waived",
        "rows",
        "race",
        "conflict",
        "second owner",
        "bulk load",
        "create index",
        "drop index",
        "add column",
        "alter table",
        "truncate",
        "drop table",
        "view",
        "sequence",
        "bricks",
        "next value",
    ] {
        let times = met.get(kind).copied().unwrap_or(0);
        assert!(times >= count / 20, "{kind} was met too seldom to prove anything: {times} times");
    }
}
