// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use coeval_brick::{
    BrickId, BrickSchema, Column, Deletion, Dimension, DimensionValues, Metric, Nulls, Reader, TableView,
};
use coeval_txn::{Epoch, HeldEpochs};
use rand::Rng;
use rand::rngs::StdRng;

use crate::Stage;
use crate::history::{Contents, Event};

const RANGES: i64 = 6;
const RANGE_SIZE: i64 = 10;

/// A dimension from -10 to 49 in six bricks, and a metric that tells each row from every other.
pub(crate) fn schema() -> BrickSchema {
    let place = Dimension {
        name: "place".into(),
        values: DimensionValues::Ordered { data_type: DataType::Int64, origin: -RANGE_SIZE },
        cardinality: (RANGES * RANGE_SIZE) as u64,
        range_size: RANGE_SIZE as u64,
    };
    let row = Metric { name: "row".into(), data_type: DataType::Int64, nulls: Nulls::Refused };
    BrickSchema::new(vec![Column::Dimension(place), Column::Metric(row)]).unwrap()
}

/// The value of the dimension that a row has: it follows from the row, so that a scan can be checked.
fn place_of(row: i64) -> i64 {
    (row * 7919) % (RANGES * RANGE_SIZE) - RANGE_SIZE
}

fn brick_of(place: i64) -> BrickId {
    BrickId::new(((place + RANGE_SIZE) / RANGE_SIZE) as u64)
}

/// The rows that `reader` finds in `view`.
pub(crate) fn contents(view: &TableView, reader: &Reader) -> Contents {
    let mut contents = Contents::new();
    for brick in view.bricks() {
        let mut rows: Vec<i64> = Vec::new();
        for batch in view.batches(brick, reader, &[1, 0]) {
            let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values().to_vec();
            assert!(column(0).iter().zip(column(1)).all(|(row, place)| place_of(*row) == place));
            rows.extend(column(0));
        }
        rows.sort_unstable();
        if !rows.is_empty() {
            contents.insert(brick.id(), rows);
        }
    }
    contents
}

/// A transaction, with one epoch for each savepoint level.
pub(crate) struct Writer<'a> {
    stage: &'a Stage,
    held: HeldEpochs,
    /// The epochs of the open levels; the last one labels what is written.
    levels: Vec<Epoch>,
    /// The epochs of the released levels, which end with the transaction.
    released: Vec<Epoch>,
    events: Vec<Event>,
}

impl<'a> Writer<'a> {
    pub(crate) fn begin(stage: &'a Stage) -> Self {
        let held = stage.clock.snapshot();
        let levels = vec![stage.clock.begin().epoch];
        Self { stage, held, levels, released: Vec::new(), events: Vec::new() }
    }

    fn epochs(&self) -> Vec<Epoch> {
        self.levels.iter().chain(&self.released).copied().collect()
    }

    fn reader(&self) -> Reader {
        Reader::writing(self.held.set().clone(), self.epochs())
    }

    /// The transaction sees its snapshot and what it has done itself.
    pub(crate) fn check(&self) {
        let found = self.stage.read(&self.reader());
        assert_eq!(found, self.stage.history.contents(self.held.set(), Some(&self.events)));
    }

    pub(crate) fn act(&mut self, random: &mut StdRng) {
        match random.random_range(0..10) {
            0..=4 => self.load(random),
            5 => self.delete(random),
            6 => self.load_twice_what_is_there(),
            7 => self.levels.push(self.stage.clock.begin().epoch),
            8 => self.release(),
            _ => self.roll_back_to_savepoint(),
        }
    }

    fn epoch(&self) -> Epoch {
        *self.levels.last().expect("a transaction has a level")
    }

    fn load(&mut self, random: &mut StdRng) {
        // Sometimes more than a block.
        let count = if random.random_range(0..20) == 0 { 7_000 } else { random.random_range(1..40) };
        let first = self.stage.rows_loaded.fetch_add(count, Ordering::Relaxed) as i64;
        self.append((first..first + count as i64).collect());
    }

