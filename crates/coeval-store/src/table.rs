// SPDX-License-Identifier: Apache-2.0
//! A table at one version: its definition, its rows, its indexes; and references to single rows.

use crate::bricks::BrickRows;
use crate::bulk_load::{BulkLoad, inserted_entries};
use crate::catalog::{ColumnDef, IndexDef, TableDef};
use crate::checks::RowChecks;
use crate::chunk::Chunk;
use crate::column::missing_value;
use crate::described::described;
use crate::error::{StoreError, TableDamage};
use crate::ids::SpaceId;
use crate::key::Key;
use crate::pieces::{Piece, Pieces};
use crate::row::{Row, RowWriter};
use crate::space::{Found, Space};
use crate::table_summary::{KeptSummary, TableSummary};
use crate::table_writes::TableWrites;
use crate::value::{KeyReader, KeyWriter, Nullable, Value, ValueRef};
use std::sync::{Arc, OnceLock};

/// A table at one version. Cloning one costs a few reference counts.
#[derive(Clone, Debug)]
pub struct Table {
    def: Arc<TableDef>,
    rows: Space,
    /// In the order of [`TableDef::indexes`].
    indexes: Vec<Space>,
    /// What rows have in columns that were added after they were written, per column.
    missing: Arc<[Value]>,
    /// Whether values of some of its columns are made when a row is written.
    generates: bool,
    checks: CompiledChecks,
    /// For scans of this version.
    pieces: Pieces,
    /// For planners of queries of this version.
    summary: KeptSummary,
    /// The rows of a brick table. They are the same in all versions; the world says which of them exist.
    bricks: Option<Arc<BrickRows>>,
    /// Why it cannot be read; then it has no rows here.
    damage: Option<Arc<TableDamage>>,
}

