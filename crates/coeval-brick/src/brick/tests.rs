// SPDX-License-Identifier: Apache-2.0
//! The paper's example partitions, operation by operation: its Figures 1 to 3 and Tables II and III.
//!
//! The figures are pictures; what they show follows from the text beside them (AOSI III-C). Each row's value is its
//! place in the order of arrival, so that a test sees which rows are left.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use coeval_txn::{Epoch, EpochSet};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::block::RowValues;
use crate::brick::{BrickView, BrickWriter, Deletion};
use crate::brick_id::BrickId;
use crate::column::{ColumnValues, Values};
use crate::declaration::{Column, Dimension, DimensionValues, Metric, Nulls};
use crate::epochs_vector::{EpochsPair, Step};
use crate::rebuild::Rebuilt;
use crate::schema::BrickSchema;
use crate::visibility::{Reader, Visible};

/// An operation of a transaction, as Table II has them.
#[derive(Clone, Copy)]
enum Action {
    Load(u64, usize),
    Delete(u64),
}

use Action::{Delete, Load};

/// Table II (a).
const TABLE_TWO_A: [Action; 6] = [Load(1, 2), Load(3, 2), Load(1, 1), Delete(5), Load(3, 3), Load(7, 1)];

/// Table II (b).
const TABLE_TWO_B: [Action; 7] =
    [Load(1, 2), Load(3, 2), Load(1, 1), Delete(3), Load(1, 3), Load(3, 3), Load(1, 2)];

/// A partition with one column, as the paper draws them.
struct Partition {
    schema: Arc<BrickSchema>,
    writer: Option<BrickWriter>,
    loaded: usize,
}

impl Partition {
    fn new() -> Self {
        let dimension =
            Dimension { name: "d".into(), values: DimensionValues::String, cardinality: 1, range_size: 1 };
        let metric = Metric { name: "m".into(), data_type: DataType::UInt64, nulls: Nulls::Refused };
        let schema = BrickSchema::new(vec![Column::Dimension(dimension), Column::Metric(metric)]).unwrap();
        Self { schema: Arc::new(schema), writer: Some(BrickWriter::new(BrickId::new(0))), loaded: 0 }
    }

    fn after(actions: &[Action]) -> Self {
        let mut partition = Self::new();
        actions.iter().for_each(|action| partition.act(*action));
        partition
    }

    fn act(&mut self, action: Action) {
        let writer = self.writer.as_mut().expect("the partition has rows");
        match action {
            Load(epoch, rows) => {
                let values: Vec<u64> = (self.loaded as u64..).take(rows).collect();
                let values = Values::Bytes(8, Buffer::from_vec(values));
                let columns = vec![ColumnValues { values, nulls: None }];
                let values = RowValues { rows, bess: None, columns };
                writer.append(&self.schema, Epoch::new(epoch), &values, 0..rows);
                self.loaded += rows;
            }
            Delete(epoch) => {
                let epoch = Epoch::new(epoch);
                writer.delete(&Deletion { epoch, covered: EpochSet::below(epoch), own: vec![epoch] });
            }
        }
    }

    fn view(&self) -> BrickView {
        BrickView::of(Arc::clone(self.writer.as_ref().expect("the partition has rows").brick()))
    }

    /// (epoch, last row, whether it is a delete).
    fn epochs(&self) -> Vec<(u64, usize, bool)> {
        let pair = |pair: &EpochsPair| match *pair {
            EpochsPair::Rows { epoch, last_row } => (epoch.get(), last_row, false),
            EpochsPair::Delete { epoch, last_row } => (epoch.get(), last_row.unwrap(), true),
        };
        self.view().epochs().iter().map(pair).collect()
    }

    /// The values, in the order of rows.
    fn values(&self) -> Vec<u64> {
        let view = self.view();
        let read = |(placed, rows): (&super::PlacedBlock, usize)| match placed
            .block
            .read_metric(&self.schema, 0, 0..rows)
            .values
        {
            Values::Bytes(8, bytes) => bytes.typed_data::<u64>().to_vec(),
            other => panic!("{other:?}"),
        };
        view.blocks().flat_map(read).collect()
    }

