// SPDX-License-Identifier: Apache-2.0
//! TPC-H's eight tables: definitions, and rows from `tpchgen` as Arrow batches.
//!
//! A table is made in parts that have nothing to do with each other, so that several threads can make one table
//! and no more than a part need be in memory.

use crate::table::{BatchBuilder, TableSpec, column, numeric};
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use coeval::ColumnType::{self, BigInt, Char, Date, Int, Varchar};
use std::fmt::{Display, Write};
use tpchgen::generators::{
    Customer, CustomerGenerator, LineItem, LineItemGenerator, Nation, NationGenerator, Order, OrderGenerator,
    Part, PartGenerator, PartSupp, PartSuppGenerator, Region, RegionGenerator, Supplier, SupplierGenerator,
};

const MONEY: ColumnType = numeric(15, 2);

/// Regions.
pub(super) const REGION: TableSpec = TableSpec {
    name: "region",
    columns: &[
        column("r_regionkey", BigInt),
        column("r_name", Varchar(25)),
        column("r_comment", Varchar(152)),
    ],
    primary_key: &["r_regionkey"],
    indexes: &[],
};

/// Nations.
pub(super) const NATION: TableSpec = TableSpec {
    name: "nation",
    columns: &[
        column("n_nationkey", BigInt),
        column("n_name", Varchar(25)),
        column("n_regionkey", BigInt),
        column("n_comment", Varchar(152)),
    ],
    primary_key: &["n_nationkey"],
    indexes: &[],
};

/// Parts.
pub(super) const PART: TableSpec = TableSpec {
    name: "part",
    columns: &[
        column("p_partkey", BigInt),
        column("p_name", Varchar(55)),
        column("p_mfgr", Varchar(25)),
        column("p_brand", Varchar(10)),
        column("p_type", Varchar(25)),
        column("p_size", Int),
        column("p_container", Varchar(10)),
        column("p_retailprice", MONEY),
        column("p_comment", Varchar(23)),
    ],
    primary_key: &["p_partkey"],
    indexes: &[],
};

/// Suppliers.
pub(super) const SUPPLIER: TableSpec = TableSpec {
    name: "supplier",
    columns: &[
        column("s_suppkey", BigInt),
        column("s_name", Varchar(25)),
        column("s_address", Varchar(40)),
        column("s_nationkey", BigInt),
        column("s_phone", Char(15)),
        column("s_acctbal", MONEY),
        column("s_comment", Varchar(101)),
    ],
    primary_key: &["s_suppkey"],
    indexes: &[],
};

/// Which supplier has which part.
pub(super) const PARTSUPP: TableSpec = TableSpec {
    name: "partsupp",
    columns: &[
        column("ps_partkey", BigInt),
        column("ps_suppkey", BigInt),
        column("ps_availqty", Int),
        column("ps_supplycost", MONEY),
        column("ps_comment", Varchar(199)),
    ],
    primary_key: &["ps_partkey", "ps_suppkey"],
    indexes: &[],
};

/// Customers.
pub(super) const CUSTOMER: TableSpec = TableSpec {
    name: "customer",
    columns: &[
        column("c_custkey", BigInt),
        column("c_name", Varchar(25)),
        column("c_address", Varchar(40)),
        column("c_nationkey", BigInt),
        column("c_phone", Char(15)),
        column("c_acctbal", MONEY),
        column("c_mktsegment", Varchar(10)),
        column("c_comment", Varchar(117)),
    ],
    primary_key: &["c_custkey"],
    indexes: &[],
};

/// Orders.
pub const ORDERS: TableSpec = TableSpec {
    name: "orders",
    columns: &[
        column("o_orderkey", BigInt),
        column("o_custkey", BigInt),
        column("o_orderstatus", Char(1)),
        column("o_totalprice", MONEY),
        column("o_orderdate", Date),
        column("o_orderpriority", Varchar(15)),
        column("o_clerk", Varchar(15)),
        column("o_shippriority", Int),
        column("o_comment", Varchar(79)),
    ],
    primary_key: &["o_orderkey"],
    indexes: &[],
};

/// Lines of orders.
pub const LINEITEM: TableSpec = TableSpec {
    name: "lineitem",
    columns: &[
        column("l_orderkey", BigInt),
        column("l_partkey", BigInt),
        column("l_suppkey", BigInt),
        column("l_linenumber", Int),
        column("l_quantity", MONEY),
        column("l_extendedprice", MONEY),
        column("l_discount", MONEY),
        column("l_tax", MONEY),
        column("l_returnflag", Char(1)),
        column("l_linestatus", Char(1)),
        column("l_shipdate", Date),
        column("l_commitdate", Date),
        column("l_receiptdate", Date),
        column("l_shipinstruct", Varchar(25)),
        column("l_shipmode", Varchar(10)),
        column("l_comment", Varchar(44)),
    ],
    primary_key: &["l_orderkey", "l_linenumber"],
    indexes: &[],
};