/// The checks of a definition, compiled at their first use; why they could not be, otherwise.
type CompiledChecks = Arc<OnceLock<Result<Arc<dyn RowChecks>, String>>>;

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(def: Arc<TableDef>) -> Self {
        let indexes = vec![Space::new(); def.indexes.len()];
        Self::from_spaces(def, Space::new(), indexes)
    }

    /// A table of these spaces, `indexes` in the order of the definition.
    ///
    /// # Panics
    /// If there is not one space for each index.
    #[must_use]
    pub(crate) fn from_spaces(def: Arc<TableDef>, rows: Space, indexes: Vec<Space>) -> Self {
        assert_eq!(indexes.len(), def.indexes.len(), "each index has its space");
        let missing = missing_values(&def);
        let (checks, pieces) = (CompiledChecks::default(), Pieces::default());
        let summary = KeptSummary::default();
        let generates = def.columns.iter().any(ColumnDef::is_made_on_write);
        Self { def, rows, indexes, missing, generates, checks, pieces, summary, bricks: None, damage: None }
    }

    /// The same table with its rows in these bricks.
    #[must_use]
    pub(crate) fn with_bricks(self, bricks: Option<Arc<BrickRows>>) -> Self {
        assert_eq!(bricks.is_some(), self.def.bricks.is_some(), "brick tables, and no others, have bricks");
        Self { bricks, ..self }
    }

    /// The same table, which cannot be read.
    #[must_use]
    pub(crate) fn with_damage(self, damage: TableDamage) -> Self {
        Self { damage: Some(Arc::new(damage)), ..self }
    }

    /// Why it cannot be read, if it cannot: it seems to have no rows then.
    #[must_use]
    pub fn damage(&self) -> Option<&TableDamage> {
        self.damage.as_deref()
    }

    /// Fails if the table cannot be read.
    ///
    /// # Errors
    /// [`StoreError::DamagedTable`].
    #[inline]
    pub(crate) fn check_undamaged(&self) -> Result<(), StoreError> {
        match &self.damage {
            None => Ok(()),
            Some(damage) => Err(StoreError::DamagedTable {
                table: Box::new(self.def.name.clone()),
                damage: Arc::clone(damage),
            }),
        }
    }

    /// The rows of a brick table.
    #[must_use]
    #[inline]
    pub fn bricks(&self) -> Option<&Arc<BrickRows>> {
        self.bricks.as_ref()
    }

    /// Its definition.
    #[must_use]
    #[inline]
    pub fn def(&self) -> &Arc<TableDef> {
        &self.def
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub fn id(&self) -> SpaceId {
        self.def.id
    }

    /// Its rows.
    #[must_use]
    #[inline]
    pub fn rows(&self) -> &Space {
        &self.rows
    }

    /// Its indexes, in the order of [`TableDef::indexes`].
    #[must_use]
    pub fn indexes(&self) -> &[Space] {
        &self.indexes
    }

    /// The entries of this index.
    #[must_use]
    pub fn index(&self, id: SpaceId) -> Option<(&IndexDef, &Space)> {
        let position = self.def.indexes.iter().position(|index| index.id == id)?;
        Some((&self.def.indexes[position], &self.indexes[position]))
    }

    /// The same table with other spaces in the place of those for which `change` gives one; `None` if it gives
    /// none.
    #[must_use]
    pub(crate) fn with_spaces(&self, change: impl Fn(SpaceId, &Space) -> Option<Space>) -> Option<Self> {
        let changed: Vec<_> = self.spaces().map(|(id, space)| change(id, space)).collect();
        if changed.iter().all(Option::is_none) {
            return None;
        }
        let mut table = self.clone();
        let spaces = std::iter::once(&mut table.rows).chain(&mut table.indexes);
        for (space, changed) in spaces.zip(changed) {
            if let Some(changed) = changed {
                *space = changed;
            }
        }
        Some(table)
    }

    /// All spaces with their numbers: the rows, then the indexes.
    pub fn spaces(&self) -> impl Iterator<Item = (SpaceId, &Space)> {
        let indexes = self.def.indexes.iter().map(|index| index.id).zip(&self.indexes);
        std::iter::once((self.def.id, &self.rows)).chain(indexes)
    }

    /// How many rows, exactly.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.rows.len()
    }

    /// Rows changed since the last checkpoint.
    #[must_use]
    pub fn delta_rows(&self) -> usize {
        self.rows.delta().len()
    }

    /// How many chunks its base has.
    #[must_use]
    pub fn base_chunks(&self) -> usize {
        self.rows.base().len()
    }

    /// What rows have in a column that was added after they were written.
    pub(crate) fn missing(&self) -> &Arc<[Value]> {
        &self.missing
    }

    /// Whether some of its columns are generated, or round what is written into them.
    pub(crate) fn generates(&self) -> bool {
        self.generates
    }

    pub(crate) fn checks(&self) -> &OnceLock<Result<Arc<dyn RowChecks>, String>> {
        &self.checks
    }

    /// This version with private writes on top.
    #[must_use]
    pub(crate) fn overlaid(&self, writes: &TableWrites) -> Self {
        let indexes = self
            .indexes
            .iter()
            .zip(&writes.indexes)
            .map(|(index, changes)| index.overlaid(changes))
            .collect();
        Self {
            def: Arc::clone(&self.def),
            rows: self.rows.overlaid(&writes.rows),
            indexes,
            missing: Arc::clone(&self.missing),
            generates: self.generates,
            checks: Arc::clone(&self.checks),
            pieces: Pieces::default(),
            summary: KeptSummary::default(),
            bricks: self.bricks.clone(),
            damage: self.damage.clone(),
        }
    }

    /// Applies a transaction's writes. `read` is the table it read: what it found there keeps its place.
    pub(crate) fn apply(&mut self, writes: &TableWrites, read: Option<&Self>) {
        assert_eq!(writes.indexes.len(), self.indexes.len(), "writers of an older definition were refused");
        self.become_another_version();
        self.rows.apply(&writes.rows, read.map(|read| read.rows.base()));
        for (index, changes) in self.indexes.iter_mut().zip(&writes.indexes) {
            if !changes.is_empty() {
                index.apply(changes, None);
            }
        }
    }

    /// Takes in a bulk load, whose range is free. The indexes of `merged` have its entries already.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a chunk is damaged that has to be read; the table is then unusable.
    pub(crate) fn load(&mut self, load: &BulkLoad, merged: &[SpaceId]) -> Result<(), StoreError> {
        assert_eq!(load.indexes().len(), self.indexes.len(), "a load follows its table's definition");
        self.become_another_version();
        self.rows.add_chunks(load.chunks())?;
        let ids = self.def.indexes.iter().map(|index| index.id);
        for ((index, id), chunks) in self.indexes.iter_mut().zip(ids).zip(load.indexes()) {
            if merged.contains(&id) {
                continue;
            }
            if index.has_no_parts() {
                index.add_chunks(chunks)?;
            } else {
                // The index was made after the load: its entries lie between those of other rows.
                index.apply(&inserted_entries(chunks)?, None);
            }
        }
        Ok(())
    }

    /// What was found out about the rows does not hold for those that come.
    fn become_another_version(&mut self) {
        self.pieces = Pieces::default();
        self.summary = KeptSummary::default();
    }

    /// What is known of its rows and columns without reading them.
    pub(crate) fn summary(&self) -> &Arc<TableSummary> {
        self.summary.of(&self.def, &self.rows, self.row_count())
    }

    /// How its rows are cut for scanning.
    pub(crate) fn pieces(&self) -> &Arc<[Piece]> {
        self.pieces.of(&self.rows)
    }

    /// The row with this key.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the chunk that would hold it is damaged.
    #[inline]
    pub fn get(&self, key: &Key) -> Result<Option<RowRef<'_>>, StoreError> {
        Ok(self.rows.find(key)?.map(|found| self.row_ref(found)))
    }

    #[inline]
    pub(crate) fn row_ref<'a>(&'a self, found: Found<'a>) -> RowRef<'a> {
        RowRef::new(&self.def, &self.missing, found)
    }
}