    /// The bitmap of the reader `epoch`, to whom nothing below is pending.
    fn bitmap(&self, epoch: u64) -> String {
        let rows = self.view().rows();
        let visible = self.view().visible(&Reader::of(EpochSet::through(Epoch::new(epoch))));
        bits(&visible, rows).into_iter().map(|is_visible| if is_visible { '1' } else { '0' }).collect()
    }

    fn rebuild(&mut self, rebuild: impl FnOnce(BrickWriter) -> Rebuilt) {
        let writer = self.writer.take().expect("the partition has rows");
        self.writer = match rebuild(writer) {
            Rebuilt::Unchanged(writer) | Rebuilt::Replaced(writer, _) => Some(writer),
            Rebuilt::Gone(_) => None,
        };
    }

    fn purge(&mut self, safe: u64) {
        self.rebuild(|writer| writer.purge(Epoch::new(safe)));
    }

    fn roll_back(&mut self, epoch: u64) {
        self.rebuild(|writer| writer.roll_back(&[Epoch::new(epoch)]));
    }
}

#[test]
fn figure_one_rows_that_follow_their_own_share_an_entry() {
    let mut partition = Partition::new();
    partition.act(Load(1, 3));
    assert_eq!(partition.epochs(), [(1, 2, false)], "(a)");
    partition.act(Load(1, 2));
    assert_eq!(partition.epochs(), [(1, 4, false)], "(b)");
    partition.act(Load(2, 4));
    assert_eq!(partition.epochs(), [(1, 4, false), (2, 8, false)], "(c)");
    partition.act(Load(1, 4));
    assert_eq!(partition.epochs(), [(1, 4, false), (2, 8, false), (1, 12, false)], "(d)");
}

#[test]
fn figure_two_deletes_are_entries_with_a_mark() {
    let expected = [(1, 1, false), (3, 3, false), (1, 4, false), (5, 4, true), (3, 7, false), (7, 8, false)];
    assert_eq!(Partition::after(&TABLE_TWO_A).epochs(), expected, "(a)");
    let expected = [
        (1, 1, false),
        (3, 3, false),
        (1, 4, false),
        (3, 4, true),
        (1, 7, false),
        (3, 10, false),
        (1, 12, false),
    ];
    assert_eq!(Partition::after(&TABLE_TWO_B).epochs(), expected, "(b)");
}

#[test]
fn table_three_each_reader_has_its_bitmap() {
    let (a, b) = (Partition::after(&TABLE_TWO_A), Partition::after(&TABLE_TWO_B));
    let expected = [
        (2, "110010000", "1100111100011"),
        (4, "111111110", "0000000011100"),
        (6, "000000000", "0000000011100"),
        (8, "000000001", "0000000011100"),
    ];
    for (reader, in_a, in_b) in expected {
        assert_eq!(a.bitmap(reader), in_a, "reader {reader}, (a)");
        assert_eq!(b.bitmap(reader), in_b, "reader {reader}, (b)");
    }
}

