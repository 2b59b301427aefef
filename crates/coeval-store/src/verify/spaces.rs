// SPDX-License-Identifier: Apache-2.0
//! Whether the spaces of a table are sound: trees, order of keys, base and delta, rows and index entries.

use super::{Soundness, VerifyReport};
use crate::catalog::IndexDef;
use crate::cursor::SpaceCursor;
use crate::delta::Change;
use crate::error::StoreError;
use crate::key::Key;
use crate::range::{Direction, KeyRange};
use crate::space::{Found, Space};
use crate::table::Table;
use std::hash::{BuildHasher, RandomState};

/// Checks all spaces of a table.
pub(super) fn check_table_spaces(table: &Table, report: &mut VerifyReport) -> Soundness {
    let before = report.problem_count;
    // From here on nothing is read from the disk any more.
    let chunks = || table.spaces().flat_map(|(_, space)| space.base().iter().map(|(_, chunk)| chunk));
    if let Err(error) = chunks().try_for_each(|chunk| chunk.check_whole()) {
        report.add_error(&error);
        return Soundness::Unsound;
    }
    for (id, space) in table.spaces() {
        let name = match table.index(id) {
            Some((index, _)) => format!("index {} of table {}", index.name, table.def().name),
            None => format!("table {}", table.def().name),
        };
        check_space(&name, space, report);
    }
    if report.problem_count > before {
        return Soundness::Unsound;
    }
    check_keys(table, report);
    for (index, space) in table.def().indexes.iter().zip(table.indexes()) {
        check_entries(table, index, space, report);
    }
    if report.problem_count > before { Soundness::Unsound } else { Soundness::Sound }
}

/// The keys of a space whose chunks have all been read.
pub(super) fn walk(space: &Space, range: KeyRange) -> impl Iterator<Item = (Key, Found<'_>)> {
    SpaceCursor::new(space, None, &range, Direction::Forward).map(read)
}

/// Whether a space whose chunks have all been read holds the key.
pub(super) fn find(space: &Space, key: &Key) -> bool {
    read(space.contains(key))
}

fn read<T>(outcome: Result<T, StoreError>) -> T {
    outcome.expect("damaged chunks were found before, and their tables left out")
}

fn check_space(name: &str, space: &Space, report: &mut VerifyReport) {
    if let Err(broken) = space.base().check_invariants() {
        report.add_fact(format!("{name}: the tree of chunks is broken: {broken}"));
    }
    if let Err(broken) = space.delta().check_invariants() {
        report.add_fact(format!("{name}: the tree of changes is broken: {broken}"));
    }
    let mut last: Option<Key> = None;
    let mut rows = 0;
    for (first, chunk) in space.base().iter() {
        if *first != chunk.first_key() || last.as_ref().is_some_and(|last| last >= first) {
            report.add_fact(format!("{name}: the chunk at {first:?} is out of order"));
        }
        let keys = chunk.keys();
        if let Some(index) = (1..keys.len()).find(|&index| keys.get(index - 1) >= keys.get(index)) {
            report.add_fact(format!("{name}: row {index} of the chunk at {first:?} is out of order"));
        }
        rows += chunk.rows() as u64;
        last = Some(chunk.last_key());
    }
    if rows != space.base_rows() {
        report.add_fact(format!("{name}: chunks of {rows} rows, {} are counted", space.base_rows()));
    }
    for (key, entry) in space.delta().iter() {
        let was_there = entry.change() != Change::Inserted;
        if read(space.find_in_base(key)).is_some() != was_there {
            report
                .add_fact(format!("{name}: key {key:?} is {:?} without regard to the base", entry.change()));
        }
    }
    let counted = walk(space, KeyRange::all()).count() as u64;
    if counted != space.len() {
        report.add_fact(format!("{name}: {counted} keys, {} are counted", space.len()));
    }
}

/// Whether each row lies under its own key.
fn check_keys(table: &Table, report: &mut VerifyReport) {
    let def = table.def();
    for (key, found) in walk(table.rows(), KeyRange::all()) {
        let row = table.row_ref(found);
        if def.key_of(|column| row.get(column)) != key {
            report.add_fact(format!("table {}: the row at {key:?} belongs under another key", def.name));
        }
    }
}

/// Whether each row has exactly one entry, and each entry its row.
fn check_entries(table: &Table, index: &IndexDef, space: &Space, report: &mut VerifyReport) {
    let rows = || walk(table.rows(), KeyRange::all());
    let entries = || walk(space, KeyRange::all());
    // Two hashes of 64 bits, of which each is as good as random: that different sets of as many entries have
    // the same sums is as likely as guessing a number of 128 bits.
    let hashers = [RandomState::new(), RandomState::new()];
    let add = |sums: [u64; 2], key: &Key| {
        [0, 1].map(|at| sums[at].wrapping_add(hashers[at].hash_one(key.as_slice())))
    };
    let expected =
        rows().fold([0; 2], |sums, (key, found)| add(sums, &table.row_ref(found).index_entry(index, &key)));
    let there = entries().fold([0; 2], |sums, (entry, _)| add(sums, &entry));
    if expected == there && space.len() == table.row_count() {
        return;
    }
    let name = format!("index {} of table {}", index.name, table.def().name);
    for (key, found) in rows() {
        if !find(space, &table.row_ref(found).index_entry(index, &key)) {
            report.add_fact(format!("{name}: the row at {key:?} has no entry"));
        }
    }
    let own: std::collections::HashSet<Vec<u8>> = rows()
        .map(|(key, found)| table.row_ref(found).index_entry(index, &key).as_slice().to_vec())
        .collect();
    for (entry, _) in entries() {
        if !own.contains(entry.as_slice()) {
            report.add_fact(format!("{name}: the entry {entry:?} has no row"));
        }
    }
}
