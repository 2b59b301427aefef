// SPDX-License-Identifier: Apache-2.0
//! Merging all spaces of a frozen world, in memory or into segment files.

use super::CheckpointReport;
use super::merge::{Merged, RowShape, merge};
use crate::build_index::build_index;
use crate::chunk::Chunk;
use crate::disk::{Disk, chunks_of};
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::segment::{KeyForm, SegmentRef, SegmentWriter};
use crate::shared::Shared;
use crate::space::{Base, Space};
use crate::table::Table;
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::Arc;

/// The merged base of each space of a frozen world.
#[derive(Debug, Default)]
pub(super) struct MergedSpaces {
    bases: HashMap<SpaceId, Base>,
    /// The numbers of the segment files that were written for them.
    pub(super) written: Vec<u64>,
}

impl MergedSpaces {
    pub(super) fn base(&self, id: SpaceId) -> Option<&Base> {
        self.bases.get(&id)
    }

    /// The segments of all chunks.
    pub(super) fn segments(&self) -> BTreeSet<u64> {
        let places = self.bases.values().flat_map(|base| base.iter().filter_map(|(_, chunk)| chunk.place()));
        places.map(|place| place.segment).collect()
    }
}

/// Merges all spaces, so that no chunk stays in a segment of `emptied`. What has been written is in `merged`, also after an
/// error.
pub(super) fn merge_spaces(
    shared: &Shared,
    world: &World,
    emptied: &BTreeSet<u64>,
    merged: &mut MergedSpaces,
    report: &mut CheckpointReport,
) -> Result<(), StoreError> {
    let mut left = sparse_segments(world);
    left.extend(emptied);
    for table in world.tables() {
        for (id, space) in table.spaces() {
            let shape: RowShape<'_> =
                (id == table.id()).then(|| (table.def().as_ref(), &table.missing()[..]));
            let base = match &shared.disk {
                None => merge_in_memory(shared, space, shape, report)?,
                Some(disk) => {
                    let mut to_disk = |space: &Space| {
                        let mut writer = SpaceWriter::new(disk, &mut merged.written);
                        merge_to_disk(shared, space, shape, &left, &mut writer, report)
                    };
                    match to_disk(space) {
                        // Whoever adds an entry does not read where it comes to lie. What was written of it goes with the
                        // other files that no manifest names.
                        Err(damage @ StoreError::Corrupt { .. }) => {
                            to_disk(&built_again(table, id).ok_or(damage)?)?
                        }
                        merged => merged?,
                    }
                }
            };
            merged.bases.insert(id, base);
        }
    }
    Ok(())
}

/// The entries of an index of which a chunk is damaged, by the rows; none if that is no index, or the rows are damaged too.
fn built_again(table: &Table, id: SpaceId) -> Option<Space> {
    let def = table.def();
    let position = def.indexes.iter().position(|index| index.id == id)?;
    tracing::warn!(index = def.indexes[position].name, "a damaged index is built again");
    build_index(table, def, position).ok()
}

/// Segments of which less than half is in use.
fn sparse_segments(world: &World) -> HashSet<u64> {
    let mut used: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (_, space) in world.tables().flat_map(|table| table.spaces()) {
        for (_, chunk) in space.base().iter() {
            if let Some(segment) = chunk.segment() {
                let entry = used.entry(segment.number()).or_insert((0, segment.bytes()));
                entry.0 += chunk.stored_bytes() as u64;
            }
        }
    }
    used.into_iter().filter(|(_, (used, all))| used * 2 < *all).map(|(number, _)| number).collect()
}

fn merge_in_memory(
    shared: &Shared,
    space: &Space,
    shape: RowShape<'_>,
    report: &mut CheckpointReport,
) -> Result<Base, StoreError> {
    let mut new = Vec::new();
    let merged = merge(
        space,
        shape,
        shared.sizes.chunk_rows,
        |_| true,
        |chunk| {
            shared.keeper.check_running()?;
            new.push(Arc::new(chunk));
            Ok(())
        },
    )?;
    Ok(put_together(merged, new, report))
}

fn merge_to_disk(
    shared: &Shared,
    space: &Space,
    shape: RowShape<'_>,
    left: &HashSet<u64>,
    writer: &mut SpaceWriter<'_>,
    report: &mut CheckpointReport,
) -> Result<Base, StoreError> {
    let keep = |chunk: &Chunk| chunk.place().is_some_and(|place| !left.contains(&place.segment));
    let merged = merge(space, shape, shared.sizes.chunk_rows, keep, |chunk| {
        shared.keeper.check_running()?;
        writer.push(&chunk)
    })?;
    let new = writer.finish()?;
    report.bytes_written += writer.bytes;
    Ok(put_together(merged, new, report))
}

/// The base of kept and new chunks.
fn put_together(merged: Vec<Merged>, new: Vec<Arc<Chunk>>, report: &mut CheckpointReport) -> Base {
    report.spaces += usize::from(!new.is_empty());
    report.chunks_written += new.len();
    report.chunks_kept += merged.len() - new.len();
    report.rows += new.iter().map(|chunk| chunk.rows() as u64).sum::<u64>();
    let mut new = new.into_iter();
    let chunks = merged.into_iter().map(|merged| match merged {
        Merged::Kept(chunk) => chunk,
        Merged::New => new.next().expect("each new chunk was given to the sink"),
    });
    let entries: Vec<_> = chunks.map(|chunk| (chunk.first_key(), chunk)).collect();
    assert!(new.next().is_none(), "each new chunk has its place");
    Base::from_sorted(entries)
}

/// Writes the new chunks of one space: into one segment file, or two if the keys of the first chunks have one
/// length and later ones have not.
struct SpaceWriter<'d> {
    disk: &'d Disk,
    /// The numbers of all files that were begun, for all spaces.
    written: &'d mut Vec<u64>,
    current: Option<SegmentWriter<'d>>,
    finished: Vec<SegmentRef>,
    bytes: u64,
}

impl<'d> SpaceWriter<'d> {
    fn new(disk: &'d Disk, written: &'d mut Vec<u64>) -> Self {
        Self { disk, written, current: None, finished: Vec::new(), bytes: 0 }
    }

    fn push(&mut self, chunk: &Chunk) -> Result<(), StoreError> {
        if self.current.as_ref().is_some_and(|current| !current.takes(chunk)) {
            self.finish_current()?;
        }
        if self.current.is_none() {
            let form = if self.finished.is_empty() { KeyForm::OfFirst } else { KeyForm::Variable };
            let number = self.disk.new_segment();
            self.written.push(number);
            self.current = Some(SegmentWriter::create(self.disk.place(), number, chunk, form)?);
        }
        self.current.as_mut().expect("a segment was just begun").push(chunk)
    }

    fn finish_current(&mut self) -> Result<(), StoreError> {
        if let Some(writer) = mem::take(&mut self.current) {
            self.bytes += writer.bytes();
            self.finished.push(writer.finish()?);
        }
        Ok(())
    }

    /// Completes the files and gives back all chunks that were written, mapped.
    fn finish(&mut self) -> Result<Vec<Arc<Chunk>>, StoreError> {
        self.finish_current()?;
        let mut chunks = Vec::new();
        for reference in &self.finished {
            chunks.extend(chunks_of(&self.disk.open_segment(*reference)?));
        }
        Ok(chunks)
    }
}
