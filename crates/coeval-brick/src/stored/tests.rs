// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use arrow::array::{BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::buffer::Buffer;
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use coeval_txn::{Epoch, EpochSet};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{
    BrickSchema, BrickTable, Column, Deletion, Dimension, DimensionValues, Metric, Nulls, Reader, Shards,
};

fn table() -> BrickTable {
    let dimension = |name: &str, values, cardinality, range_size| {
        Column::Dimension(Dimension { name: name.into(), values, cardinality, range_size })
    };
    let metric =
        |name: &str, data_type, nulls| Column::Metric(Metric { name: name.into(), data_type, nulls });
    let day = DimensionValues::Ordered { data_type: DataType::Int64, origin: -50 };
    let columns = vec![
        dimension("region", DimensionValues::String, 8, 2),
        metric("likes", DataType::Int32, Nulls::Allowed),
        dimension("day", day, 100, 7),
        metric("note", DataType::Utf8, Nulls::Allowed),
        metric("good", DataType::Boolean, Nulls::Refused),
    ];
    BrickTable::new(BrickSchema::new(columns).unwrap(), Arc::new(Shards::start(2, 8).unwrap()))
}

fn batch(random: &mut StdRng, rows: usize) -> RecordBatch {
    let regions: Vec<String> = (0..rows).map(|_| format!("r{}", random.random_range(0..8))).collect();
    let likes: Int32Array = (0..rows).map(|_| random.random_bool(0.8).then(|| random.random())).collect();
    let days: Vec<i64> = (0..rows).map(|_| random.random_range(-50..50)).collect();
    let notes: Vec<Option<String>> = (0..rows)
        .map(|_| random.random_bool(0.7).then(|| format!("n{}", random.random_range(0..20))))
        .collect();
    let good: Vec<bool> = (0..rows).map(|_| random.random()).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("region", Arc::new(StringArray::from(regions)) as _, false),
        ("likes", Arc::new(likes) as _, true),
        ("day", Arc::new(Int64Array::from(days)) as _, false),
        ("note", Arc::new(StringArray::from(notes)) as _, true),
        ("good", Arc::new(BooleanArray::from(good)) as _, false),
    ])
    .unwrap()
}

/// Everything that `reader` sees, as text, brick by brick.
fn contents(table: &BrickTable, reader: &Reader) -> Vec<(u64, Vec<String>)> {
    let view = table.view(&table.selection());
    let bricks = view.bricks().iter().map(|brick| {
        let batches: Vec<_> = view.batches(brick, reader, &[0, 1, 2, 3, 4]).collect();
        let whole = concat_batches(table.schema().arrow(), &batches).unwrap();
        let text = arrow::util::pretty::pretty_format_batches(&[whole]).unwrap().to_string();
        (brick.id().get(), text.lines().skip(3).map(str::to_owned).collect())
    });
    bricks.filter(|(_, rows): &(u64, Vec<String>)| rows.len() > 1).collect()
}

#[test]
fn loads_come_back_from_bytes_as_they_were() {
    let mut random = StdRng::seed_from_u64(6);
    let (original, copy) = (table(), table());
    let mut logged = vec![0; original.string_counts().len()];
    for number in 1..=40 {
        let rows = random.random_range(0..60);
        let load = original.route(&batch(&mut random, rows), 0).unwrap().load;
        let mut bytes = Vec::new();
        logged = original.encode_strings(&logged, &mut bytes);
        load.encode(&mut bytes);
        bytes.extend_from_slice(b"rest");
        original.append(Epoch::new(number), load).unwrap().wait().unwrap();

        let rest = copy.restore_strings(&bytes).unwrap();
        let (load, rest) = copy.decode(rest).unwrap();
        assert_eq!(rest, b"rest");
        copy.append(Epoch::new(number), load).unwrap().wait().unwrap();
    }
    let all = Reader::of(EpochSet::through(Epoch::new(40)));
    let some = Reader::of(EpochSet::through(Epoch::new(30)).without([Epoch::new(7), Epoch::new(12)]));
    assert_eq!(contents(&copy, &all), contents(&original, &all));
    assert_eq!(contents(&copy, &some), contents(&original, &some));
}

