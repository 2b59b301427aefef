// SPDX-License-Identifier: Apache-2.0
//! What reading bricks is noted as: a load or a delete that could change what was found is met, one elsewhere is not.

use super::*;
use coeval_brick::Selection;

/// Reads what `select` selects and then writes by `write`, beside somebody who does the same the other way round, through
/// a table of their own. Whether one of them was refused, and what was said.
fn write_skew(
    loaded: &[(&str, i64, i64)],
    select: impl Fn(Selection) -> Selection,
    write: impl Fn(&mut Transaction, &TableDef),
) -> Option<String> {
    let store = Store::in_memory(options());
    let (def, other) = (events(&store, "e"), events(&store, "other"));
    let mut tx = begin(&store);
    append(&mut tx, &def, loaded);
    tx.commit().unwrap();
    let mut reader = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    let mut writer = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    reader.brick_view(def.id, &select).unwrap();
    ids(&writer, &other);
    append(&mut reader, &other, &[("a", 1, 1)]);
    write(&mut writer, &def);
    writer.commit().unwrap();
    match reader.commit() {
        Ok(_) => None,
        Err(StoreError::Conflict(conflict)) => Some(conflict.detail),
        Err(error) => panic!("{error}"),
    }
}

const LOADED: &[(&str, i64, i64)] = &[("a", 1, 1), ("b", 2, 2), ("c", 33, 3), ("d", 41, 4)];

fn days(from: i64, to: i64) -> impl Fn(Selection) -> Selection {
    move |all| all.within(1, &[from..=to])
}

fn of_region(region: &'static str) -> impl Fn(Selection) -> Selection {
    move |all| all.among(0, &[region])
}

fn load(region: &'static str, day: i64) -> impl Fn(&mut Transaction, &TableDef) {
    move |tx, def| append(tx, def, &[(region, day, 9)])
}

#[test]
fn a_load_into_what_was_read_is_met_and_one_beside_it_is_not() {
    let is_refused = |select: &dyn Fn(Selection) -> Selection, region, day| {
        write_skew(LOADED, select, load(region, day)).is_some()
    };
    assert!(is_refused(&days(0, 9), "a", 5) && is_refused(&days(0, 9), "d", 5));
    assert!(is_refused(&days(5, 35), "c", 31) && is_refused(&days(5, 35), "c", 38), "bricks are noted whole");
    assert!(!is_refused(&days(0, 9), "a", 10) && !is_refused(&days(0, 9), "c", 33));
    assert!(is_refused(&of_region("a"), "a", 99) && is_refused(&of_region("a"), "b", 0));
    assert!(!is_refused(&of_region("a"), "c", 33) && !is_refused(&of_region("a"), "d", 41));
    let both = |all: Selection| all.among(0, &["a", "c"]).within(1, &[0..=9, 30..=39]);
    assert!(is_refused(&both, "c", 5) && is_refused(&both, "b", 39));
    assert!(!is_refused(&both, "c", 45) && !is_refused(&both, "a", 10));
    assert!(is_refused(&|all| all, "a", 70), "who reads everything meets everybody");
}

#[test]
fn bricks_that_are_not_there_yet_are_read_and_so_are_strings_that_have_no_code() {
    let is_refused = |select: &dyn Fn(Selection) -> Selection, region, day| {
        write_skew(LOADED, select, load(region, day)).is_some()
    };
    assert!(is_refused(&days(80, 89), "a", 85), "no brick has these days");
    assert!(!is_refused(&days(80, 89), "a", 95));
    assert!(is_refused(&of_region("new"), "new", 1), "nobody knew the string");
    assert!(is_refused(&of_region("new"), "newer", 1), "which codes they will get is not known");
    assert!(!is_refused(&of_region("new"), "a", 1));
    assert!(!is_refused(&days(200, 300), "a", 1), "no row can have these days");
}

#[test]
fn a_delete_reads_what_it_selects_and_writes_what_it_deletes() {
    let delete = |from, to| {
        move |tx: &mut Transaction, def: &TableDef| {
            tx.delete_bricks(def.id, days(from, to)).unwrap();
        }
    };
    assert!(write_skew(LOADED, days(30, 39), delete(30, 39)).is_some());
    assert!(write_skew(LOADED, days(30, 39), delete(0, 39)).is_some());
    assert!(write_skew(LOADED, days(30, 39), delete(0, 29)).is_none());
    assert!(write_skew(LOADED, days(30, 49), delete(50, 99)).is_none(), "nothing was deleted");
    // Somebody deletes day 90 to 99, of which there is nothing, and somebody loads into it.
    let store = Store::in_memory(options());
    let (def, other) = (events(&store, "e"), events(&store, "other"));
    let mut deleter = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    let mut loader = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    assert_eq!(deleter.delete_bricks(def.id, days(90, 99)).unwrap(), 0);
    ids(&loader, &other);
    append(&mut deleter, &other, &[("a", 1, 1)]);
    append(&mut loader, &def, &[("a", 95, 1)]);
    loader.commit().unwrap();
    assert!(matches!(deleter.commit(), Err(StoreError::Conflict(_))));
}

#[test]
fn the_bricks_in_which_two_have_met_are_named() {
    let said = write_skew(LOADED, days(30, 39), load("c", 33)).unwrap();
    assert!(said.starts_with("table \"other\", key brick 0 (region in ('a'), day from 0 to 9): "), "{said}");
}

#[test]
fn more_bricks_than_are_told_one_by_one_count_as_all() {
    let store = Store::in_memory(options());
    let mut def = events(&store, "e");
    def.id = store.new_space_id();
    def.name = QualifiedName::new("public", "wide");
    let dimensions = &mut def.bricks.as_mut().unwrap().dimensions;
    dimensions[1] = BrickDimension { column: 1, cardinality: 1_000_000, range_size: 1, origin: 0 };
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    for (rows, is_refused) in [(4_096, false), (4_097, true)] {
        let other = events(&store, &format!("other{rows}"));
        let mut reader = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
        let mut writer = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
        reader.brick_view(def.id, days(900_000, 900_010)).unwrap();
        ids(&writer, &other);
        append(&mut reader, &other, &[("a", 1, 1)]);
        append(&mut writer, &def, &(0..rows).map(|row| ("a", row, row)).collect::<Vec<_>>());
        writer.commit().unwrap();
        assert_eq!(reader.commit().is_err(), is_refused, "{rows} bricks");
    }
}

#[test]
fn reads_of_bricks_take_bounded_memory_however_many_they_are_and_are_found_all_the_same() {
    let store = Store::in_memory(options());
    let (mut def, other) = (events(&store, "e"), events(&store, "other"));
    def.id = store.new_space_id();
    def.name = QualifiedName::new("public", "wide");
    let dimensions = &mut def.bricks.as_mut().unwrap().dimensions;
    dimensions[1] = BrickDimension { column: 1, cardinality: 1_000_000, range_size: 1, origin: 0 };
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    let mut reader = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    let mut writer = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    let mut noted_max = 0;
    for day in 0..20_000 {
        reader.brick_view(def.id, days(day * 7 % 50_000 * 2, day * 7 % 50_000 * 2)).unwrap();
        if day % 500 == 0 {
            noted_max = noted_max.max(reader.reading().unwrap().noted_count());
        }
    }
    assert!(noted_max < 5_000, "{noted_max} noted");
    ids(&writer, &other);
    append(&mut reader, &other, &[("a", 1, 1)]);
    append(&mut writer, &def, &[("a", 7 * 2, 1)]);
    writer.commit().unwrap();
    assert!(matches!(reader.commit(), Err(StoreError::Conflict(_))));
}
