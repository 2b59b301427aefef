// SPDX-License-Identifier: Apache-2.0
//! Whether sequences are ahead of the columns that take their numbers.
//!
//! Looked at are integer columns that own a sequence, are fed by one (serial, identity, the hidden row id), or whose
//! default is `nextval` of one and nothing else; in tables of rows and of bricks. A sequence that cycles gives numbers
//! again in any case, and is not looked at.

use super::{DamagedChunks, VerifyReport, is_damaged};
use crate::bricks::BrickRows;
use crate::catalog::{
    Catalog, ColumnDef, ColumnState, DEFAULT_SCHEMA, ObjectRef, QualifiedName, SequenceDef, TableDef,
};
use crate::cursor::SpaceCursor;
use crate::error::StoreError;
use crate::ids::SequenceId;
use crate::range::{Direction, KeyRange};
use crate::recovery::ReplayedLog;
use crate::table::Table;
use crate::world::World;
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use coeval_brick::Reader;
use coeval_txn::EpochSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Warns of sequences that will give numbers that their columns have. Hidden row ids are a problem: nobody chose
/// them, and nobody would move them on.
pub(super) fn check_sequences(replayed: &ReplayedLog, damaged: &DamagedChunks, report: &mut VerifyReport) {
    for fed in fed_columns(&replayed.world) {
        if is_damaged(&fed.table, damaged) {
            continue;
        }
        // A chunk that cannot be read is a problem already.
        let Ok(Some(Behind { next, value })) = fed.behind(replayed) else { continue };
        let (table, sequence) = (&fed.def().name, &fed.sequence.name);
        if fed.is_row_id() {
            report.add_fact(format!(
                "table {table}: its hidden row ids go on at {next}, and a row has {value}: an INSERT will find a \
                 duplicate key"
            ));
        } else {
            let column = &fed.column().name;
            report.warnings.push(format!(
                "sequence {sequence} goes on at {next}, and column {column} of table {table} has {value}: setval() \
                 moves it"
            ));
        }
    }
}

/// Has hidden row ids go on behind those that rows have. Says what was moved.
///
/// # Errors
/// As [`Table::get`]. Nothing has changed on the disk.
pub(crate) fn move_row_ids(replayed: &mut ReplayedLog) -> Result<Vec<String>, StoreError> {
    let mut moved = Vec::new();
    for fed in fed_columns(&replayed.world).into_iter().filter(FedColumn::is_row_id) {
        let Some(Behind { value, .. }) = fed.behind(replayed)? else { continue };
        let resume = value.checked_add(fed.sequence.increment);
        replayed.resume_points.retain(|(id, _)| *id != fed.sequence.id);
        replayed.resume_points.push((fed.sequence.id, resume));
        moved.push(format!("where the hidden row ids of table {} go on", fed.def().name));
    }
    Ok(moved)
}

/// A column that takes numbers of a sequence.
struct FedColumn {
    sequence: Arc<SequenceDef>,
    table: Arc<Table>,
    column: usize,
}

/// A sequence goes on at `next`, and its column has `value` at or beyond that.
struct Behind {
    next: i64,
    value: i64,
}

/// The columns that take numbers of sequences which do not cycle, by sequence.
fn fed_columns(world: &World) -> Vec<FedColumn> {
    let catalog = world.catalog();
    let mut found = BTreeSet::new();
    for sequence in catalog.sequences() {
        found.extend(sequence.owned_by.map(|(table, column)| (sequence.id, table, column)));
    }
    for table in world.tables() {
        for (place, column) in table.def().columns.iter().enumerate() {
            let default = column.default.as_deref().and_then(|default| sequence_of_default(catalog, default));
            let sequences = column.sequence.into_iter().chain(default);
            found.extend(sequences.map(|sequence| (sequence, table.id(), place)));
        }
    }
    let fed = found.into_iter().filter_map(|(sequence, table, column)| {
        let (sequence, table) = (catalog.sequence(sequence)?, world.table(table)?);
        let is_there = !table.def().columns.get(column)?.is_dropped();
        let (sequence, table) = (Arc::clone(sequence), Arc::clone(table));
        (is_there && !sequence.cycle).then_some(FedColumn { sequence, table, column })
    });
    fed.collect()
}

impl FedColumn {
    fn def(&self) -> &TableDef {
        self.table.def()
    }

    fn column(&self) -> &ColumnDef {
        &self.def().columns[self.column]
    }

    /// Whether it is the row id that stands in for a primary key.
    fn is_row_id(&self) -> bool {
        self.column().state == ColumnState::Hidden && self.def().primary_key == [self.column]
    }

