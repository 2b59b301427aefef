// SPDX-License-Identifier: Apache-2.0
//! New indexes in the log: taken from the files that the log names, or built of the rows that are there.
//!
//! A file that cannot be read is an error, as one of a bulk load is. Where damaged tables are served or mended, the index is
//! built of the rows instead: nothing of it is lost.

use super::{DamagedIndexes, MendTables, ReplayError};
use crate::build_index::build_index;
use crate::catalog::TableDef;
use crate::disk::{Disk, chunks_of};
use crate::record::IndexPlace;
use crate::space::Space;
use crate::table::Table;

/// Makes the new indexes of a transaction.
pub(super) struct NewIndexes<'r, 'd> {
    pub(super) disk: &'r Disk,
    /// Takes what can be read of a damaged file, if there is a repair.
    pub(super) mender: Option<&'r mut (dyn MendTables + 'd)>,
    pub(super) damaged: DamagedIndexes,
    /// Those that lie in files.
    pub(super) places: &'r [IndexPlace],
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
        // Of what is damaged there may be less.
        let is_whole = self.mender.is_none() && self.damaged == DamagedIndexes::Refused;
        if is_whole && entries.len() != table.row_count() {
            let what =
                format!("index {} with {} entries of {} rows", index.name, entries.len(), table.row_count());
            return Err(ReplayError::Malformed(what));
        }
        Ok(entries)
    }
}
