// SPDX-License-Identifier: Apache-2.0
//! [`MemoryBricks`]: the rows that a log makes, in memory.

use crate::brick_change::BrickChange;
use bytes::Bytes;
use coeval_txn::cluster::{BrickAddress, LogRecord};
use coeval_txn::{Epoch, EpochSet};
use std::collections::BTreeMap;

/// What transactions did to bricks, each with the label of its epoch, in the order in which it came.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryBricks {
    bricks: BTreeMap<BrickAddress, Vec<(Epoch, BrickChange)>>,
}

impl MemoryBricks {
    /// Does what a record of the log says.
    pub(super) fn apply(&mut self, record: LogRecord<BrickChange>) {
        match record {
            LogRecord::Append { epoch, brick, rows, .. } => {
                self.bricks.entry(brick).or_default().push((epoch, rows));
            }
            LogRecord::Cut(epoch) => self.cut(epoch),
            LogRecord::Copied { brick, ended, rows } => self.replace(brick, &ended, rows),
            LogRecord::Started(_)
            | LogRecord::Began(..)
            | LogRecord::Commit(..)
            | LogRecord::Forgotten
            | LogRecord::Safe(_)
            | LogRecord::Latest(_) => {}
        }
    }

    fn cut(&mut self, epoch: Epoch) {
        self.bricks.retain(|_, changes| {
            changes.retain(|(label, _)| *label != epoch);
            !changes.is_empty()
        });
    }

    fn replace(&mut self, brick: BrickAddress, ended: &EpochSet, given: Vec<(Epoch, BrickChange)>) {
        let changes = self.bricks.entry(brick).or_default();
        changes.retain(|(label, _)| !ended.contains(*label));
        changes.extend(given);
        if changes.is_empty() {
            self.bricks.remove(&brick);
        }
    }

    pub(super) fn read(&self, brick: BrickAddress, snapshot: &EpochSet) -> Vec<(Epoch, Bytes)> {
        let changes = self.bricks.get(&brick).map(Vec::as_slice).unwrap_or_default();
        let deleted = deleted(changes, |label| snapshot.contains(label));
        let is_seen = |label| snapshot.contains(label) && !deleted.iter().any(|seen| seen.contains(label));
        let rows = changes.iter().filter_map(|(label, change)| match change {
            BrickChange::Rows(rows) | BrickChange::SpelledRows(rows, _) if is_seen(*label) => {
                Some((*label, rows.clone()))
            }
            BrickChange::Rows(_) | BrickChange::SpelledRows(..) | BrickChange::Delete(_) => None,
        });
        rows.collect()
    }

    pub(super) fn copy_of(&self, brick: BrickAddress) -> Vec<(Epoch, BrickChange)> {
        self.bricks.get(&brick).cloned().unwrap_or_default()
    }

    pub(super) fn bricks(&self) -> Vec<BrickAddress> {
        self.bricks.keys().copied().collect()
    }

    /// Drops what deletes up to `safe` cover, with these deletes, and gives all rows up to `safe` one label, as an epochs vector
    /// does that drops what is between them. A later delete covers all of them, as it would one by one.
    pub(super) fn purge(&mut self, safe: Epoch) {
        self.bricks.retain(|_, changes| {
            let deleted = deleted(changes, |label| label <= safe);
            changes.retain(|(label, change)| match change {
                BrickChange::Rows(_) | BrickChange::SpelledRows(..) => {
                    !deleted.iter().any(|seen| seen.contains(*label))
                }
                BrickChange::Delete(_) => *label > safe,
            });
            changes.iter_mut().for_each(|(label, _)| *label = if *label <= safe { safe } else { *label });
            !changes.is_empty()
        });
    }
}

