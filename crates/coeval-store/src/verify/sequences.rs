// SPDX-License-Identifier: Apache-2.0
//! Whether sequences are ahead of the columns that take their numbers.

use super::spaces::walk;
use super::{DamagedChunks, VerifyReport, is_damaged};
use crate::catalog::SequenceDef;
use crate::range::KeyRange;
use crate::recovery::ReplayedLog;
use crate::table::Table;

/// Warns of sequences that will give numbers that their columns have.
pub(super) fn check_sequences(replayed: &ReplayedLog, damaged: &DamagedChunks, report: &mut VerifyReport) {
    let world = &replayed.world;
    for sequence in world.catalog().sequences() {
        let Some((table, column)) = sequence.owned_by else { continue };
        let Some(table) = world.table(table) else { continue };
        let next = replayed.resume_points.iter().find(|(id, _)| *id == sequence.id);
        let Some(next) = next.map_or(Some(sequence.start), |(_, next)| *next) else { continue };
        if table.bricks().is_some() || sequence.cycle || is_damaged(table, damaged) {
            continue;
        }
        if let Some(value) =
            furthest(table, column, sequence).filter(|value| is_at_or_beyond(*value, next, sequence))
        {
            let column = table.def().columns.get(column).map_or("", |column| column.name.as_str());
            report.warnings.push(format!(
                "sequence {} goes on at {next}, and column {column} of table {} has {value}: setval() moves it",
                sequence.name,
                table.def().name,
            ));
        }
    }
}

/// The greatest value of a column, or the least if the sequence goes down; none if it has none.
fn furthest(table: &Table, column: usize, sequence: &SequenceDef) -> Option<i64> {
    let values = walk(table.rows(), KeyRange::all())
        .filter_map(|(_, found)| table.row_ref(found).get(column).as_i64());
    if sequence.increment > 0 { values.max() } else { values.min() }
}

fn is_at_or_beyond(value: i64, next: i64, sequence: &SequenceDef) -> bool {
    if sequence.increment > 0 { value >= next } else { value <= next }
}
