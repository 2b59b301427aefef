// SPDX-License-Identifier: Apache-2.0
use super::*;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal128Type, Int32Type};
use std::collections::{BTreeMap, BTreeSet};

fn population(size: Population) -> BTreeMap<&'static str, RecordBatch> {
    let generator = Generator::new(Sizes::new(size), 1);
    let mut batches = BTreeMap::new();
    let (table, items) = generator.items().unwrap();
    batches.insert(table.name, items);
    generator
        .warehouse::<ArrowError>(2, |(table, batch)| {
            assert!(batches.insert(table.name, batch).is_none(), "one batch for each table");
            Ok(())
        })
        .unwrap();
    batches
}

#[test]
fn a_full_warehouse_has_the_row_counts_of_the_specification() {
    let batches = population(Population::Full);
    let count = |name: &str| batches[name].num_rows();
    assert_eq!(batches.len(), 9);
    assert_eq!((count("item"), count("stock")), (100_000, 100_000));
    assert_eq!((count("warehouse"), count("district")), (1, 10));
    assert_eq!((count("customer"), count("history"), count("orders")), (30_000, 30_000, 30_000));
    assert_eq!(count("new_order"), 9_000);
    let lines = count("order_line");
    assert!(
        (295_000..305_000).contains(&lines),
        "30,000 orders have about ten lines each, not {lines} in all"
    );
    let announced = Generator::new(Sizes::new(Population::Full), 1).row_count(1) as i64;
    let made: usize = batches.values().map(RecordBatch::num_rows).sum();
    assert!((announced - made as i64).abs() < 5_000);
}

#[test]
fn order_lines_belong_to_their_orders_and_only_new_orders_are_undelivered() {
    let batches = population(Population::Tiny);
    let sizes = Sizes::new(Population::Tiny);
    let orders = &batches["orders"];
    let line_counts = orders.column(ORDERS.column_index("o_ol_cnt")).as_primitive::<Int32Type>();
    let lines: i32 = line_counts.values().iter().sum();
    assert_eq!(lines as usize, batches["order_line"].num_rows());
    assert!(line_counts.values().iter().all(|count| (5..=15).contains(count)));
    let carriers = orders.column(ORDERS.column_index("o_carrier_id"));
    assert_eq!(carriers.null_count(), (sizes.undelivered * DISTRICTS) as usize);
    assert_eq!(carriers.null_count(), batches["new_order"].num_rows());
    let order_lines = &batches["order_line"];
    let delivered = order_lines.column(ORDER_LINE.column_index("ol_delivery_d"));
    let amounts = order_lines.column(ORDER_LINE.column_index("ol_amount")).as_primitive::<Decimal128Type>();
    for line in 0..order_lines.num_rows() {
        assert_eq!(delivered.is_valid(line), amounts.value(line) == 0, "delivered lines cost nothing");
    }
}

#[test]
fn every_last_name_occurs_in_every_district() {
    let batches = population(Population::Tiny);
    let customers = &batches["customer"];
    let districts = customers.column(1).as_primitive::<Int32Type>();
    let names = customers.column(CUSTOMER.column_index("c_last")).as_string_view();
    let pairs: BTreeSet<(i32, &str)> =
        (0..customers.num_rows()).map(|row| (districts.value(row), names.value(row))).collect();
    assert_eq!(pairs.len() as i32, DISTRICTS * Sizes::new(Population::Tiny).last_names);
}

#[test]
fn the_same_seed_gives_the_same_rows_and_another_seed_others() {
    assert_eq!(population(Population::Tiny), population(Population::Tiny));
    let other = Generator::new(Sizes::new(Population::Tiny), 2).items().unwrap().1;
    assert_ne!(population(Population::Tiny)["item"], other);
}

#[test]
fn batches_are_sorted_by_primary_key_and_keys_are_unique() {
    for (table, batch) in population(Population::Tiny) {
        let spec = super::super::schema::TABLES.into_iter().find(|spec| spec.name == table).unwrap();
        if spec.name == "history" {
            continue;
        }
        let key = |row: usize| -> Vec<i32> {
            let column =
                |name: &&str| batch.column(spec.column_index(name)).as_primitive::<Int32Type>().value(row);
            spec.primary_key.iter().map(column).collect()
        };
        assert!((1..batch.num_rows()).all(|row| key(row - 1) < key(row)), "{table}");
    }
}
