// SPDX-License-Identifier: Apache-2.0
//! Numbers of keys against the keys themselves.

use super::*;
use crate::parse::parse;
use datafusion::sql::sqlparser::ast::Statement;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn table(kinds: &[&str]) -> Definition {
    let columns: Vec<_> = kinds.iter().enumerate().map(|(place, kind)| format!("c{place} {kind}")).collect();
    let names: Vec<_> = (0..kinds.len()).map(|place| format!("c{place}")).collect();
    let sql = format!("CREATE TABLE t ({}, PRIMARY KEY ({}))", columns.join(", "), names.join(", "));
    let Some(Statement::CreateTable(create)) = parse(&sql).unwrap().pop() else { panic!("{sql}") };
    Definition::of(&create).unwrap()
}

/// Types of keys that have numbers.
const KINDS: [&[&str]; 9] = [
    &["smallint"],
    &["int"],
    &["bigint"],
    &["int", "int"],
    &["bigint", "bigint"],
    &["smallint", "bigint", "int"],
    &["bigint", "smallint", "int"],
    &["int4", "integer", "int", "int"],
    &["int2", "smallint", "int8", "smallint", "int2"],
];

/// What a column can hold: from the number above the smallest, which MonetDB keeps for NULL.
fn range(bits: u32) -> (i64, i64) {
    let most = i64::MAX >> (64 - bits);
    (-most, most)
}

fn random(random: &mut StdRng, bits: u32) -> i64 {
    let (least, most) = range(bits);
    match random.random_range(0..8) {
        0 => least,
        1 => most,
        2 => -1,
        3 => 0,
        4 => least + 1,
        5 => random.random_range(-3..4),
        _ => random.random_range(least..=most),
    }
}

#[test]
fn numbers_are_equal_and_ordered_as_their_keys_are() {
    let mut source = StdRng::seed_from_u64(7);
    for kinds in KINDS {
        let table = table(kinds);
        assert!(fits(&table), "{kinds:?}");
        let widths: Vec<_> = table.columns.iter().map(|column| bits(column).unwrap()).collect();
        let mut keys = vec![
            widths.iter().map(|&bits| range(bits).0).collect::<Vec<_>>(),
            widths.iter().map(|&bits| range(bits).1).collect(),
        ];
        for _ in 0..300 {
            keys.push(widths.iter().map(|&bits| random(&mut source, bits)).collect());
            // A neighbour, which differs in one column by one.
            let mut next = keys.last().unwrap().clone();
            let place = source.random_range(0..next.len());
            next[place] = next[place].saturating_add(1).min(range(widths[place]).1);
            keys.push(next);
        }
        let number = |key: &Vec<i64>| {
            let row: Row = key.iter().map(|&value| ScalarValue::from(value)).collect();
            packed(&table, &row).unwrap_or_else(|| panic!("{kinds:?}: {key:?} has no number"))
        };
        for one in &keys {
            assert_ne!(number(one), i128::MIN, "{kinds:?}: {one:?} would be NULL");
            for other in &keys {
                assert_eq!(
                    number(one).cmp(&number(other)),
                    one.cmp(other),
                    "{kinds:?}: {one:?} and {other:?}"
                );
            }
        }
    }
}

#[test]
fn columns_are_as_wide_as_their_types() {
    let key = |values: &[ScalarValue]| packed(&table(&["int", "smallint"]), &values.to_vec());
    assert_eq!(key(&[ScalarValue::from(3), ScalarValue::from(5_i16)]), Some(3 * 65_536 + 5));
    assert_eq!(key(&[ScalarValue::from(3), ScalarValue::from(-5_i16)]), Some(3 * 65_536 - 5));
    assert_eq!(key(&[ScalarValue::from(-3), ScalarValue::from(5_i64)]), Some(-3 * 65_536 + 5));
}

#[test]
fn what_is_no_value_of_its_column_has_no_number() {
    // 2^16 + 5 in the second column would be 5 behind one more in the first.
    assert_eq!(pack([(3, 32), (65_541, 16)]), None);
    assert_eq!(pack([(3, 32), (-32_769, 16)]), None);
    assert_eq!(pack([(3, 32), (-32_768, 16)]), Some(3 * 65_536 - 32_768));
    assert_eq!(pack([(i64::MIN, 64), (-1, 64)]), None, "below the smallest number");
    assert_eq!(pack([(i64::MIN + 1, 64), (-1, 64)]), Some((i128::from(i64::MIN) + 1) * (1 << 64) - 1));
    assert_eq!(packed(&table(&["int"]), &vec![ScalarValue::Int32(None)]), None);
    assert_eq!(packed(&table(&["int"]), &vec![ScalarValue::from("1")]), Some(1));
    assert_eq!(packed(&table(&["int"]), &vec![ScalarValue::from("one")]), None);
}

#[test]
fn other_types_and_wider_keys_have_no_numbers() {
    for kinds in [&["text"][..], &["int", "text"], &["bigint", "bigint", "smallint"], &["numeric(9, 0)"]] {
        assert!(!fits(&table(kinds)), "{kinds:?}");
    }
}
