// SPDX-License-Identifier: Apache-2.0
//! New indexes in the log: taken from the files that the log names, or built of the rows that are there.
//!
//! A file that cannot be read is an error, as one of a bulk load is. Where damaged tables are served or mended, the index is
//! built of the rows instead: nothing of it is lost.

use super::{DamagedIndexes, MendTables, ReplayError};
use crate::build_index::build_index;
use crate::catalog::TableDef;
use crate::disk::{Disk, chunks_of};
use crate::ids::SpaceId;
use crate::record::IndexPlace;
use crate::space::Space;
use crate::submission::LoadedEntries;
use crate::table::Table;
use crate::world::World;

/// Makes the new indexes of a transaction.
pub(super) struct NewIndexes<'r, 'd> {
    pub(super) disk: &'r Disk,
    /// Takes what can be read of a damaged file, if there is a repair.
    pub(super) mender: Option<&'r mut (dyn MendTables + 'd)>,
    pub(super) damaged: DamagedIndexes,
    /// Those that lie in files.
    pub(super) places: &'r [IndexPlace],
    /// Those that have the entries of rows that the transaction loads.
    pub(super) merged: &'r mut Vec<SpaceId>,
}

impl NewIndexes<'_, '_> {
    /// The index at `position` of `def` over the rows of the table. Of one in a file it costs a step for each chunk, and for each
    /// entry that has changed since that was written.
    ///
    /// # Errors
    /// [`ReplayError::Store`] if the file, or the rows, cannot be read; [`ReplayError::Malformed`] if the file has entries of
    /// other rows.
    pub(super) fn make(
        &mut self,
        table: &Table,
        def: &TableDef,
        position: usize,
    ) -> Result<Space, ReplayError> {
        let index = &def.indexes[position];
        let Some(place) = self.places.iter().find(|place| place.index == index.id) else {
            return Ok(build_index(table, def, position)?);
        };
        let chunks = match &mut self.mender {
            // Damage is noted, also of a file that nobody needs.
            Some(mender) => Ok(mender.index(def, position, place.segment)),
            None => self.disk.open_segment(place.segment).map(|segment| chunks_of(&segment)),
        };
        let chunks = match chunks {
            Err(error) if self.damaged == DamagedIndexes::BuiltAgain => {
                tracing::warn!(table = %def.name, index = index.name, %error, "an index is built again");
                None
            }
            chunks => Some(chunks?),
        };
        let (Some(chunks), Some(changes)) = (chunks, &place.changes) else {
            return Ok(build_index(table, def, position)?);
        };
        let mut entries = Space::from_chunks(chunks);
        changes.iter().for_each(|changes| entries.apply(changes, None));
        if place.loaded == LoadedEntries::Merged {
            self.merged.push(index.id);
            return Ok(entries);
        }
        // Of what is damaged there may be less.
        if self.mender.is_none() && self.damaged == DamagedIndexes::Refused {
            check_count(&index.name, &entries, table)?;
        }
        Ok(entries)
    }
}

/// Whether these indexes, whose tables have by now what the transaction has loaded, have as many entries as those have rows.
///
/// # Errors
/// [`ReplayError::Malformed`] if not. Cost: a look at each table, if there are any.
pub(super) fn check_merged(world: &World, merged: &[SpaceId]) -> Result<(), ReplayError> {
    if merged.is_empty() {
        return Ok(());
    }
    for table in world.tables() {
        for (index, entries) in table.def().indexes.iter().zip(table.indexes()) {
            if merged.contains(&index.id) {
                check_count(&index.name, entries, table)?;
            }
        }
    }
    Ok(())
}

fn check_count(index: &str, entries: &Space, table: &Table) -> Result<(), ReplayError> {
    if entries.len() == table.row_count() {
        return Ok(());
    }
    let what = format!("index {index} with {} entries of {} rows", entries.len(), table.row_count());
    Err(ReplayError::Malformed(what))
}
