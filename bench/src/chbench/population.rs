// SPDX-License-Identifier: Apache-2.0
//! The three tables that CH-benCHmark adds to TPC-C's nine: regions, nations, suppliers.
//!
//! Nations have the ASCII codes of the 62 digits and letters as keys, so that the first character of a
//! customer's state names its nation. A supplier serves the stock rows whose `s_w_id * s_i_id` leaves its number
//! modulo 10,000.

use crate::table::{BatchBuilder, TableSpec, column, numeric};
use crate::tpcc::{Choice, NuRandConstants, TableBatch};
use arrow::error::ArrowError;
use coeval::ColumnType::{Int, Varchar};

/// Regions.
pub(super) const REGION: TableSpec = TableSpec {
    name: "region",
    columns: &[column("r_regionkey", Int), column("r_name", Varchar(55)), column("r_comment", Varchar(152))],
    primary_key: &["r_regionkey"],
    indexes: &[],
};

/// Nations.
pub(super) const NATION: TableSpec = TableSpec {
    name: "nation",
    columns: &[
        column("n_nationkey", Int),
        column("n_name", Varchar(25)),
        column("n_regionkey", Int),
        column("n_comment", Varchar(152)),
    ],
    primary_key: &["n_nationkey"],
    indexes: &[],
};

/// Suppliers.
pub(super) const SUPPLIER: TableSpec = TableSpec {
    name: "supplier",
    columns: &[
        column("su_suppkey", Int),
        column("su_name", Varchar(25)),
        column("su_address", Varchar(40)),
        column("su_nationkey", Int),
        column("su_phone", Varchar(15)),
        column("su_acctbal", numeric(12, 2)),
        column("su_comment", Varchar(101)),
    ],
    primary_key: &["su_suppkey"],
    indexes: &[],
};

/// All three, in the order in which they are loaded.
pub const TABLES: [TableSpec; 3] = [REGION, NATION, SUPPLIER];

/// Suppliers, whatever the number of warehouses.
pub(super) const SUPPLIERS: i32 = 10_000;

const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Europe", "Oceania"];

/// The names of the nations of each region, in the order of [`REGIONS`]; keys go through them in this order.
const NATIONS: [&[&str]; 5] = [
    &[
        "Algeria", "Angola", "Cameroon", "Egypt", "Ethiopia", "Ghana", "Kenya", "Mali", "Morocco", "Namibia",
        "Nigeria", "Senegal", "Tanzania",
    ],
    &[
        "Argentina",
        "Bolivia",
        "Brazil",
        "Canada",
        "Chile",
        "Colombia",
        "Costa Rica",
        "Cuba",
        "Ecuador",
        "Mexico",
        "Panama",
        "Peru",
        "United States",
        "Uruguay",
    ],
    &[
        "Bangladesh",
        "Cambodia",
        "China",
        "India",
        "Indonesia",
        "Japan",
        "Jordan",
        "Malaysia",
        "Mongolia",
        "Nepal",
        "Pakistan",
        "Saudi Arabia",
        "Thailand",
        "Vietnam",
    ],
    &[
        "Austria",
        "Belgium",
        "Denmark",
        "Finland",
        "France",
        "Germany",
        "Greece",
        "Ireland",
        "Italy",
        "Norway",
        "Poland",
        "Portugal",
        "Spain",
        "Sweden",
        "United Kingdom",
    ],
    &["Australia", "Fiji", "New Zealand", "Papua New Guinea", "Samoa", "Tonga"],
];

/// The keys of the nations: the ASCII codes of the digits and letters.
fn nation_keys() -> impl Iterator<Item = i32> {
    (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z').map(i32::from)
}

/// One supplier in a hundred has a comment with "bad" in it, which query 16 looks for.
const BAD_SUPPLIER_PERCENT: i32 = 1;

/// Random stream of the suppliers, apart from all of TPC-C's.
const SUPPLIER_STREAM: u64 = 1 << 47;

/// The rows of the three tables for a seed.
///
/// # Errors
/// If Arrow refuses a batch.
pub fn generate(seed: u64) -> Result<[TableBatch; 3], ArrowError> {
    let mut choice = Choice::new(seed, SUPPLIER_STREAM, NuRandConstants::new(seed));
    let text = &mut String::new();
    let mut regions = BatchBuilder::new(&REGION, REGIONS.len());
    let mut nations = BatchBuilder::new(&NATION, 62);
    let mut keys = nation_keys();
    for (region, name) in (0..).zip(REGIONS) {
        regions.int(region);
        regions.text(name);
        regions.text(choice.letters(text, 31, 115));
        for (nation, key) in NATIONS[region as usize].iter().zip(keys.by_ref()) {
            nations.int(key);
            nations.text(nation);
            nations.int(region);
            nations.text(choice.letters(text, 31, 114));
        }
    }
    let suppliers = suppliers(&mut choice)?;
    Ok([(&REGION, regions.finish()?), (&NATION, nations.finish()?), suppliers])
}

fn suppliers(choice: &mut Choice) -> Result<TableBatch, ArrowError> {
    let text = &mut String::new();
    let keys: Vec<i32> = nation_keys().collect();
    let mut suppliers = BatchBuilder::new(&SUPPLIER, SUPPLIERS as usize);
    for supplier in 0..SUPPLIERS {
        suppliers.int(supplier);
        suppliers.text(&format!("Supplier#{supplier:09}"));
        suppliers.text(choice.letters(text, 10, 40));
        suppliers.int(keys[choice.uniform(0, keys.len() as i32 - 1) as usize]);
        suppliers.text(choice.digits(text, 15, 15));
        suppliers.decimal(i64::from(choice.uniform(-99_999, 999_999)));
        choice.letters(text, 25, 97);
        if choice.happens(BAD_SUPPLIER_PERCENT) {
            text.replace_range(10..13, "bad");
        }
        suppliers.text(text);
    }
    Ok((&SUPPLIER, suppliers.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    #[test]
    fn every_nation_key_has_a_nation_and_no_nation_is_left_over() {
        assert_eq!(nation_keys().count(), 62);
        assert_eq!(NATIONS.iter().map(|nations| nations.len()).sum::<usize>(), 62);
    }

    #[test]
    fn the_three_tables_have_their_row_counts_and_names_that_queries_ask_for() {
        let [(_, regions), (_, nations), (_, suppliers)] = generate(1).unwrap();
        assert_eq!((regions.num_rows(), nations.num_rows(), suppliers.num_rows()), (5, 62, 10_000));
        let names: Vec<&str> = nations.column(1).as_string_view().iter().flatten().collect();
        assert!(names.contains(&"Germany") && names.contains(&"Cambodia"));
        let comments = suppliers.column(6).as_string_view();
        let bad = comments.iter().flatten().filter(|comment| comment.contains("bad")).count();
        assert!((50..200).contains(&bad), "{bad} of 10,000 suppliers are bad");
        let keys = suppliers.column(0).as_primitive::<Int32Type>();
        assert_eq!((keys.value(0), keys.value(keys.len() - 1)), (0, 9_999));
    }
}