    /// Where the sequence goes on, if it will come to a value of the column.
    fn behind(&self, replayed: &ReplayedLog) -> Result<Option<Behind>, StoreError> {
        let logged = replayed.resume_points.iter().find(|(id, _)| *id == self.sequence.id);
        let Some(next) = logged.map_or(Some(self.sequence.start), |(_, next)| *next) else { return Ok(None) };
        let is_ascending = self.sequence.increment > 0;
        let is_at_or_beyond = |value: &i64| if is_ascending { *value >= next } else { *value <= next };
        let furthest = self.furthest(replayed.world.epochs())?.filter(is_at_or_beyond);
        Ok(furthest.map(|value| Behind { next, value }))
    }

    /// The greatest value of the column, or the least if the sequence goes down; none if it has none.
    fn furthest(&self, epochs: &EpochSet) -> Result<Option<i64>, StoreError> {
        let is_ascending = self.sequence.increment > 0;
        let further = |a: i64, b: i64| if is_ascending { a.max(b) } else { a.min(b) };
        if let Some(rows) = self.table.bricks() {
            return Ok(brick_values(rows, epochs, self.def(), self.column).into_iter().reduce(further));
        }
        let mut furthest = None;
        for row in SpaceCursor::new(self.table.rows(), None, &KeyRange::all(), Direction::Forward) {
            let value = self.table.row_ref(row?.1).get(self.column).as_i64();
            furthest = furthest.into_iter().chain(value).reduce(further);
        }
        Ok(furthest)
    }
}

/// The least and the greatest integer of each piece of a brick table's column.
fn brick_values(rows: &BrickRows, epochs: &EpochSet, def: &TableDef, column: usize) -> Vec<i64> {
    let Some(place) = def.live_columns().position(|(index, _)| index == column) else { return Vec::new() };
    let view = rows.table().view(&rows.table().selection());
    let reader = Reader::of(epochs.clone());
    let batches = view.bricks().iter().flat_map(|brick| view.batches(brick, &reader, &[place]));
    batches.flat_map(|batch| ends(batch.column(0))).flatten().collect()
}

/// The least and the greatest of some integers; none of other values.
fn ends(column: &ArrayRef) -> [Option<i64>; 2] {
    let numbers = column.data_type().is_integer().then(|| cast(column, &DataType::Int64));
    let Some(Ok(numbers)) = numbers else { return [None, None] };
    let values = || numbers.as_primitive::<Int64Type>().iter().flatten();
    [values().min(), values().max()]
}

/// The sequence that a default takes numbers of, if it is `nextval` of one and nothing else.
fn sequence_of_default(catalog: &Catalog, default: &str) -> Option<SequenceId> {
    match catalog.resolve(&named_by_nextval(default)?)? {
        ObjectRef::Sequence(id) => Some(id),
        ObjectRef::Table(_) | ObjectRef::Index(..) | ObjectRef::View => None,
    }
}

/// The name in `nextval('schema.name')`, also with a cast of the text: what the SQL layer keeps of such defaults.
fn named_by_nextval(default: &str) -> Option<QualifiedName> {
    let (function, arguments) = default.split_once('(')?;
    if !function.trim().eq_ignore_ascii_case("nextval") {
        return None;
    }
    let (text, cast) = quoted(arguments.strip_suffix(')')?, '\'')?;
    let is_cast = |cast: &str| cast.strip_prefix("::").is_some_and(|ty| ty.chars().all(char::is_alphabetic));
    if !cast.is_empty() && !is_cast(cast) {
        return None;
    }
    let (first, rest) = identifier(&text)?;
    let Some(rest) = rest.strip_prefix('.') else {
        return rest.is_empty().then(|| QualifiedName::new(DEFAULT_SCHEMA, first));
    };
    let (name, rest) = identifier(rest)?;
    rest.is_empty().then(|| QualifiedName::new(first, name))
}

/// The identifier at the beginning, as it is stored, and what follows.
fn identifier(text: &str) -> Option<(String, &str)> {
    if text.starts_with('"') {
        return quoted(text, '"');
    }
    let (name, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    (!name.is_empty()).then(|| (name.to_lowercase(), rest))
}

/// What stands in quotes at the beginning, where a doubled one is one, and what follows.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix(quote)?;
    let mut inside = String::new();
    loop {
        let (part, behind) = rest.split_once(quote)?;
        inside.push_str(part);
        let Some(doubled) = behind.strip_prefix(quote) else { return Some((inside, behind)) };
        inside.push(quote);
        rest = doubled;
    }
}

#[cfg(test)]
mod tests;
