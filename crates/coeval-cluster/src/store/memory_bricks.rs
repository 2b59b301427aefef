// SPDX-License-Identifier: Apache-2.0
//! [`MemoryBricks`]: the rows that a log makes, in memory.

use bytes::Bytes;
use coeval_txn::cluster::{BrickAddress, LogRecord};
use coeval_txn::{Epoch, EpochSet};
use std::collections::BTreeMap;

/// Batches of rows by brick, each with the label of its epoch, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryBricks {
    bricks: BTreeMap<BrickAddress, Vec<(Epoch, Bytes)>>,
}

impl MemoryBricks {
    /// Does what a record of the log says.
    pub(super) fn apply(&mut self, record: LogRecord<Bytes>) {
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
        self.bricks.retain(|_, batches| {
            batches.retain(|(label, _)| *label != epoch);
            !batches.is_empty()
        });
    }

    fn replace(&mut self, brick: BrickAddress, ended: &EpochSet, rows: Vec<(Epoch, Bytes)>) {
        let batches = self.bricks.entry(brick).or_default();
        batches.retain(|(label, _)| !ended.contains(*label));
        batches.extend(rows);
        if batches.is_empty() {
            self.bricks.remove(&brick);
        }
    }

    pub(super) fn read(&self, brick: BrickAddress, snapshot: &EpochSet) -> Vec<(Epoch, Bytes)> {
        let batches = self.bricks.get(&brick).into_iter().flatten();
        batches.filter(|(label, _)| snapshot.contains(*label)).cloned().collect()
    }

    pub(super) fn copy_of(&self, brick: BrickAddress) -> Vec<(Epoch, Bytes)> {
        self.bricks.get(&brick).cloned().unwrap_or_default()
    }

    pub(super) fn bricks(&self) -> Vec<BrickAddress> {
        self.bricks.keys().copied().collect()
    }

    /// Gives all rows up to `safe` one label, as an epochs vector does that drops what is between them.
    pub(super) fn purge(&mut self, safe: Epoch) {
        for (label, _) in self.bricks.values_mut().flatten() {
            if *label <= safe {
                *label = safe;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRICK: BrickAddress = BrickAddress { table: 1, brick: 2 };

    fn at(number: u64) -> Epoch {
        Epoch::new(number)
    }

    fn append(bricks: &mut MemoryBricks, epoch: u64, rows: &'static [u8]) {
        let rows = Bytes::from_static(rows);
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
        let rows = vec![(at(1), Bytes::from_static(b"given")), (at(2), Bytes::from_static(b"more"))];
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
}
