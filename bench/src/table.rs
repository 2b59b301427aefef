// SPDX-License-Identifier: Apache-2.0
//! Tables of a workload as data: from one description come the DDL, the Arrow schema and the row builder.

use arrow::array::{
    ArrayRef, Date32Builder, Decimal128Builder, Int32Builder, Int64Builder, StringViewBuilder,
};
use arrow::array::{RecordBatch, TimestampMicrosecondBuilder};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use coeval::ColumnType;
use std::sync::Arc;

/// A column of a [`TableSpec`].
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: ColumnType,
    nullable: bool,
}

/// A column that is never NULL.
pub(crate) const fn column(name: &'static str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec { name, ty, nullable: false }
}

/// A column that may be NULL.
pub(crate) const fn nullable(name: &'static str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec { name, ty, nullable: true }
}

/// Shorthand for a decimal type.
pub(crate) const fn numeric(precision: u8, scale: i8) -> ColumnType {
    ColumnType::Numeric { precision, scale }
}

/// A table of a workload.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// Its name.
    pub name: &'static str,
    /// Its columns in order.
    pub columns: &'static [ColumnSpec],
    /// The columns of its primary key, in key order.
    pub primary_key: &'static [&'static str],
    /// Secondary indexes: name and columns.
    pub indexes: &'static [(&'static str, &'static [&'static str])],
}

impl TableSpec {
    /// The statements that create the table and its indexes.
    #[must_use]
    pub fn ddl(&self) -> Vec<String> {
        let mut statements = vec![self.create_table()];
        statements.extend(self.indexes.iter().map(|(index, columns)| {
            format!("CREATE INDEX {index} ON {} ({})", self.name, columns.join(", "))
        }));
        statements
    }

    /// `CREATE TABLE` with the primary key, without the indexes.
    #[must_use]
    pub fn create_table(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let null = if column.nullable { "" } else { " NOT NULL" };
                format!("{} {}{null}", column.name, sql_type(column.ty))
            })
            .collect();
        let key = self.primary_key.join(", ");
        format!("CREATE TABLE {} ({}, PRIMARY KEY ({key}))", self.name, columns.join(", "))
    }

    /// The schema of the table's batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<Field> = self
            .columns
            .iter()
            .map(|column| Field::new(column.name, column.ty.arrow(), column.nullable))
            .collect();
        Arc::new(Schema::new(fields))
    }

    /// The place of a column, at compile time if need be.
    ///
    /// # Panics
    /// If there is no column of this name.
    #[must_use]
    pub const fn column_index(&self, name: &str) -> usize {
        let mut place = 0;
        while place < self.columns.len() {
            if same_text(self.columns[place].name, name) {
                return place;
            }
            place += 1;
        }
        panic!("workloads name only columns that they declare")
    }
}

/// Equality that constants can use.
const fn same_text(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut place = 0;
    while place < left.len() {
        if left[place] != right[place] {
            return false;
        }
        place += 1;
    }
    true
}

/// Types in the short spelling that every SQL engine under comparison reads.
fn sql_type(ty: ColumnType) -> String {
    match ty {
        ColumnType::Varchar(length) => format!("varchar({length})"),
        ColumnType::Char(length) => format!("char({length})"),
        ColumnType::Timestamp => "timestamp".to_owned(),
        other => other.to_string(),
    }
}

