// SPDX-License-Identifier: Apache-2.0
//! What a restore has brought is loaded once, as a whole, whatever ends it in between.

use super::super::trial_node::{Archived, Trial, numbers_of, run, said};
use super::*;
use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use std::cell::RefCell;
use std::time::Duration;

/// Brings back what waits in a directory, as a server's start does; it is killed at the step with this number.
fn start_at(dir: &Path, killed_at: usize) -> Result<Vec<Step>, String> {
    let trial = Trial::begin(dir);
    let steps = RefCell::new(Vec::new());
    let hears = |step: Step| {
        if steps.borrow().len() == killed_at {
            return Err(format!("killed behind {step:?}"));
        }
        steps.borrow_mut().push(step);
        Ok(())
    };
    let outcome = bring_back(dir, &trial.start, &trial.declarations, &hears).map_err(said);
    trial.runtime.shutdown_timeout(Duration::from_secs(10));
    outcome.map(|()| steps.into_inner())
}

/// The cluster of this directory has each row once, and nothing waits any more.
fn check_loaded(dir: &Path, what: &str) {
    assert_eq!(RestoredRows::open(dir).unwrap(), None, "{what}");
    let trial = Trial::begin(dir);
    let node = trial.node();
    for (table, count) in [("hits", 3_000), ("days", 500)] {
        let numbers = numbers_of(&trial.all_rows(&node, table));
        assert!(numbers == (0..count).collect::<Vec<_>>(), "{what}: {} rows of {table}", numbers.len());
    }
    trial.runtime.block_on(node.stop());
}

const NEVER: usize = usize::MAX;

/// To break it: look with a reader's snapshot, or leave out the look. Killed behind the commit, all rows are there twice then. Commit each
/// table by itself: killed in between, the second one is never loaded.
#[test]
fn rows_are_loaded_once_wherever_it_is_killed() {
    let archived = Archived::new();
    let mut killed = 0;
    for at in 0.. {
        let dir = archived.restored();
        match start_at(&dir, at) {
            Ok(steps) => {
                assert!(
                    steps.contains(&Step::Committed) && steps.last() == Some(&Step::Removed),
                    "{steps:?}"
                );
                check_loaded(&dir, "killed nowhere");
                break;
            }
            Err(why) => assert!(why.contains("killed behind"), "{why}"),
        }
        killed += 1;
        let steps = start_at(&dir, NEVER).unwrap();
        check_loaded(&dir, &format!("killed at {at}, then {steps:?}"));
    }
    // Started, founded, looked, four parts, committed, stopped, removed.
    assert_eq!(killed, 10);
}

/// Each start comes one step further than the one before.
#[test]
fn it_may_be_killed_again_and_again() {
    let archived = Archived::new();
    let dir = archived.restored();
    let killed = (0..).take_while(|at| start_at(&dir, *at).is_err()).count();
    assert!(killed >= 6, "{killed}");
    check_loaded(&dir, "killed again and again");
}

/// To break it: load a table that is gone, or rows without the columns that have come.
#[test]
fn tables_are_loaded_as_they_are_by_now() {
    let archived = Archived::new();
    let dir = archived.restored();
    let trial = Trial::begin(&dir);
    run(&trial.database, "ALTER TABLE hits ADD COLUMN m bigint DEFAULT 7; DROP TABLE days");
    run(&trial.database, "ALTER TABLE hits ADD COLUMN more text");
    drop(trial);
    start_at(&dir, NEVER).unwrap();
    let trial = Trial::begin(&dir);
    let node = trial.node();
    let rows = trial.all_rows(&node, "hits");
    assert_eq!(numbers_of(&rows), (0..3_000).collect::<Vec<_>>());
    for batch in &rows {
        let added = batch.column(3).as_primitive::<Int64Type>();
        assert!(added.null_count() == 0 && added.values().iter().all(|value| *value == 7));
        assert_eq!(batch.column(4).logical_null_count(), batch.num_rows());
    }
    trial.runtime.block_on(node.stop());
}

/// To break it: commit what could be read.
#[test]
fn what_is_damaged_is_not_loaded_in_part() {
    let archived = Archived::new();
    let dir = archived.restored();
    let last = RestoredRows::open(&dir).unwrap().unwrap().folder().join("000004");
    let good = std::fs::read(&last).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    std::fs::write(&last, bad).unwrap();
    let refused = start_at(&dir, NEVER).unwrap_err();
    for part in ["000004", "damaged", "the next start tries it again"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    std::fs::write(&last, good).unwrap();
    start_at(&dir, NEVER).unwrap();
    check_loaded(&dir, "repaired");
}

#[test]
fn where_nothing_waits_nothing_is_done() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(start_at(dir.path(), 0), Ok(vec![]));
    remind(dir.path());
}

/// To break it: have a server that is no node refuse to start, or remove what it cannot read.
#[test]
fn what_cannot_be_read_keeps_nobody_from_row_tables() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("cluster").join("restored");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("rows"), "no list").unwrap();
    remind(dir.path());
    assert!(RestoredRows::open(dir.path()).is_err());
}
