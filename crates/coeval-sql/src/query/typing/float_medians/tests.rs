// SPDX-License-Identifier: Apache-2.0
//! Medians of groups are those of their values, counted as what they take.

use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A group, its value, and whether a filter leaves it.
type Row = (usize, Option<f64>, bool);

const SPECIAL: [f64; 6] = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN];

fn random_row(random: &mut StdRng, groups: usize) -> Row {
    let value = match random.random_range(0..10) {
        0 => None,
        1 => Some(SPECIAL[random.random_range(0..SPECIAL.len())]),
        _ => Some(f64::from(random.random_range(-500..500)) / 8.0),
    };
    (random.random_range(0..groups), value, random.random_bool(0.8))
}

/// The medians of groups by sorting.
fn model(rows: &[Row], groups: usize) -> Vec<Option<u64>> {
    let median = |group: usize| {
        let own = rows.iter().filter(|row| row.0 == group && row.2);
        let mut own: Vec<f64> = own.filter_map(|row| row.1).collect();
        own.sort_unstable_by(f64::total_cmp);
        let middle = *own.get(own.len() / 2)?;
        let is_one = own.len() % 2 == 1;
        Some(if is_one { middle } else { (own[own.len() / 2 - 1] + middle) / 2.0 })
    };
    (0..groups).map(|group| median(group).map(f64::to_bits)).collect()
}

fn bits(medians: &ArrayRef) -> Vec<Option<u64>> {
    medians.as_primitive::<Float64Type>().iter().map(|median| median.map(f64::to_bits)).collect()
}

fn add(medians: &mut Medians, rows: &[Row], groups: usize) {
    let values: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>());
    let members: Vec<usize> = rows.iter().map(|row| row.0).collect();
    let filter: BooleanArray = rows.iter().map(|row| Some(row.2)).collect();
    medians.update_batch(&[values], &members, Some(&filter), groups).unwrap();
}

/// Some rows at once, some as states of groups, some as states of one row each. Break: leave out runs, or the shelf's number.
#[test]
fn medians_are_those_of_sorted_values() {
    let mut random = StdRng::seed_from_u64(1);
    for groups in [1, 5, 127, 128, 129, 700] {
        let rows: Vec<Row> = (0..9_000).map(|_| random_row(&mut random, groups)).collect();
        let mut medians = Medians::default();
        for (part, rows) in rows.chunks(3_000).enumerate() {
            let mut others = Medians::default();
            let each: Vec<usize> = (0..groups).collect();
            match part {
                0 => add(&mut medians, rows, groups),
                1 => {
                    add(&mut others, rows, groups);
                    let states = others.state(EmitTo::All).unwrap();
                    medians.merge_batch(&states, &each, groups).unwrap();
                }
                _ => {
                    let values: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>());
                    let members: Vec<usize> = rows.iter().map(|row| row.0).collect();
                    let filter: BooleanArray = rows.iter().map(|row| Some(row.2)).collect();
                    let states = others.convert_to_state(&[values], Some(&filter)).unwrap();
                    medians.merge_batch(&states, &members, groups).unwrap();
                }
            }
        }
        assert!(medians.size() >= medians.len() * size_of::<f64>());
        assert_eq!(bits(&medians.evaluate(EmitTo::All).unwrap()), model(&rows, groups), "{groups} groups");
    }
}

/// Break: number the groups that stay as before.
#[test]
fn groups_that_stay_have_numbers_from_zero() {
    let mut random = StdRng::seed_from_u64(2);
    let groups = 300;
    let rows: Vec<Row> = (0..9_000).map(|_| random_row(&mut random, groups)).collect();
    for first in [1, 128, 140, 300] {
        let (mut medians, mut states) = (Medians::default(), Medians::default());
        add(&mut states, &rows, groups);
        let states = states.state(EmitTo::All).unwrap();
        let each: Vec<usize> = (0..groups).collect();
        medians.merge_batch(&states, &each, groups).unwrap();
        let mut found = bits(&medians.evaluate(EmitTo::First(first)).unwrap());
        assert_eq!(found.len(), first);
        found.extend(bits(&medians.evaluate(EmitTo::All).unwrap()));
        assert_eq!(found, model(&rows, groups), "{first}");
        assert_eq!(medians.len(), 0);
    }
}

/// Break: count runs alone.
#[test]
fn arrays_are_counted_as_a_whole() {
    // All but one are too short for a run, and are on a shelf, too.
    let lengths: Vec<usize> = (0..100).map(|list| RUN_VALUES_MIN - usize::from(list > 0)).collect();
    let (count, groups) = (lengths.iter().sum::<usize>(), (0..lengths.len()).collect::<Vec<_>>());
    let states = lists(lengths, vec![1.0; count].into(), None).unwrap();
    let mut medians = Medians::default();
    medians.merge_batch(&states, &groups, groups.len()).unwrap();
    assert_eq!((medians.arrays.len(), medians.len()), (1, count));
    let on_shelf = count - RUN_VALUES_MIN;
    assert!(medians.size() >= count * size_of::<f64>() + on_shelf * (size_of::<f64>() + 1));
    let found = bits(&medians.evaluate(EmitTo::All).unwrap());
    assert!(found.iter().all(|median| *median == Some(1.0_f64.to_bits())));
    assert_eq!(medians.array_values, 0);
}

/// Break: go through all groups whatever was asked for.
#[test]
fn the_groups_of_a_cancelled_statement_are_not_looked_at() {
    let handle = cancel::CancelHandle::new();
    let _running = handle.begin();
    let mut medians = Medians::default();
    add(&mut medians, &[(0, Some(1.0), true)], 1);
    handle.cancel();
    assert!(medians.evaluate(EmitTo::All).is_err());
}

#[test]
fn places_of_floats_are_in_their_order() {
    let floats =
        [-f64::NAN, f64::NEG_INFINITY, f64::MIN, -1.5, -0.0, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
    let places = floats.map(place_of);
    assert!(places.is_sorted_by(|one, other| one < other));
    assert_eq!(places.map(value_at).map(f64::to_bits), floats.map(f64::to_bits));
}
