// SPDX-License-Identifier: Apache-2.0
use super::*;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::declaration::{Column, Dimension};
use crate::{BrickTable, Shards};

/// A table of one dimension for each (holds strings, cardinality, range size).
fn table(dimensions: &[(bool, u64, u64)], shards: &Arc<Shards>) -> BrickTable {
    let column = |(index, (is_string, cardinality, range_size)): (usize, &(bool, u64, u64))| {
        let ordered = DimensionValues::Ordered { data_type: DataType::Int64, origin: 0 };
        let values = if *is_string { DimensionValues::String } else { ordered };
        let (cardinality, range_size) = (*cardinality, *range_size);
        Column::Dimension(Dimension { name: format!("d{index}"), values, cardinality, range_size })
    };
    let columns = dimensions.iter().enumerate().map(column).collect();
    BrickTable::new(BrickSchema::new(columns).unwrap(), Arc::clone(shards))
}

/// Routes rows of these values, whose strings are their numbers: the bricks that they belong to.
fn bricks(table: &BrickTable, dimensions: &[(bool, u64, u64)], rows: &[Vec<u64>]) -> Vec<BrickId> {
    let values = |index: usize| rows.iter().map(move |row| row[index]);
    let column = |(index, (is_string, ..)): (usize, &(bool, u64, u64))| -> ArrayRef {
        if *is_string {
            Arc::new(StringArray::from_iter_values(values(index).map(|value| value.to_string())))
        } else {
            Arc::new(Int64Array::from_iter_values(values(index).map(|value| value as i64)))
        }
    };
    let columns = dimensions.iter().enumerate().map(column);
    let names = (0..dimensions.len()).map(|index| format!("d{index}"));
    let batch = RecordBatch::try_from_iter(names.zip(columns)).unwrap();
    table.route(&batch, 0).unwrap().load.bricks().collect()
}

fn is_met(table: &BrickTable, brick: BrickId, noted: Option<&Vec<RangeInclusive<BrickMark>>>) -> bool {
    let marks: Vec<BrickMark> = table.schema().layout().marks(brick).collect();
    noted.is_none_or(|ranges| ranges.iter().any(|range| marks.iter().any(|mark| range.contains(mark))))
}

#[test]
fn a_row_that_is_selected_lies_in_a_brick_with_a_noted_mark_also_with_strings_that_come_later() {
    let shards = Arc::new(Shards::start(1, 8).unwrap());
    let random = &mut StdRng::seed_from_u64(11);
    let (mut met, mut passed) = (0, 0);
    for case in 0..600 {
        let dimensions: Vec<(bool, u64, u64)> = (0..random.random_range(1..4))
            .map(|_| (random.random_bool(0.4), random.random_range(1..60), random.random_range(1..9)))
            .collect();
        let table = table(&dimensions, &shards);
        let row = |random: &mut StdRng| -> Vec<u64> {
            dimensions.iter().map(|(_, cardinality, _)| random.random_range(0..*cardinality)).collect()
        };
        let known: Vec<_> = (0..random.random_range(0..5)).map(|_| row(random)).collect();
        bricks(&table, &dimensions, &known);
        let mut selection = table.selection();
        let mut wanted: Vec<Option<Vec<u64>>> = vec![None; dimensions.len()];
        for (index, (is_string, cardinality, _)) in dimensions.iter().enumerate() {
            if random.random_bool(0.4) {
                continue;
            }
            let values: Vec<u64> =
                (0..random.random_range(0..4)).map(|_| random.random_range(0..*cardinality)).collect();
            selection = if *is_string {
                let strings: Vec<String> = values.iter().map(u64::to_string).collect();
                selection.among(index, &strings.iter().map(String::as_str).collect::<Vec<_>>())
            } else {
                let intervals: Vec<_> = values.iter().map(|value| *value as i64..=*value as i64).collect();
                selection.within(index, &intervals)
            };
            wanted[index] = Some(values);
        }
        let noted = selection.mark_ranges();
        for _ in 0..20 {
            let row = row(random);
            let [brick] = bricks(&table, &dimensions, std::slice::from_ref(&row)).try_into().unwrap();
            let is_met = is_met(&table, brick, noted.as_ref());
            let is_wanted = row.iter().zip(&wanted).all(|(value, wanted)| match wanted {
                None => true,
                Some(wanted) => wanted.contains(value),
            });
            assert!(is_met || !is_wanted, "case {case}: {row:?} of {dimensions:?} by {wanted:?}");
            met += usize::from(is_met);
            passed += usize::from(!is_met);
        }
    }
    assert!(met > 1_000 && passed > 1_000, "{met} met, {passed} passed");
}