/// Long vectors, many deletes: what is passed over by groups, or taken together, says what a look at each run says.
#[test]
fn what_is_visible_is_what_each_run_and_each_delete_says() {
    let mut random = StdRng::seed_from_u64(3);
    let mut partial = 0;
    for round in 0..60 {
        let mut partition = Partition::new();
        let newest = random.random_range(2..1_500);
        let set = |random: &mut StdRng, last: u64| {
            let except: Vec<u64> =
                (0..random.random_range(0..4)).map(|_| random.random_range(1..=newest)).collect();
            EpochSet::through(Epoch::new(last)).without(except.into_iter().map(Epoch::new))
        };
        for epoch in 1..=newest {
            partition.act(Load(epoch.saturating_sub(random.random_range(0..3)).max(1), 1));
            if round % 2 == 0 && random.random_ratio(1, 40) {
                let own = vec![Epoch::new(epoch)];
                let covered = set(&mut random, epoch - 1);
                let deletion = Deletion { epoch: own[0], covered, own };
                partition.writer.as_mut().unwrap().delete(&deletion);
            }
        }
        let view = partition.view();
        for _ in 0..20 {
            let last = random.random_range(0..=newest);
            let reader = Reader::writing(set(&mut random, last), vec![Epoch::new(newest)]);
            let mut expected = vec![false; view.rows()];
            for step in view.steps() {
                let Step::Run(epoch, run) = step else { continue };
                let mut deletes = view.markers().filter(|marker| reader.sees(marker.epoch));
                let is_deleted = deletes.any(|marker| marker.clears(epoch, run.start));
                expected[run].fill(reader.sees(epoch) && !is_deleted);
            }
            let visible = view.visible(&reader);
            let count = expected.iter().filter(|is_visible| **is_visible).count();
            assert_eq!(visible.count(view.rows()), count, "round {round}");
            let found = bits(&visible, view.rows());
            assert_eq!(found, expected, "round {round}");
            partial += usize::from(count > 0 && count < view.rows());
            let start = random.random_range(0..view.rows());
            let part = start..random.random_range(start..=view.rows());
            assert_eq!(bits(&visible.within(part.clone()), part.len()), expected[part]);
        }
    }
    assert!(partial > 300, "{partial}");
}

fn bits(visible: &Visible, rows: usize) -> Vec<bool> {
    match visible {
        Visible::All => vec![true; rows],
        Visible::None => vec![false; rows],
        Visible::Some(part) => part.bits().iter().collect(),
    }
}

#[test]
fn figure_three_purge_at_three_merges_and_keeps_the_delete() {
    let mut partition = Partition::after(&TABLE_TWO_A);
    partition.purge(3);
    assert_eq!(partition.epochs(), [(3, 4, false), (5, 4, true), (3, 7, false), (7, 8, false)]);
    assert_eq!(partition.values(), (0..9).collect::<Vec<_>>(), "no row is touched");
    for (reader, expected) in [(4, "111111110"), (6, "000000000"), (8, "000000001")] {
        assert_eq!(partition.bitmap(reader), expected, "reader {reader}");
    }
}

#[test]
fn figure_three_purge_at_five_leaves_what_the_last_transaction_loaded() {
    let mut partition = Partition::after(&TABLE_TWO_A);
    partition.purge(5);
    assert_eq!(partition.epochs(), [(7, 0, false)]);
    assert_eq!(partition.values(), [8]);
    assert_eq!((partition.bitmap(6), partition.bitmap(8)), ("0".to_owned(), "1".to_owned()));
}

#[test]
fn purge_with_nothing_to_do_leaves_the_brick_alone() {
    let mut partition = Partition::after(&[Load(4, 2), Load(5, 1)]);
    let before = Arc::clone(partition.writer.as_ref().unwrap().brick());
    partition.purge(3);
    assert!(Arc::ptr_eq(&before, partition.writer.as_ref().unwrap().brick()));
    partition.purge(4);
    assert!(
        Arc::ptr_eq(&before, partition.writer.as_ref().unwrap().brick()),
        "one entry has nothing to merge with"
    );
    partition.purge(5);
    assert_eq!(partition.epochs(), [(5, 2, false)]);
}

#[test]
fn a_purged_brick_goes_on_growing_and_its_readers_keep_what_they_have() {
    let mut partition = Partition::after(&[Load(1, 3), Load(2, 2)]);
    let old = partition.view();
    partition.purge(2);
    partition.act(Load(3, 2));
    assert_eq!(partition.epochs(), [(2, 4, false), (3, 6, false)]);
    assert_eq!(partition.values(), (0..7).collect::<Vec<_>>());
    assert_eq!((old.rows(), old.epochs().len()), (5, 2));
}