/// All eight, small ones first.
pub const TABLES: [&TableSpec; 8] =
    [&REGION, &NATION, &SUPPLIER, &CUSTOMER, &PART, &PARTSUPP, &ORDERS, &LINEITEM];

/// Rows in one batch.
const BATCH_ROWS: usize = 65_536;

/// Rows that a part of a table has at most, about; lines count with their orders.
const PART_ROWS: f64 = 1_500_000.0;

/// Into how many parts a table is cut at this scale.
#[must_use]
pub fn part_count(table: &TableSpec, scale: f64) -> usize {
    (row_estimate(table, scale) as f64 / PART_ROWS).ceil().max(1.0) as usize
}

/// How many rows a table has at this scale; for `lineitem` about.
///
/// # Panics
/// If the table is not one of TPC-H.
#[must_use]
pub fn row_estimate(table: &TableSpec, scale: f64) -> u64 {
    let rows_at_scale_1 = match table.name {
        "region" => return 5,
        "nation" => return 25,
        "supplier" => 10_000.0,
        "customer" => 150_000.0,
        "part" => 200_000.0,
        "partsupp" => 800_000.0,
        "orders" => 1_500_000.0,
        "lineitem" => 6_001_215.0,
        other => panic!("TPC-H has no table {other}"),
    };
    (rows_at_scale_1 * scale) as u64
}

/// Makes part `part` (from 0) of a table and hands its batches to `each`, in primary key order.
///
/// # Errors
/// What `each` returns, or what Arrow says.
///
/// # Panics
/// If the table has no such part.
pub fn generate<E: From<ArrowError>>(
    table: &'static TableSpec,
    scale: f64,
    part: usize,
    each: &mut dyn FnMut(RecordBatch) -> Result<(), E>,
) -> Result<(), E> {
    let parts = part_count(table, scale);
    assert!(part < parts, "the table has only {parts} parts");
    // tpchgen counts parts from 1.
    let (part, parts) = (part as i32 + 1, parts as i32);
    match table.name {
        "region" => batches(table, RegionGenerator::new(scale, part, parts).iter(), push_region, each),
        "nation" => batches(table, NationGenerator::new(scale, part, parts).iter(), push_nation, each),
        "part" => batches(table, PartGenerator::new(scale, part, parts).iter(), push_part, each),
        "supplier" => batches(table, SupplierGenerator::new(scale, part, parts).iter(), push_supplier, each),
        "partsupp" => batches(table, PartSuppGenerator::new(scale, part, parts).iter(), push_partsupp, each),
        "customer" => batches(table, CustomerGenerator::new(scale, part, parts).iter(), push_customer, each),
        "orders" => batches(table, OrderGenerator::new(scale, part, parts).iter(), push_order, each),
        "lineitem" => batches(table, LineItemGenerator::new(scale, part, parts).iter(), push_line, each),
        other => panic!("TPC-H has no table {other}"),
    }
}

/// A batch that is being filled, with a place to format values in.
struct Rows {
    batch: BatchBuilder,
    text: String,
}

impl Rows {
    /// The next value: what `value` displays.
    fn display(&mut self, value: impl Display) {
        self.text.clear();
        write!(self.text, "{value}").expect("a String takes everything");
        self.batch.text(&self.text);
    }
}

fn batches<R, E: From<ArrowError>>(
    table: &'static TableSpec,
    rows: impl Iterator<Item = R>,
    push: fn(&mut Rows, &R),
    each: &mut dyn FnMut(RecordBatch) -> Result<(), E>,
) -> Result<(), E> {
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let mut filling = Rows { batch: BatchBuilder::new(table, BATCH_ROWS), text: String::new() };
        rows.by_ref().take(BATCH_ROWS).for_each(|row| push(&mut filling, &row));
        each(filling.batch.finish()?)?;
    }
    Ok(())
}

fn push_region(rows: &mut Rows, row: &Region<'_>) {
    rows.batch.bigint(row.r_regionkey);
    rows.batch.text(row.r_name);
    rows.batch.text(row.r_comment);
}

fn push_nation(rows: &mut Rows, row: &Nation<'_>) {
    rows.batch.bigint(row.n_nationkey);
    rows.batch.text(row.n_name);
    rows.batch.bigint(row.n_regionkey);
    rows.batch.text(row.n_comment);
}

fn push_part(rows: &mut Rows, row: &Part<'_>) {
    rows.batch.bigint(row.p_partkey);
    rows.display(&row.p_name);
    rows.display(row.p_mfgr);
    rows.display(row.p_brand);
    rows.batch.text(row.p_type);
    rows.batch.int(row.p_size);
    rows.batch.text(row.p_container);
    rows.batch.decimal(row.p_retailprice.into_inner());
    rows.batch.text(row.p_comment);
}