/// What the deletes cover whose labels are chosen.
fn deleted(changes: &[(Epoch, BrickChange)], is_chosen: impl Fn(Epoch) -> bool) -> Vec<EpochSet> {
    let deletes = changes.iter().filter_map(|(label, change)| match change {
        BrickChange::Delete(seen) if is_chosen(*label) => Some(seen.clone()),
        BrickChange::Delete(_) | BrickChange::Rows(_) | BrickChange::SpelledRows(..) => None,
    });
    deletes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRICK: BrickAddress = BrickAddress { table: 1, brick: 2 };

    fn at(number: u64) -> Epoch {
        Epoch::new(number)
    }

    fn append(bricks: &mut MemoryBricks, epoch: u64, rows: &'static [u8]) {
        let rows = BrickChange::Rows(Bytes::from_static(rows));
        bricks.apply(LogRecord::Append { epoch: at(epoch), number: 0, brick: BRICK, rows });
    }

    fn delete(bricks: &mut MemoryBricks, epoch: u64, seen: EpochSet) {
        let rows = BrickChange::Delete(seen);
        bricks.apply(LogRecord::Append { epoch: at(epoch), number: 0, brick: BRICK, rows });
    }

    fn seen(bricks: &MemoryBricks, through: u64) -> Vec<Bytes> {
        let rows = bricks.read(BRICK, &EpochSet::through(at(through)));
        rows.into_iter().map(|(_, rows)| rows).collect()
    }

    #[test]
    fn a_snapshot_sees_what_it_has_and_a_cut_is_for_good() {
        let mut bricks = MemoryBricks::default();
        append(&mut bricks, 1, b"a");
        append(&mut bricks, 3, b"b");
        append(&mut bricks, 2, b"c");
        assert_eq!(seen(&bricks, 2), [&b"a"[..], b"c"]);
        bricks.apply(LogRecord::Cut(at(2)));
        assert_eq!(seen(&bricks, 9), [&b"a"[..], b"b"]);
        bricks.apply(LogRecord::Cut(at(1)));
        bricks.apply(LogRecord::Cut(at(3)));
        assert!(bricks.bricks().is_empty());
    }

    #[test]
    fn a_copy_replaces_what_had_ended_and_nothing_else() {
        let mut bricks = MemoryBricks::default();
        append(&mut bricks, 1, b"old");
        append(&mut bricks, 5, b"own");
        let given = |rows| BrickChange::Rows(Bytes::from_static(rows));
        let rows = vec![(at(1), given(b"given")), (at(2), given(b"more"))];
        bricks.apply(LogRecord::Copied { brick: BRICK, ended: EpochSet::through(at(3)), rows });
        assert_eq!(seen(&bricks, 9), [&b"own"[..], b"given", b"more"]);
    }

    /// Rows of epochs 2 and 5 get one label. A copy that was asked for when 3 had ended would take both for newer: so nothing
    /// is purged while bricks are on their way.
    #[test]
    fn purged_rows_have_the_label_up_to_which_all_see_them() {
        let mut bricks = MemoryBricks::default();
        append(&mut bricks, 2, b"a");
        append(&mut bricks, 5, b"b");
        append(&mut bricks, 8, b"c");
        bricks.purge(at(6));
        assert_eq!(seen(&bricks, 6), [&b"a"[..], b"b"]);
        assert!(seen(&bricks, 5).is_empty(), "who could read at 5 is gone");
        assert_eq!(bricks.copy_of(BRICK).iter().map(|(label, _)| label.get()).collect::<Vec<_>>(), [6, 6, 8]);
    }

    #[test]
    fn a_delete_is_for_who_sees_it_and_of_what_it_covers() {
        let mut bricks = MemoryBricks::default();
        append(&mut bricks, 1, b"a");
        append(&mut bricks, 3, b"b");
        append(&mut bricks, 5, b"c");
        delete(&mut bricks, 4, EpochSet::below(at(4)).without([at(3)]));
        assert_eq!(seen(&bricks, 3), [&b"a"[..], b"b"]);
        assert_eq!(seen(&bricks, 4), [&b"b"[..]]);
        assert_eq!(seen(&bricks, 9), [&b"b"[..], b"c"]);
        let mut rolled_back = bricks.clone();
        rolled_back.apply(LogRecord::Cut(at(4)));
        assert_eq!(seen(&rolled_back, 9), [&b"a"[..], b"b", b"c"]);
    }

    #[test]
    fn purge_drops_what_is_deleted_and_keeps_later_deletes() {
        let mut bricks = MemoryBricks::default();
        append(&mut bricks, 1, b"a");
        append(&mut bricks, 3, b"b");
        delete(&mut bricks, 4, EpochSet::below(at(4)).without([at(3)]));
        delete(&mut bricks, 7, EpochSet::below(at(7)));
        append(&mut bricks, 8, b"c");
        bricks.purge(at(5));
        assert_eq!(seen(&bricks, 6), [&b"b"[..]]);
        assert_eq!(seen(&bricks, 9), [&b"c"[..]]);
        assert_eq!(bricks.copy_of(BRICK).len(), 3, "a row and a delete are gone");
        bricks.purge(at(7));
        assert_eq!(bricks.copy_of(BRICK).len(), 1);
    }
}
