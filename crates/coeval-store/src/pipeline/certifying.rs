// SPDX-License-Identifier: Apache-2.0
//! Certification under the leader's lock, and what those are told who lose.

use super::Leader;
use crate::bulk::is_free;
use crate::catalog::{CatalogChange, TableDef};
use crate::conflicts::{ConflictCause, ConflictError, ConflictPlace, ConflictReason};
use crate::delta::Delta;
use crate::error::StoreError;
use crate::footprint::{Footmark, GlobalKey};
use crate::ids::SpaceId;
use crate::range::KeyRange;
use crate::recent_loads::RecentLoad;
use crate::submission::Submission;
use crate::table::Table;
use crate::world::World;
use coeval_txn::ssi::Certified;
use coeval_txn::{Access, Conflict, Precision, Version};
use std::ops::Bound;

impl Leader {
    /// First committer wins; at SERIALIZABLE, what it read as well.
    pub(super) fn certify(
        &mut self,
        newest: &World,
        submission: &Submission,
    ) -> Result<Option<Certified>, StoreError> {
        self.certify_writes(newest, submission)?;
        let Some(certification) = &submission.certification else { return Ok(None) };
        self.certifications.certify(newest, submission, certification).map(Some)
    }

    /// The error, with where the transaction came from that was first.
    pub(super) fn with_winner(&self, error: StoreError) -> StoreError {
        let StoreError::Conflict(mut conflict) = error else { return error };
        self.participants.name_winner(&mut conflict);
        StoreError::Conflict(conflict)
    }

    pub(super) fn certify_footprint(
        &mut self,
        newest: &World,
        footprint: &[Footmark],
    ) -> Result<(), StoreError> {
        for marks in footprint.chunk_by(|one, next| one.begin == next.begin) {
            let accesses = marks.iter().map(|mark| (&mark.key, mark.certify));
            self.certifier
                .certify(marks[0].begin, accesses)
                .map_err(|conflict| StoreError::Conflict(describe_conflict(newest, &conflict)))?;
        }
        Ok(())
    }

    fn certify_writes(&mut self, newest: &World, submission: &Submission) -> Result<(), StoreError> {
        self.certify_footprint(newest, &submission.footprint)?;
        for load in self.recent_loads.iter() {
            if load.version > submission.begin && overlaps(submission, load) {
                return Err(StoreError::Conflict(conflict_with_load(newest, load.table, load.version)));
            }
        }
        for load in &submission.loads {
            let Some((first, last)) = load.key_span() else { continue };
            let span = KeyRange { lower: Bound::Included(first), upper: Bound::Included(last) };
            let created_here = newest.table(load.table()).is_none();
            let free = match newest.table(load.table()) {
                None => false,
                Some(table) => is_free(table, &span)? && takes_entries(submission, table),
            };
            let truncated_here = submission
                .catalog_changes
                .iter()
                .any(|change| matches!(change, CatalogChange::Truncate(id) if *id == load.table()));
            if !(created_here || truncated_here || free) {
                let conflict = conflict_with_load(newest, load.table(), newest.version());
                return Err(StoreError::Conflict(conflict));
            }
        }
        Ok(())
    }
}

/// Whether the indexes of a table that a transaction keeps can take the entries of a load, whatever their keys.
fn takes_entries(submission: &Submission, table: &Table) -> bool {
    let kept = submission.snapshot.table(table.id());
    let is_kept = |id| kept.is_some_and(|kept| kept.index(id).is_some());
    let mut indexes = table.def().indexes.iter().zip(table.indexes());
    indexes.all(|(index, entries)| entries.has_no_parts() || !is_kept(index.id))
}

/// Whether a transaction wrote rows into the range of a load it did not see.
fn overlaps(submission: &Submission, load: &RecentLoad) -> bool {
    let range =
        KeyRange { lower: Bound::Included(load.first.clone()), upper: Bound::Included(load.last.clone()) };
    let in_range = |rows: &Delta| rows.iter_range(range.clone()).next().is_some();
    submission.writes.iter().any(|writes| {
        // Unique keys of loaded rows are not in the certifier, so any writer of the table must look again.
        writes.table == load.table && (in_range(&writes.rows) || !writes.indexes.is_empty())
    })
}

fn describe_conflict(world: &World, conflict: &Conflict<GlobalKey>) -> ConflictError {
    let (space, key) = &conflict.key;
    let what = match (conflict.mine, conflict.other) {
        _ if *space == crate::ids::CATALOG_SPACE => "concurrent change of a definition",
        (_, Access::Update) => "concurrent update",
        (_, Access::Reference) => "concurrent reference to the row",
        (Access::Reference, Access::Identity) => "concurrent delete",
        (_, Access::Identity) => "concurrent insert or delete",
    };
    let reason =
        if *space == crate::ids::CATALOG_SPACE { ConflictReason::Definition } else { ConflictReason::Write };
    let (other, version) = (conflict.other_transaction, conflict.other_version);
    let place = world.describe_key(*space, key);
    let detail = match conflict.precision {
        Precision::Key => {
            format!("{place}: transaction {other} committed version {version} after this one began.")
        }
        Precision::Group => format!(
            "{place}: others, transaction {other} with version {version} among them, have changed so much since this one \
             began that it is not known whether they changed this. Shorter transactions are not refused for that."
        ),
    };
    ConflictError {
        what,
        space: *space,
        detail,
        version: conflict.other_version,
        cause: ConflictCause::new(reason, world.place_of(*space, key)).won_by(conflict.other_transaction),
    }
}

/// For a transaction whose new index others' rows have run away from.
pub(super) fn conflict_beside_index(
    table: &Table,
    def: &TableDef,
    position: usize,
    since: Version,
) -> ConflictError {
    let (index, name) = (&def.indexes[position].name, def.name.to_string());
    let place = ConflictPlace { space: Some(table.id()), table: Some(name.clone()), key: None };
    ConflictError {
        what: "concurrent change of many rows",
        space: table.id(),
        detail: format!(
            "index \"{index}\" of table \"{name}\": others have written more since version {since} than the index \
             could take in beside them."
        ),
        version: since,
        cause: ConflictCause::new(ConflictReason::Load, place),
    }
}

fn conflict_with_load(world: &World, table: SpaceId, version: Version) -> ConflictError {
    let name = world.table(table).map_or_else(|| table.to_string(), |table| table.def().name.to_string());
    ConflictError {
        what: "concurrent bulk load",
        space: table,
        detail: format!("table \"{name}\": rows of the same key range were written since this one began."),
        version,
        cause: ConflictCause::new(ConflictReason::Load, world.place_of_space(table)),
    }
}
