// SPDX-License-Identifier: Apache-2.0
//! Building an index over the rows of a table, and checking that a unique one has no key twice.

use crate::catalog::{IndexDef, TableDef};
use crate::chunk::{CHUNK_BYTES_MAX, CHUNK_ROWS, Chunk};
use crate::cursor::SpaceCursor;
use crate::delta::{BasePosition, Delta, DeltaEntry};
use crate::error::StoreError;
use crate::key::Key;
use crate::key_column::KeyColumnBuilder;
use crate::key_size::check_key_size;
use crate::range::{Direction, KeyRange};
use crate::space::{Found, Space, add_one};
use crate::stop::{Stop, never, sort};
use crate::table::{RowRef, Table, missing_values};
use crate::taken_keys::unique_key_taken;
use crate::value::{KeyReader, Nullable};
use std::sync::Arc;

/// The entry of a row in an index.
pub(crate) fn entry(index: &IndexDef, row: RowRef<'_>, primary_key: &Key) -> Key {
    row.index_entry(index, primary_key)
}

/// The entries of the index at `position` of `def` for all rows of the table, which may be of an older
/// definition. Uniqueness is not looked at. Costs one pass over the rows and a parallel sort.
pub(crate) fn build_index(table: &Table, def: &TableDef, position: usize) -> Result<Space, StoreError> {
    build_index_until(table, def, position, &never)
}

/// The same, unless it is asked to end before.
///
/// # Errors
/// That of `stop`; [`StoreError::Corrupt`] if a chunk is damaged.
pub(crate) fn build_index_until(
    table: &Table,
    def: &TableDef,
    position: usize,
    stop: Stop<'_>,
) -> Result<Space, StoreError> {
    let index = &def.indexes[position];
    let missing = missing_values(def);
    let entry_of = |(key, found): (Key, Found<'_>)| {
        stop()?;
        let entry = entry(index, RowRef::new(def, &missing, found), &key);
        check_key_size(&index.name, entry.as_slice()).map(|()| entry)
    };
    let mut entries: Vec<Key> = SpaceCursor::new(table.rows(), None, &KeyRange::all(), Direction::Forward)
        .map(|row| row.and_then(entry_of))
        .collect::<Result<_, _>>()?;
    sort(&mut entries, stop)?;
    Ok(Space::from_chunks(key_chunks(entries.iter().map(Key::as_slice))))
}

/// The same, checked to have one owner for each key if it is unique.
///
/// # Errors
/// [`StoreError::Constraint`] naming the first key with two; [`StoreError::Corrupt`] if a chunk is damaged.
pub(crate) fn build_checked_index(
    table: &Table,
    def: &TableDef,
    position: usize,
) -> Result<Space, StoreError> {
    let space = build_index(table, def, position)?;
    if def.indexes[position].uniqueness.is_unique() {
        check_unique_space(table, def, position, &space, &never)?;
    }
    Ok(space)
}

/// The index at `position` of `def` over the rows of `now`, made of `built`, the same over the rows of `read`.
/// `changed` are the primary keys of all rows that differ, and perhaps of others. With the changes of entries that make the one
/// of the other. Costs a few look-ups for each key.
///
/// # Errors
/// [`StoreError::Constraint`] if the index is unique and one of the changed rows has a key that another one has;
/// [`StoreError::Corrupt`] if a chunk is damaged.
pub(crate) fn catch_up<'k>(
    read: &Table,
    built: &Space,
    now: &Table,
    def: &TableDef,
    position: usize,
    changed: impl Iterator<Item = &'k Key>,
) -> Result<(Space, Delta), StoreError> {
    let index = &def.indexes[position];
    let missing = missing_values(def);
    let entry_in = |table: &Table, key: &Key| -> Result<_, StoreError> {
        let found = table.rows().find(key)?;
        Ok(found.map(|found| entry(index, RowRef::new(def, &missing, found), key)))
    };
    let mut changes = Delta::default();
    let mut added = Vec::new();
    for key in changed {
        let (old, new) = (entry_in(read, key)?, entry_in(now, key)?);
        if old == new {
            continue;
        }
        if let Some(old) = old {
            add_one(&mut changes, old, DeltaEntry::deleted(BasePosition::UNKNOWN));
        }
        if let Some(new) = new {
            check_key_size(&index.name, new.as_slice())?;
            add_one(&mut changes, new.clone(), DeltaEntry::inserted(None));
            added.push(new);
        }
    }
    let mut space = built.clone();
    space.apply(&changes, None);
    if index.uniqueness.is_unique() {
        for new in added {
            let Some((prefix, primary_key)) = claim(def, index, &new)? else { continue };
            let owners = KeyRange::prefix(prefix.as_slice());
            let mut owners = SpaceCursor::new(&space, None, &owners, Direction::Forward);
            if owners.nth(1).transpose()?.is_some() {
                let found = now.rows().find(&primary_key)?.ok_or(StoreError::MissingRow)?;
                return Err(unique_key_taken(def, index, RowRef::new(def, &missing, found)).into());
            }
        }
    }
    Ok((space, changes))
}