#[test]
fn numbers_of_few_ranges_are_noted_exactly_and_of_many_by_the_best_dimension() {
    let shards = Arc::new(Shards::start(1, 8).unwrap());
    let few = [(false, 40, 10), (false, 100, 10), (false, 9, 3)];
    let narrow = table(&few, &shards);
    let selection = narrow.selection().within(0, &[5..=25]).within(1, &[0..=9, 50..=70]);
    let noted = selection.mark_ranges();
    assert_eq!(
        noted.as_ref().map(Vec::len),
        Some(6),
        "three ranges of one, two of the other, all of the third"
    );
    for index in 0..4 * 10 * 3_u64 {
        let row = vec![index / 30 * 10, index / 3 % 10 * 10, index % 3 * 3];
        let [brick] = bricks(&narrow, &few, &[row]).try_into().unwrap();
        let is_selected = selection.coverage(brick) != Coverage::Outside;
        assert_eq!(is_met(&narrow, brick, noted.as_ref()), is_selected, "brick {brick}");
    }
    // A thousand ranges of the first dimension and two of the second, which says more.
    let many = [(false, 1_000_000, 1), (false, 100, 10)];
    let wide = table(&many, &shards);
    let noted = wide.selection().within(0, &[0..=999_999]).within(1, &[10..=29]).mark_ranges();
    assert_eq!(noted.as_ref().map(Vec::len), Some(1));
    let brick = |row: [u64; 2]| bricks(&wide, &many, &[row.to_vec()])[0];
    assert!(
        is_met(&wide, brick([7, 15]), noted.as_ref()) && is_met(&wide, brick([999_999, 29]), noted.as_ref())
    );
    assert!(!is_met(&wide, brick([7, 30]), noted.as_ref()) && !is_met(&wide, brick([7, 9]), noted.as_ref()));
}

#[test]
fn all_bricks_are_said_so_and_none_is_no_range() {
    let shards = Arc::new(Shards::start(1, 8).unwrap());
    let table = table(&[(false, 100, 10), (true, 4, 4)], &shards);
    assert_eq!(table.selection().mark_ranges(), None);
    assert_eq!(table.selection().within(0, &[0..=99]).mark_ranges(), None);
    assert_eq!(table.selection().within(0, &[200..=300]).mark_ranges(), Some(Vec::new()));
}

#[test]
fn marks_keep_their_order_as_bytes_and_are_told_in_words() {
    let shards = Arc::new(Shards::start(1, 8).unwrap());
    let dimensions = [(false, 100, 10), (true, 8, 2)];
    let table = table(&dimensions, &shards);
    let brick = bricks(&table, &dimensions, &[vec![25, 3]])[0];
    let marks: Vec<BrickMark> = table.schema().layout().marks(brick).collect();
    assert!(marks.is_sorted() && marks.is_sorted_by_key(|mark| mark.to_bytes()));
    assert!(marks.iter().all(|mark| BrickMark::from_bytes(&mark.to_bytes()) == Some(*mark)));
    let told: Vec<_> = marks.iter().map(|mark| table.selection().describe(*mark)).collect();
    let ranges = ["d0 from 20 to 29", "d1 in ('3')"];
    assert_eq!(told[0], Some(format!("brick {brick} ({})", ranges.join(", "))));
    assert_eq!(told[1..], ranges.map(|range| Some(range.to_owned())));
    let none = BrickMark::from_bytes(&[0, 9, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!((table.selection().describe(none), BrickMark::from_bytes(b"short")), (None, None));
}