/// What rows have in columns that were added after they were written, per column of the definition.
#[must_use]
pub(crate) fn missing_values(def: &TableDef) -> Arc<[Value]> {
    def.columns.iter().map(|column| missing_value(column.missing.as_deref(), column.ty.physical())).collect()
}

/// A row where it lies: in the base, in the delta or among private writes. Reading a column copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    def: &'a TableDef,
    missing: &'a [Value],
    place: Place<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Row(&'a Row),
    Chunk(&'a Chunk, usize),
}

impl<'a> RowRef<'a> {
    #[inline]
    pub(crate) fn new(def: &'a TableDef, missing: &'a [Value], found: Found<'a>) -> Self {
        let place = match found {
            Found::Delta(row) => Place::Row(row.expect("entries of a table's rows carry a row")),
            Found::Base(chunk, index) => Place::Chunk(chunk, index),
        };
        Self { def, missing, place }
    }

    /// A row that is nowhere yet, such as one about to be inserted.
    #[must_use]
    pub(crate) fn of_row(def: &'a TableDef, missing: &'a [Value], row: &'a Row) -> Self {
        Self { def, missing, place: Place::Row(row) }
    }

    /// The table's definition.
    #[must_use]
    pub fn def(&self) -> &'a TableDef {
        self.def
    }

    /// The value of a column, by its index in the definition.
    ///
    /// # Panics
    /// If the definition has no such column.
    #[must_use]
    #[inline]
    pub fn get(&self, column: usize) -> ValueRef<'a> {
        let value = match self.place {
            Place::Row(row) => row.get(self.def.layout(), column),
            Place::Chunk(chunk, index) => chunk.value(column, index),
        };
        value.unwrap_or_else(|| self.missing[column].borrow())
    }

    /// The columns that are NULL.
    pub(crate) fn null_columns(&self) -> impl Iterator<Item = usize> {
        let (written, known) = match self.place {
            Place::Row(row) => (row.column_count(), Some(row.null_columns())),
            Place::Chunk(..) => (0, None),
        };
        let others = written..self.def.layout().len();
        known.into_iter().flatten().chain(others.filter(|&column| self.get(column).is_null()))
    }

    /// Whether a column has the same value in both rows. Two values that compare as equal and are written
    /// differently may count as different.
    #[must_use]
    pub(crate) fn has_same(&self, other: &RowRef<'_>, column: usize) -> bool {
        if let (Place::Row(mine), Place::Row(theirs)) = (self.place, other.place)
            && column < mine.column_count()
            && column < theirs.column_count()
        {
            return mine.has_same(theirs, self.def.layout(), column);
        }
        self.get(column) == other.get(column)
    }

    /// Its primary key.
    #[must_use]
    pub fn key(&self) -> Key {
        match self.place {
            Place::Chunk(chunk, index) => Key::from_slice(chunk.keys().get(index)),
            Place::Row(_) => self.def.key_of(|column| self.get(column)),
        }
    }

    /// A copy as a row of the present layout.
    #[must_use]
    pub fn to_row(&self) -> Row {
        if let Place::Row(row) = self.place
            && row.column_count() == self.def.layout().len()
        {
            return row.clone();
        }
        self.with(&[])
    }

    /// A copy with some columns changed: `(column, value)` pairs, of the columns' physical types.
    ///
    /// # Panics
    /// If a value is of another type.
    #[must_use]
    pub fn with(&self, changes: &[(usize, Value)]) -> Row {
        if let Place::Row(row) = self.place
            && let Some(row) = row.patched(self.def.layout(), changes)
        {
            return row;
        }
        let mut writer = RowWriter::new(self.def.layout());
        for column in 0..self.def.layout().len() {
            let changed = changes.iter().find(|(changed, _)| *changed == column);
            let value = changed.map_or_else(|| self.get(column), |(_, value)| value.borrow());
            writer.push(value).expect("changed values are of their columns' types");
        }
        writer.finish()
    }

    /// The entry of this row in an index.
    #[must_use]
    pub(crate) fn index_entry(&self, index: &IndexDef, primary_key: &Key) -> Key {
        let mut writer = index_prefix(index, |column| self.get(column));
        writer.push_raw(primary_key.as_slice());
        writer.finish()
    }
}

