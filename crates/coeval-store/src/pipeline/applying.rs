// SPDX-License-Identifier: Apache-2.0
//! Under the leader's lock: what a certified transaction does to the world of its batch, and the record of that batch.

use super::new_indexes::LedIndex;
use super::{Admitted, Leader};
use crate::catalog::CatalogChange;
use crate::commit_context::CommitContext;
use crate::delta::Delta;
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::index_file::{LateEntries, LateIndex, late_bytes_max};
use crate::log::{Log, LogError, Lsn, PayloadTail, Unfilled};
use crate::record::{changes_bytes, encode_batch, encode_batch_of_one, encode_batch_with_indexes};
use crate::submission::{LoadedEntries, Submission};
use crate::world::World;
use coeval_txn::Version;

/// What the leader does to the entries of a transaction's new indexes that lie in files.
struct LateIndexes {
    all: Vec<LateIndex>,
    /// So many bytes of changes the record takes yet.
    bytes_left: usize,
}

impl LateIndexes {
    /// The bytes of an index in the record, without those of its changes.
    const HEAD_BYTES: usize = size_of::<u32>() + 1;

    /// Of a leader that takes in so many rows.
    fn new(rows_max: usize) -> Self {
        // Their length and how many they are come first.
        let bytes_left = late_bytes_max(rows_max).saturating_sub(2 * size_of::<u32>());
        Self { all: Vec::new(), bytes_left }
    }

    /// These changes, or those that nobody knows. Of an index that goes and comes again, the last ones count.
    fn note(&mut self, index: SpaceId, changes: Option<Delta>) {
        self.all.retain(|known| known.index != index);
        let bytes = changes.as_ref().map_or(0, changes_bytes);
        let changes = changes.filter(|_| Self::HEAD_BYTES + bytes <= self.bytes_left);
        let bytes = if changes.is_some() { bytes } else { 0 };
        self.bytes_left = self.bytes_left.saturating_sub(Self::HEAD_BYTES + bytes);
        self.all
            .push(LateIndex { index, entries: changes.map_or(LateEntries::OfRows, LateEntries::Changes) });
    }
}

impl Leader {
    /// Applies a certified submission to the world of its batch. Returns what was done to its new indexes that lie in files.
    pub(super) fn apply(
        &self,
        world: &mut World,
        submission: &Submission,
    ) -> Result<Vec<LateIndex>, StoreError> {
        let (mut merged, mut late) = (Vec::new(), LateIndexes::new(self.rows_max));
        for change in &submission.catalog_changes {
            world.change_catalog(change, |table, def, position| {
                let id = def.indexes[position].id;
                let LedIndex { entries, loaded, changes } =
                    self.index_for(submission, table, def, position)?;
                if loaded == LoadedEntries::Merged {
                    merged.push(id);
                }
                if submission.index_files().any(|(rebuilt, _)| rebuilt.index == id) {
                    late.note(id, changes);
                }
                Ok::<_, StoreError>(entries)
            })?;
        }
        for change in &submission.catalog_changes {
            let id = match change {
                CatalogChange::PutTable(def) => def.id,
                CatalogChange::Truncate(id) => *id,
                _ => continue,
            };
            let read = submission.snapshot.table(id).and_then(|table| table.bricks());
            if let Some(bricks) = read.filter(|_| world.table(id).is_some()) {
                world.set_bricks(id, bricks);
            }
        }
        for load in &submission.loads {
            world.update_table(load.table(), |table| table.load(load, &merged))?;
        }
        for writes in &submission.writes {
            let read = submission.snapshot.table(writes.table);
            world.update_table(writes.table, |table| table.apply(writes, read.map(AsRef::as_ref)));
        }
        Ok(late.all)
    }

    /// Appends the record of a batch. Of one with a large body it is the place of that body which is returned.
    pub(super) fn append(
        &mut self,
        context: &CommitContext,
        version: Version,
        admitted: &[Admitted<'_>],
    ) -> Result<(Option<Lsn>, Option<Unfilled>), LogError> {
        let Some(log) = &mut self.log else { return Ok((None, None)) };
        let boundary = if context.tells_of_safe() { context.boundary_for_others() } else { Version::ZERO };
        let (lsn, place) = match admitted {
            [one] if one.submission.is_large() || one.submission.has_index_files() => {
                append_one(log, (version, boundary), one)?
            }
            _ => {
                let transactions =
                    admitted.iter().map(|admitted| (admitted.first_out, admitted.submission.body.as_slice()));
                (log.append_with(|out| encode_batch(version, boundary, transactions, out))?, None)
            }
        };
        self.logged_boundary = boundary;
        Ok((Some(lsn), place))
    }
}

/// Appends the record of a transaction that is a batch by itself, without its body if that is large.
fn append_one(
    log: &mut Log,
    (version, boundary): (Version, Version),
    one: &Admitted<'_>,
) -> Result<(Lsn, Option<Unfilled>), LogError> {
    let (submission, first_out) = (&one.submission, one.first_out);
    let bytes = submission.body.len();
    let head = |out: &mut Vec<u8>| {
        if submission.has_index_files() {
            encode_batch_with_indexes(version, boundary, &one.late, first_out, bytes, out);
        } else {
            encode_batch_of_one(version, boundary, first_out, bytes, out);
        }
    };
    if let Some(checksum) = submission.body_checksum {
        return log.append_with_tail(head, PayloadTail { bytes, checksum });
    }
    let whole = |out: &mut Vec<u8>| {
        head(out);
        out.extend_from_slice(&submission.body);
    };
    Ok((log.append_with(whole)?, None))
}