#[test]
fn the_newest_epoch_is_the_newest_of_what_a_reader_sees() {
    let mut partition = Partition::after(&TABLE_TWO_A);
    let newest = |partition: &Partition, last: u64| {
        let reader = Reader::of(EpochSet::through(Epoch::new(last)));
        partition.view().newest_visible(&reader).map(Epoch::get)
    };
    assert_eq!([2, 4, 6, 8].map(|last| newest(&partition, last)), [Some(1), Some(3), None, Some(7)]);
    partition.purge(3);
    assert_eq!([4, 6, 8].map(|last| newest(&partition, last)), [Some(3), None, Some(7)]);
    partition.purge(7);
    assert_eq!(newest(&partition, 7), Some(7));
}

#[test]
fn what_replaces_a_brick_was_loaded_when_that_was() {
    let mut partition = Partition::after(&[Load(1, 3), Load(2, 2)]);
    let before = partition.view();
    assert_eq!(before.loaded_at(), None);
    before.brick.note_loaded(70);
    partition.purge(2);
    assert_eq!(partition.view().loaded_at(), Some(70));
    // Somebody has found the brick before it was replaced.
    before.brick.note_loaded(90);
    before.brick.note_loaded(80);
    assert_eq!(partition.view().loaded_at(), Some(90), "the last one, in whatever order they are noted");
    partition.act(Load(3, 1));
    partition.roll_back(3);
    assert_eq!(partition.view().loaded_at(), Some(90));
}

#[test]
fn rollback_removes_rows_and_deletes_of_its_transaction_alone() {
    let mut partition = Partition::after(&TABLE_TWO_A);
    partition.roll_back(5);
    assert_eq!(
        partition.epochs(),
        [(1, 1, false), (3, 3, false), (1, 4, false), (3, 7, false), (7, 8, false)]
    );
    partition.roll_back(3);
    assert_eq!(partition.epochs(), [(1, 2, false), (7, 3, false)]);
    assert_eq!(partition.values(), [0, 1, 4, 8]);
    partition.act(Load(9, 1));
    assert_eq!(partition.values(), [0, 1, 4, 8, 9]);
    partition.roll_back(1);
    partition.roll_back(7);
    partition.roll_back(9);
    assert!(partition.writer.is_none(), "nothing is left");
}

#[test]
fn a_delete_that_carries_its_snapshot_spares_loads_that_it_did_not_see() {
    let mut partition = Partition::after(&[Load(1, 2), Load(3, 2)]);
    let deleter = Epoch::new(5);
    let covered = EpochSet::below(deleter).without([Epoch::new(3)]);
    partition.writer.as_mut().unwrap().delete(&Deletion { epoch: deleter, covered, own: vec![deleter] });
    partition.act(Load(3, 1));
    assert_eq!(partition.bitmap(6), "00111");
    partition.purge(4);
    assert_eq!(
        partition.epochs(),
        [(1, 1, false), (3, 3, false), (5, 3, true), (3, 4, false)],
        "1 and 3 stay apart"
    );
    partition.purge(5);
    assert_eq!((partition.epochs(), partition.values()), (vec![(3, 2, false)], vec![2, 3, 4]));
}

#[test]
fn a_savepoint_level_deletes_what_the_levels_below_have_loaded_up_to_there() {
    let (outer, inner) = (Epoch::new(1), Epoch::new(2));
    let mut partition = Partition::after(&[Load(1, 2)]);
    let deletion = Deletion { epoch: inner, covered: EpochSet::none(), own: vec![outer, inner] };
    partition.writer.as_mut().unwrap().delete(&deletion);
    partition.act(Load(1, 1));
    assert_eq!(partition.bitmap(2), "001");
    let mut released = partition;
    released.roll_back(2);
    assert_eq!((released.bitmap(2).as_str(), released.epochs()), ("111", vec![(1, 2, false)]));
}