/// The entries of an index as chunks: those of its base if nothing has changed since, else made of one pass over it.
///
/// # Errors
/// [`StoreError::Corrupt`] if a chunk is damaged.
pub(crate) fn chunks_of_entries(entries: &Space) -> Result<Vec<Arc<Chunk>>, StoreError> {
    if entries.delta().is_empty() {
        return Ok(entries.base().iter().map(|(_, chunk)| Arc::clone(chunk)).collect());
    }
    let keys: Vec<Key> = SpaceCursor::new(entries, None, &KeyRange::all(), Direction::Forward)
        .map(|entry| entry.map(|(key, _)| key))
        .collect::<Result<_, _>>()?;
    Ok(key_chunks(keys.iter().map(Key::as_slice)))
}

/// An index with the entries that these chunks hold. Costs one pass over both and a parallel sort.
///
/// # Errors
/// [`StoreError::Corrupt`] if a chunk is damaged.
pub(crate) fn with_loaded<'c>(
    built: &Space,
    loaded: impl Iterator<Item = &'c Arc<Chunk>>,
) -> Result<Space, StoreError> {
    let mut entries: Vec<Key> = SpaceCursor::new(built, None, &KeyRange::all(), Direction::Forward)
        .map(|entry| entry.map(|(key, _)| key))
        .collect::<Result<_, _>>()?;
    for chunk in loaded {
        chunk.check_whole()?;
        entries.extend((0..chunk.rows()).map(|index| Key::from_slice(chunk.keys().get(index))));
    }
    sort(&mut entries, &never)?;
    Ok(Space::from_chunks(key_chunks(entries.iter().map(Key::as_slice))))
}

/// Chunks without columns for these keys, ascending.
pub(crate) fn key_chunks<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<Arc<Chunk>> {
    let mut chunks = Vec::new();
    let mut builder = KeyColumnBuilder::with_capacity(CHUNK_ROWS);
    for key in keys {
        builder.push(key);
        if builder.len() == CHUNK_ROWS || builder.bytes() >= CHUNK_BYTES_MAX {
            let full = std::mem::replace(&mut builder, KeyColumnBuilder::with_capacity(CHUNK_ROWS));
            chunks.push(Arc::new(Chunk::new(full.finish(), Vec::new())));
        }
    }
    if !builder.is_empty() {
        chunks.push(Arc::new(Chunk::new(builder.finish(), Vec::new())));
    }
    chunks
}

/// Whether each key of the unique index at `position` has one owner, unless it is asked to end before. Costs one pass over
/// the index.
///
/// # Errors
/// [`StoreError::Constraint`] naming the first key with two; that of `stop`.
pub(crate) fn check_unique(table: &Table, position: usize, stop: Stop<'_>) -> Result<(), StoreError> {
    check_unique_space(table, table.def(), position, &table.indexes()[position], stop)
}

/// The same for an index that is not part of the table yet.
///
/// # Errors
/// As [`check_unique`].
pub(crate) fn check_unique_space(
    table: &Table,
    def: &TableDef,
    position: usize,
    space: &Space,
    stop: Stop<'_>,
) -> Result<(), StoreError> {
    let index = &def.indexes[position];
    let mut previous: Option<Key> = None;
    for entry in SpaceCursor::new(space, None, &KeyRange::all(), Direction::Forward) {
        stop()?;
        let (entry, _) = entry?;
        let Some((prefix, primary_key)) = claim(def, index, &entry)? else { continue };
        if previous.as_ref() == Some(&prefix) {
            let found = table.rows().find(&primary_key)?.ok_or(StoreError::MissingRow)?;
            return Err(unique_key_taken(def, index, table.row_ref(found)).into());
        }
        previous = Some(prefix);
    }
    Ok(())
}

/// The indexed columns and the primary key of an entry; `None` if an indexed column is NULL.
fn claim(def: &TableDef, index: &IndexDef, entry: &Key) -> Result<Option<(Key, Key)>, StoreError> {
    let mut reader = KeyReader::new(entry.as_slice());
    let mut has_null = false;
    for &column in &index.columns {
        has_null |=
            reader.read(def.columns[column].ty.physical(), Nullable::Yes)? == crate::value::Value::Null;
    }
    let prefix = Key::from_slice(&entry.as_slice()[..reader.position()]);
    Ok((!has_null).then(|| (prefix, Key::from_slice(reader.rest()))))
}
