// SPDX-License-Identifier: Apache-2.0
//! `coeval_dimensions`: what brick tables are partitioned on, as their definitions say it.

use super::rows::{Rows, count, table_defs, text};
use crate::catalog::origin_of_dimension;
use coeval_store::{ColumnType, Retention, Transaction, Value, ValueRef};

const TEXT: ColumnType = ColumnType::Text;
const BIGINT: ColumnType = ColumnType::BigInt;

/// One row for each dimension of each brick table, in the order of the columns.
pub(super) fn dimensions(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "table_schema table_name column_name"),
        (BIGINT, "cardinality range_size"),
        (TEXT, "origin"),
        (ColumnType::Interval, "retention"),
    ]);
    for (name, def) in table_defs(transaction) {
        let Some(bricks) = &def.bricks else { continue };
        for dimension in &bricks.dimensions {
            let Some(column) = def.columns.get(dimension.column) else { continue };
            let origin = origin_of_dimension(dimension, column.ty);
            let kept = bricks.retention.as_ref().filter(|kept| kept.column == dimension.column);
            rows.push([
                text(&name.schema),
                text(&name.name),
                text(&column.name),
                count(dimension.cardinality),
                count(dimension.range_size),
                origin.as_deref().map_or(ValueRef::Null, text),
                kept.map_or(Value::Null, |kept| retention(kept, column.ty)).borrow(),
            ]);
        }
    }
    rows
}

fn retention(kept: &Retention, ty: ColumnType) -> Value {
    const MICROS_PER_DAY: i64 = 86_400_000_000;
    let (days, micros) = match ty {
        ColumnType::Date => (kept.keep, 0),
        _ => (kept.keep / MICROS_PER_DAY, kept.keep % MICROS_PER_DAY),
    };
    let Ok(days) = i32::try_from(days) else { return Value::Null };
    Value::Interval(coeval_store::IntervalValue { months: 0, days, nanoseconds: micros * 1_000 })
}