    fn append(&mut self, rows: Vec<i64>) {
        let field = |name| Field::new(name, DataType::Int64, false);
        let places: Int64Array = rows.iter().map(|row| place_of(*row)).collect();
        let schema = Schema::new(vec![field("place"), field("row")]);
        let columns: Vec<Arc<dyn Array>> = vec![Arc::new(places), Arc::new(Int64Array::from(rows.clone()))];
        let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
        let load = self.stage.table.route(&batch, 0).unwrap().load;
        let mut by_brick: BTreeMap<BrickId, Vec<i64>> = BTreeMap::new();
        for row in rows {
            by_brick.entry(brick_of(place_of(row))).or_default().push(row);
        }
        assert!(load.bricks().collect::<std::collections::BTreeSet<_>>().iter().eq(by_brick.keys()));
        self.stage.table.append(self.epoch(), load).unwrap().wait().unwrap();
        let epoch = self.epoch();
        self.events.extend(by_brick.into_iter().map(|(brick, values)| Event::Load { epoch, brick, values }));
    }

    /// A statement that reads the table it appends to: it must end, with as many rows as it started with.
    fn load_twice_what_is_there(&mut self) {
        let view = self.stage.table.view(&self.stage.table.selection());
        let rows = view.count(&self.reader()).min(50);
        let mut read = 0;
        for brick in view.bricks() {
            for batch in view.batches(brick, &self.reader(), &[1]) {
                let count = batch.num_rows().min(rows - read);
                if count > 0 {
                    let first = self.stage.rows_loaded.fetch_add(count, Ordering::Relaxed) as i64;
                    self.append((first..first + count as i64).collect());
                }
                read += count;
            }
        }
        assert_eq!(read, rows);
    }

    fn delete(&mut self, random: &mut StdRng) {
        let first = random.random_range(0..RANGES);
        let last = random.random_range(first..RANGES.min(first + 2));
        let table = &self.stage.table;
        let interval = |first: i64, last: i64| (first - 1) * RANGE_SIZE..=last * RANGE_SIZE - 1;
        let selection = table.selection().within(0, &[interval(first, last)]);
        let bricks = table.whole_bricks(&selection).unwrap();
        let (epoch, covered) = (self.epoch(), self.held.set().clone());
        let deletion = Deletion { epoch, covered: covered.clone(), own: self.epochs() };
        table.delete(deletion, &bricks).unwrap().wait().unwrap();
        self.events.extend(bricks.into_iter().map(|brick| Event::Delete {
            epoch,
            brick,
            covered: covered.clone(),
        }));
    }

    fn release(&mut self) {
        if self.levels.len() > 1 {
            self.released.extend(self.levels.pop());
        }
    }

    /// Ends the last level, and what was released into it, as rolled back.
    fn roll_back_to_savepoint(&mut self) {
        if self.levels.len() < 2 {
            return;
        }
        let level = self.levels.pop().expect("there are two");
        let (gone, kept): (Vec<Epoch>, Vec<Epoch>) = self.released.iter().partition(|epoch| **epoch > level);
        self.released = kept;
        let gone: Vec<Epoch> = gone.into_iter().chain([level]).collect();
        self.undo(&gone);
        self.events.retain(|event| !gone.contains(&event.epoch()));
    }

    fn undo(&self, epochs: &[Epoch]) {
        let touched =
            self.events.iter().filter(|event| epochs.contains(&event.epoch())).map(|event| match event {
                Event::Load { brick, .. } | Event::Delete { brick, .. } => *brick,
            });
        let touched: std::collections::BTreeSet<BrickId> = touched.collect();
        let touched: Vec<BrickId> = touched.into_iter().collect();
        self.stage.table.roll_back(epochs, &touched).unwrap().wait().unwrap();
        self.stage.clock.roll_back(epochs);
    }

    pub(crate) fn commit(self) {
        self.stage.history.record(self.events.clone());
        self.stage.clock.commit(&self.epochs());
    }

    pub(crate) fn roll_back(self) {
        self.undo(&self.epochs());
    }
}