#[test]
fn bytes_that_are_cut_or_changed_are_refused_or_give_rows_that_can_be_read() {
    let mut random = StdRng::seed_from_u64(7);
    let original = table();
    let load = original.route(&batch(&mut random, 30), 0).unwrap().load;
    let (mut strings, mut bytes) = (Vec::new(), Vec::new());
    original.encode_strings(&[0, 0], &mut strings);
    load.encode(&mut bytes);
    for cut in 0..bytes.len() {
        let copy = table();
        copy.restore_strings(&strings).unwrap();
        assert!(copy.decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let mut refused = 0;
    for _ in 0..2_000 {
        let mut changed = [strings.clone(), bytes.clone()].concat();
        let at = random.random_range(0..changed.len());
        changed[at] = random.random();
        let copy = table();
        let decoded = copy.restore_strings(&changed).and_then(|rest| copy.decode(rest));
        let Ok((load, _)) = decoded else {
            refused += 1;
            continue;
        };
        copy.append(Epoch::new(1), load).unwrap().wait().unwrap();
        contents(&copy, &Reader::of(EpochSet::through(Epoch::new(1))));
    }
    assert!(refused > 200, "{refused} of 2000 were refused");
}

/// What a round has of a brick: its number, whether earlier rounds are void, epochs with their rows, bytes.
type Kept = (u64, bool, Vec<(Epoch, usize)>, Vec<u8>);

/// Rounds as a checkpoint makes them: each keeps what the last one did not, and voids the bricks that were deleted.
#[test]
fn flush_rounds_add_up_to_what_their_readers_see() {
    let mut random = StdRng::seed_from_u64(8);
    let original = table();
    let mut rounds: Vec<Vec<Kept>> = Vec::new();
    let mut flushed = EpochSet::none();
    let mut flushed_strings = Vec::new();
    for round in 1..=6_u64 {
        for step in 0..5 {
            let epoch = Epoch::new(round * 10 + step);
            let load = original.route(&batch(&mut random, 40), 0).unwrap().load;
            original.append(epoch, load).unwrap().wait().unwrap();
        }
        let now = EpochSet::through(Epoch::new(round * 10 + 5)).without([Epoch::new(round * 10 + 3)]);
        let deleted: Vec<_> = original.view(&original.selection()).bricks().iter().map(|b| b.id()).collect();
        let some: Vec<_> = deleted.into_iter().filter(|_| random.random_bool(0.2)).collect();
        let epoch = Epoch::new(round * 10 + 5);
        let covered = EpochSet::through(Epoch::new(round * 10 + 1));
        original.delete(Deletion { epoch, covered, own: vec![epoch] }, &some).unwrap().wait().unwrap();

        let view = original.view(&original.selection());
        let (before, reader) = (Reader::of(flushed.clone()), Reader::of(now.clone()));
        let kept = view.bricks().iter().map(|brick| {
            let flush = view.unflushed(brick, &before, &reader);
            let mut bytes = Vec::new();
            flush.encode(&mut bytes);
            (flush.brick.get(), flush.voids_earlier, flush.epochs, bytes)
        });
        rounds.push(kept.collect());
        original.encode_strings(&[0, 0], &mut flushed_strings);
        flushed = now;
        let safe = flushed.horizon();
        original.purge(safe).unwrap().wait().unwrap();

        let copy = table();
        let mut strings = flushed_strings.as_slice();
        while !strings.is_empty() {
            strings = copy.restore_strings(strings).unwrap();
        }
        for (number, kept) in rounds.iter().enumerate() {
            for (brick, _, epochs, bytes) in kept.iter().filter(|(_, _, epochs, _)| !epochs.is_empty()) {
                let is_void = rounds[number + 1..].iter().flatten().any(|later| later.0 == *brick && later.1);
                if !is_void {
                    let (load, _) = copy.decode(bytes).unwrap();
                    copy.restore(epochs, load).unwrap().wait().unwrap();
                }
            }
        }
        let reader = Reader::of(flushed.clone());
        let sorted = |table: &BrickTable| {
            let mut all = contents(table, &reader);
            all.iter_mut().for_each(|(_, rows)| rows.sort());
            all
        };
        assert_eq!(sorted(&copy), sorted(&original), "round {round}");
    }
}

/// Another node is given all rows under their epochs, those of deleted rows too, in parts; it shows the same to everybody.
#[test]
fn what_another_node_is_given_shows_the_same_under_every_snapshot() {
    let (mut random, given) = (StdRng::seed_from_u64(5), table());
    let at = Epoch::new;
    for epoch in [1, 3, 5] {
        let load = given.route(&batch(&mut random, 90), 0).unwrap().load;
        given.append(at(epoch), load).unwrap().wait().unwrap();
    }
    let bricks = given.whole_bricks(&given.selection()).unwrap();
    let covered = EpochSet::through(at(3));
    given.delete(Deletion { epoch: at(4), covered, own: vec![at(4)] }, &bricks).unwrap().wait().unwrap();
    let taken = table();
    let mut strings = Vec::new();
    given.encode_strings(&[0, 0], &mut strings);
    taken.restore_strings(&strings).unwrap();
    let mut parts = 0;
    for id in bricks {
        let view = given.view_of(id);
        let [brick] = view.bricks() else { panic!("one brick") };
        // The delete comes before the rows that it covers.
        for marker in brick.deletes() {
            let deletion =
                Deletion { epoch: marker.epoch, covered: marker.covered.clone(), own: marker.own.clone() };
            taken.delete_ahead(deletion, id).unwrap().wait().unwrap();
        }
        let all = view.encode_runs(brick, &Reader::uncommitted(), 20);
        let above: Vec<_> = all.iter().filter(|(epoch, _)| *epoch > at(3)).cloned().collect();
        assert_eq!(view.encode_runs_above(brick, at(3), 20), above);
        for (epoch, bytes) in all {
            let (load, rest) = taken.decode(&bytes).unwrap();
            assert!(rest.is_empty() && load.rows() <= 2 && load.bricks().eq([id]));
            taken.append(epoch, load).unwrap().wait().unwrap();
            parts += 1;
        }
    }
    assert!(parts > 100);
    for through in 0..7 {
        let reader = Reader::of(EpochSet::through(at(through)));
        assert_eq!(contents(&taken, &reader), contents(&given, &reader), "through {through}");
    }
    assert!(taken.view_of(crate::BrickId::new(u64::MAX)).bricks().is_empty());
}

/// To break it: give a part the rows of another brick, or its piece to another shard.
#[test]
fn a_load_in_parts_by_brick_is_the_load() {
    let (whole, parts, shared) = (table(), table(), table());
    let load = whole.route(&batch(&mut StdRng::seed_from_u64(6), 200), 0).unwrap().load;
    let mut strings = Vec::new();
    whole.encode_strings(&[0, 0], &mut strings);
    parts.restore_strings(&strings).unwrap();
    shared.restore_strings(&strings).unwrap();
    for ((brick, bytes), same) in load.encode_by_brick().zip(load.by_brick()) {
        let (part, rest) = parts.decode(&bytes).unwrap();
        assert!(rest.is_empty() && part.bricks().eq([brick]));
        assert!(same.bricks().eq([brick]) && same.rows() == part.rows());
        let mut encoded = Vec::new();
        same.encode(&mut encoded);
        assert_eq!(encoded, bytes);
        parts.append(Epoch::new(1), part).unwrap().wait().unwrap();
        shared.append(Epoch::new(1), same).unwrap().wait().unwrap();
    }
    assert_eq!(load.by_brick().count(), load.bricks().count());
    whole.append(Epoch::new(1), load).unwrap().wait().unwrap();
    let reader = Reader::of(EpochSet::through(Epoch::new(1)));
    assert_eq!(contents(&parts, &reader), contents(&whole, &reader));
    assert_eq!(contents(&shared, &reader), contents(&whole, &reader));
}

/// To break it: have `own_rows` give all rows from the first to the last, or `part` the pieces of the whole load to the shards.
#[test]
fn the_rows_of_some_bricks_of_a_load_are_a_load() {
    let (whole, parts, shared) = (table(), table(), table());
    let load = whole.route(&batch(&mut StdRng::seed_from_u64(8), 200), 0).unwrap().load;
    let mut strings = Vec::new();
    whole.encode_strings(&[0, 0], &mut strings);
    parts.restore_strings(&strings).unwrap();
    shared.restore_strings(&strings).unwrap();
    let bricks: Vec<_> = load.bricks().collect();
    assert!(bricks.len() > 6 && load.bytes_by_brick().count() == bricks.len());
    let mut rows = 0;
    // The bricks of each part do not lie together.
    for remainder in 0..3 {
        let places: Vec<usize> = (remainder..bricks.len()).step_by(3).collect();
        let same = load.part(&places);
        assert!(same.bricks().eq(places.iter().map(|place| bricks[*place])));
        rows += same.rows();
        let mut bytes = Vec::new();
        same.encode(&mut bytes);
        let (part, rest) = parts.decode(&bytes).unwrap();
        assert!(rest.is_empty() && part.bricks().eq(same.bricks()) && part.rows() == same.rows());
        // Values that lie somewhere in other bytes are the same.
        let shifted = Buffer::from([&[7_u8][..], &bytes[..], &b"rest"[..]].concat()).slice(1);
        let (kept, rest) = parts.decode_kept(&shifted).unwrap();
        let mut again = Vec::new();
        kept.encode(&mut again);
        assert!(rest == b"rest" && again == bytes);
        let part = if remainder == 1 { kept } else { part };
        parts.append(Epoch::new(1), part).unwrap().wait().unwrap();
        shared.append(Epoch::new(1), same).unwrap().wait().unwrap();
    }
    assert_eq!(rows, load.rows());
    whole.append(Epoch::new(1), load).unwrap().wait().unwrap();
    let reader = Reader::of(EpochSet::through(Epoch::new(1)));
    assert_eq!(contents(&parts, &reader), contents(&whole, &reader));
    assert_eq!(contents(&shared, &reader), contents(&whole, &reader));
}

/// To break it: give a shard the loads in another order, or the rows of all to the epoch of the last one.
#[test]
fn loads_that_are_appended_at_once_lie_as_those_that_come_one_by_one() {
    let mut random = StdRng::seed_from_u64(9);
    let (single, together) = (table(), table());
    let batches: Vec<_> = (0..12).map(|rows| batch(&mut random, rows * 5)).collect();
    let route = |table: &BrickTable, batch: &RecordBatch| table.route(batch, 0).unwrap().load;
    for (number, batch) in (1..).zip(&batches) {
        let load = route(&single, batch);
        single.append(Epoch::new(number), load).unwrap().wait().unwrap();
    }
    let loads = (1..).zip(&batches).map(|(number, batch)| (Epoch::new(number), route(&together, batch)));
    together.append_each(loads.collect()).unwrap().wait().unwrap();
    for through in [12, 7, 3] {
        let reader = Reader::of(EpochSet::through(Epoch::new(through)).without([Epoch::new(2)]));
        assert_eq!(contents(&together, &reader), contents(&single, &reader), "through {through}");
    }
    together.append_each(Vec::new()).unwrap().wait().unwrap();
}