fn push_supplier(rows: &mut Rows, row: &Supplier) {
    rows.batch.bigint(row.s_suppkey);
    rows.display(row.s_name);
    rows.display(&row.s_address);
    rows.batch.bigint(row.s_nationkey);
    rows.display(&row.s_phone);
    rows.batch.decimal(row.s_acctbal.into_inner());
    rows.batch.text(&row.s_comment);
}

fn push_partsupp(rows: &mut Rows, row: &PartSupp<'_>) {
    rows.batch.bigint(row.ps_partkey);
    rows.batch.bigint(row.ps_suppkey);
    rows.batch.int(row.ps_availqty);
    rows.batch.decimal(row.ps_supplycost.into_inner());
    rows.batch.text(row.ps_comment);
}

fn push_customer(rows: &mut Rows, row: &Customer<'_>) {
    rows.batch.bigint(row.c_custkey);
    rows.display(row.c_name);
    rows.display(&row.c_address);
    rows.batch.bigint(row.c_nationkey);
    rows.display(&row.c_phone);
    rows.batch.decimal(row.c_acctbal.into_inner());
    rows.batch.text(row.c_mktsegment);
    rows.batch.text(row.c_comment);
}

fn push_order(rows: &mut Rows, row: &Order<'_>) {
    rows.batch.bigint(row.o_orderkey);
    rows.batch.bigint(row.o_custkey);
    rows.display(row.o_orderstatus);
    rows.batch.decimal(row.o_totalprice.into_inner());
    rows.batch.date(row.o_orderdate.to_unix_epoch());
    rows.batch.text(row.o_orderpriority);
    rows.display(row.o_clerk);
    rows.batch.int(row.o_shippriority);
    rows.batch.text(row.o_comment);
}

fn push_line(rows: &mut Rows, row: &LineItem<'_>) {
    rows.batch.bigint(row.l_orderkey);
    rows.batch.bigint(row.l_partkey);
    rows.batch.bigint(row.l_suppkey);
    rows.batch.int(row.l_linenumber);
    // The generator counts whole pieces; the column has two digits behind the point.
    rows.batch.decimal(row.l_quantity * 100);
    rows.batch.decimal(row.l_extendedprice.into_inner());
    rows.batch.decimal(row.l_discount.into_inner());
    rows.batch.decimal(row.l_tax.into_inner());
    rows.batch.text(row.l_returnflag);
    rows.batch.text(row.l_linestatus);
    rows.batch.date(row.l_shipdate.to_unix_epoch());
    rows.batch.date(row.l_commitdate.to_unix_epoch());
    rows.batch.date(row.l_receiptdate.to_unix_epoch());
    rows.batch.text(row.l_shipinstruct);
    rows.batch.text(row.l_shipmode);
    rows.batch.text(row.l_comment);
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::{Decimal128Type, Int64Type};

    const SCALE: f64 = 0.01;

    fn all(table: &'static TableSpec, scale: f64) -> Vec<RecordBatch> {
        let mut batches = Vec::new();
        for part in 0..part_count(table, scale) {
            generate::<ArrowError>(table, scale, part, &mut |batch| {
                batches.push(batch);
                Ok(())
            })
            .unwrap();
        }
        batches
    }

    #[test]
    fn every_table_has_its_row_count() {
        for table in TABLES {
            let rows: usize = all(table, SCALE).iter().map(RecordBatch::num_rows).sum();
            let expected = row_estimate(table, SCALE) as usize;
            let slack = if table.name == "lineitem" { expected / 50 } else { 0 };
            assert!(rows.abs_diff(expected) <= slack, "{}: {rows} for {expected}", table.name);
        }
    }

    #[test]
    fn the_first_line_is_the_one_that_dbgen_makes() {
        let lines = all(&LINEITEM, SCALE);
        let money = |column: &str| {
            lines[0].column(LINEITEM.column_index(column)).as_primitive::<Decimal128Type>().value(0)
        };
        assert_eq!(lines[0].column(0).as_primitive::<Int64Type>().value(0), 1);
        assert_eq!(money("l_quantity"), 1_700);
        assert_eq!((money("l_discount"), money("l_tax")), (4, 2));
        let comments = lines[0].column(LINEITEM.column_index("l_comment")).as_string_view();
        assert_eq!(comments.value(0), "egular courts above the");
    }

    #[test]
    fn large_tables_come_in_parts() {
        assert_eq!(part_count(&LINEITEM, 1.0), 5);
        assert_eq!(part_count(&NATION, 100.0), 1);
    }
}