enum ColumnBuilder {
    Int(Int32Builder),
    BigInt(Int64Builder),
    Decimal(Decimal128Builder),
    Text(StringViewBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

/// Collects rows of one table, value by value in column order, and hands them out as a batch.
pub(crate) struct BatchBuilder {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    next: usize,
}

impl BatchBuilder {
    /// For rows of this table; `rows` is how many are expected.
    pub(crate) fn new(table: &TableSpec, rows: usize) -> Self {
        let columns = table.columns.iter().map(|column| ColumnBuilder::new(column.ty, rows)).collect();
        Self { schema: table.schema(), columns, next: 0 }
    }

    #[inline]
    fn column(&mut self) -> &mut ColumnBuilder {
        let place = self.next;
        self.next = if place + 1 == self.columns.len() { 0 } else { place + 1 };
        &mut self.columns[place]
    }

    /// The next value: `int`.
    #[inline]
    pub(crate) fn int(&mut self, value: i32) {
        self.int_or_null(Some(value));
    }

    /// The next value: `int` or NULL.
    #[inline]
    pub(crate) fn int_or_null(&mut self, value: Option<i32>) {
        match self.column() {
            ColumnBuilder::Int(builder) => builder.append_option(value),
            _ => panic!("the column is not an int"),
        }
    }

    /// The next value: `bigint`.
    #[inline]
    pub(crate) fn bigint(&mut self, value: i64) {
        match self.column() {
            ColumnBuilder::BigInt(builder) => builder.append_value(value),
            _ => panic!("the column is not a bigint"),
        }
    }

    /// The next value: `numeric`, unscaled.
    #[inline]
    pub(crate) fn decimal(&mut self, unscaled: i64) {
        match self.column() {
            ColumnBuilder::Decimal(builder) => builder.append_value(i128::from(unscaled)),
            _ => panic!("the column is not a numeric"),
        }
    }

    /// The next value: text of any kind.
    #[inline]
    pub(crate) fn text(&mut self, value: &str) {
        match self.column() {
            ColumnBuilder::Text(builder) => builder.append_value(value),
            _ => panic!("the column is not text"),
        }
    }

    /// The next value: days since 1970-01-01.
    #[inline]
    pub(crate) fn date(&mut self, days: i32) {
        match self.column() {
            ColumnBuilder::Date(builder) => builder.append_value(days),
            _ => panic!("the column is not a date"),
        }
    }

    /// The next value: microseconds since 1970-01-01, or NULL.
    #[inline]
    pub(crate) fn timestamp(&mut self, microseconds: Option<i64>) {
        match self.column() {
            ColumnBuilder::Timestamp(builder) => builder.append_option(microseconds),
            _ => panic!("the column is not a timestamp"),
        }
    }

    /// The rows so far.
    ///
    /// # Panics
    /// If the last row is not complete.
    pub(crate) fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        assert_eq!(self.next, 0, "the last row is complete");
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        RecordBatch::try_new(self.schema, columns)
    }
}

impl ColumnBuilder {
    fn new(ty: ColumnType, rows: usize) -> Self {
        match ty {
            ColumnType::Int => Self::Int(Int32Builder::with_capacity(rows)),
            ColumnType::BigInt => Self::BigInt(Int64Builder::with_capacity(rows)),
            ColumnType::Numeric { .. } => {
                Self::Decimal(Decimal128Builder::with_capacity(rows).with_data_type(ty.arrow()))
            }
            ColumnType::Date => Self::Date(Date32Builder::with_capacity(rows)),
            ColumnType::Timestamp => Self::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows)),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => {
                Self::Text(StringViewBuilder::with_capacity(rows))
            }
            other => panic!("no workload has a column of type {other}"),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::BigInt(builder) => Arc::new(builder.finish()),
            Self::Decimal(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Timestamp(builder) => Arc::new(builder.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableSpec = TableSpec {
        name: "line",
        columns: &[
            column("l_order", ColumnType::BigInt),
            column("l_price", numeric(15, 2)),
            nullable("l_sent", ColumnType::Timestamp),
            column("l_mode", ColumnType::Char(10)),
        ],
        primary_key: &["l_order", "l_mode"],
        indexes: &[("line_sent", &["l_sent"])],
    };

    #[test]
    fn the_ddl_declares_keys_and_indexes() {
        let statements = TABLE.ddl();
        assert_eq!(
            statements[0],
            "CREATE TABLE line (l_order bigint NOT NULL, l_price numeric(15,2) NOT NULL, l_sent timestamp, \
             l_mode char(10) NOT NULL, PRIMARY KEY (l_order, l_mode))"
        );
        assert_eq!(statements[1], "CREATE INDEX line_sent ON line (l_sent)");
    }

    #[test]
    fn rows_come_back_as_a_batch_of_the_schema() {
        let mut rows = BatchBuilder::new(&TABLE, 2);
        for order in 0..2 {
            rows.bigint(order);
            rows.decimal(12_345);
            rows.timestamp((order == 1).then_some(1));
            rows.text("TRUCK");
        }
        let batch = rows.finish().unwrap();
        assert_eq!((batch.num_rows(), batch.schema()), (2, TABLE.schema()));
        assert_eq!(batch.column(2).null_count(), 1);
    }

    #[test]
    #[should_panic(expected = "not an int")]
    fn a_value_of_the_wrong_type_is_refused() {
        BatchBuilder::new(&TABLE, 1).int(1);
    }
}