/// The indexed columns of a row, as the first part of its index entry.
pub(crate) fn index_prefix<'a>(index: &IndexDef, value: impl Fn(usize) -> ValueRef<'a>) -> KeyWriter {
    let mut writer = KeyWriter::new();
    for &column in &index.columns {
        writer.push_nullable(value(column));
    }
    writer
}

/// One entry of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The whole entry: the indexed columns, tagged, then the primary key.
    pub key: Key,
    /// The primary key of its row.
    pub primary_key: Key,
}

/// Where the primary key begins in an entry of this index.
///
/// # Panics
/// If the entry is damaged.
#[must_use]
pub(crate) fn primary_key_start(def: &TableDef, index: &IndexDef, entry: &[u8]) -> usize {
    let mut reader = KeyReader::new(entry);
    for &column in &index.columns {
        reader
            .skip(def.columns[column].ty.physical(), Nullable::Yes)
            .expect("index entries are written whole and checked when read from files");
    }
    reader.position()
}

/// `(a, b)=(1, 2)`: how messages name a key.
#[must_use]
pub(crate) fn describe_columns<'a>(
    def: &TableDef,
    columns: &[usize],
    value: impl Fn(usize) -> ValueRef<'a>,
) -> String {
    let columns: Vec<usize> =
        columns.iter().copied().filter(|&column| !def.columns[column].is_marker()).collect();
    let names: Vec<_> = columns.iter().map(|&column| def.columns[column].name.as_str()).collect();
    let values: Vec<_> =
        columns.iter().map(|&column| described(def.columns[column].ty, value(column))).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}

impl Table {
    /// The values of a key of the table's rows or of one of its indexes, as messages show them; `None` if the bytes are
    /// not such a key. Of a brick table, the bricks that have this mark.
    pub(crate) fn describe_key(&self, space: SpaceId, key: &Key) -> Option<String> {
        if let Some(bricks) = self.bricks() {
            return bricks.describe_mark(key);
        }
        let (columns, nullable) = match self.index(space) {
            Some((index, _)) => (&index.columns, Nullable::Yes),
            None => (&self.def().primary_key, Nullable::No),
        };
        let mut reader = KeyReader::new(key.as_slice());
        let mut values: Vec<(usize, Value)> = Vec::with_capacity(columns.len());
        for &column in columns {
            if reader.rest().is_empty() {
                break;
            }
            let physical = self.def().columns[column].ty.physical();
            values.push((column, reader.read(physical, nullable).ok()?));
        }
        let known: Vec<usize> = values.iter().map(|(column, _)| *column).collect();
        let value = |wanted: usize| {
            let found = values.iter().find(|(column, _)| *column == wanted);
            found.map_or(ValueRef::Null, |(_, value)| value.borrow())
        };
        (!known.is_empty()).then(|| describe_columns(self.def(), &known, value))
    }
}
