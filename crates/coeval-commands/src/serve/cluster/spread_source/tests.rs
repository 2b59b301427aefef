// SPDX-License-Identifier: Apache-2.0
//! A node gives all rows of its snapshot, and says so if it cannot.

use super::super::own_node::Stage;
use super::super::trial_node::{TABLES, Trial, number_of, numbers_of, rows, run};
use super::*;
use arrow::ipc::reader::StreamReader;
use coeval_archive::SpreadPart;
use coeval_cluster::CommitWait;
use std::collections::BTreeMap;
use std::io::Cursor;

struct Served {
    /// Ends first.
    node: Node,
    own: OwnNode,
    trial: Trial,
    _dir: tempfile::TempDir,
}

/// A node with these tables, of which both have rows.
fn served() -> Served {
    let dir = tempfile::tempdir().unwrap();
    let trial = Trial::begin(dir.path());
    TABLES.iter().for_each(|sql| run(&trial.database, sql));
    trial.declarations.follow().unwrap();
    let node = trial.node();
    let own = trial.own_node(Stage::Runs(node.clone()));
    let served = Served { node, own, trial, _dir: dir };
    served.load("hits", 0..4_000);
    served.load("days", 0..10);
    served
}

impl Served {
    fn load(&self, table: &str, numbers: std::ops::Range<i64>) {
        let number = number_of(&self.trial.database, table);
        self.trial.runtime.block_on(async {
            let mut load = self.node.begin().await.unwrap();
            load.append_rows(number, &rows(numbers)).await.unwrap();
            load.commit(CommitWait::Decided).await.unwrap();
        });
    }
}

fn all(snapshot: &mut dyn SpreadSnapshot) -> Result<Vec<SpreadPart>, ArchiveError> {
    let mut parts = Vec::new();
    loop {
        match snapshot.next()? {
            SpreadNext::Part(part) => parts.push(part),
            SpreadNext::Dropped(table) => parts.retain(|part: &SpreadPart| part.table != table),
            SpreadNext::End => return Ok(parts),
        }
    }
}

fn batches_of(part: &SpreadPart) -> Vec<RecordBatch> {
    StreamReader::try_new(Cursor::new(&part.bytes), None).unwrap().map(Result::unwrap).collect()
}

/// To break it: read each brick at a snapshot of its own, leave out the rows of the last part, or do not wait for what is under way: a load
/// that was just acknowledged is missing then, now and then.
#[test]
fn all_rows_come_as_one_snapshot_has_them() {
    let served = served();
    let mut snapshot = served.own.snapshot().unwrap();
    let (hits, days) = (number_of(&served.trial.database, "hits"), number_of(&served.trial.database, "days"));
    assert_eq!(snapshot.tables(), [(hits, "hits".to_owned()), (days, "days".to_owned())]);
    served.load("hits", 4_000..4_100);
    let mut found: BTreeMap<u64, Vec<RecordBatch>> = BTreeMap::new();
    for part in all(&mut *snapshot).unwrap() {
        found.entry(part.table).or_default().extend(batches_of(&part));
    }
    assert_eq!(numbers_of(&found[&hits]), (0..4_000).collect::<Vec<_>>());
    assert_eq!(numbers_of(&found[&days]), (0..10).collect::<Vec<_>>());
    assert!(snapshot.epoch() < served.own.snapshot().unwrap().epoch());
    let late = all(&mut *served.own.snapshot().unwrap()).unwrap();
    assert_eq!(late.iter().map(|part| part.rows).sum::<u64>(), 4_110);
    // The same rows again are the same bytes.
    let bytes = |parts: Vec<SpreadPart>| parts.into_iter().map(|part| part.bytes).collect::<Vec<_>>();
    let again = bytes(all(&mut *served.own.snapshot().unwrap()).unwrap());
    assert_eq!(again, bytes(all(&mut *served.own.snapshot().unwrap()).unwrap()));
}

/// To break it: wait until a load ends, however long that takes.
#[test]
fn a_load_that_goes_on_is_not_waited_for() {
    let served = served();
    let runtime = &served.trial.runtime;
    let hits = number_of(&served.trial.database, "hits");
    let open = runtime.block_on(async {
        let mut load = served.node.begin().await.unwrap();
        load.append_rows(hits, &rows(5_000..5_010)).await.unwrap();
        load
    });
    let begun = Instant::now();
    let parts = all(&mut *served.own.snapshot().unwrap()).unwrap();
    assert!(begun.elapsed() >= SETTLING && begun.elapsed() < SETTLING * 3);
    assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), 4_010);
    runtime.block_on(open.roll_back()).unwrap();
}

/// To break it: take a table that is not declared any more for one that has no rows.
#[test]
fn a_table_that_is_dropped_is_left_out_and_an_end_is_an_error() {
    let served = served();
    let mut snapshot = served.own.snapshot().unwrap();
    let mut late = served.own.snapshot().unwrap();
    let days = number_of(&served.trial.database, "days");
    run(&served.trial.database, "DROP TABLE hits");
    served.trial.declarations.follow().unwrap();
    let parts = all(&mut *snapshot).unwrap();
    assert!(!parts.is_empty() && parts.iter().all(|part| part.table == days));
    assert_eq!(served.own.snapshot().unwrap().tables(), [(days, "days".to_owned())]);
    served.trial.runtime.block_on(served.node.stop());
    let ended = all(&mut *late).unwrap_err();
    assert!(matches!(ended, ArchiveError::Spread(_)), "{ended}");
    drop(served.own.stage.send_replace(Stage::Ended("it was removed".to_owned())));
    let Err(ended) = served.own.snapshot() else { panic!("there is no node") };
    assert!(ended.to_string().contains("it was removed"), "{ended}");
    drop(served.own.stage.send_replace(Stage::Starting));
    let Err(starting) = served.own.snapshot() else { panic!("there is no node yet") };
    assert!(matches!(starting, ArchiveError::Spread(_)), "{starting}");
}
