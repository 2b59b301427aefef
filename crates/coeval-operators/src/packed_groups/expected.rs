// SPDX-License-Identifier: Apache-2.0
//! Which values the columns of a GROUP BY are expected to have, by the statistics of its input.
//!
//! A plan may live longer than what it was planned by, and statistics may be estimates: any value may come.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;

/// The least and the greatest value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) least: i64,
    pub(crate) most: i64,
}

/// The bounds of each column, where something is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected(Vec<Option<Bounds>>);

impl Expected {
    /// What the statistics of these rows say of these columns, which have these types. Without statistics nothing is expected.
    pub(super) fn of(
        columns: &[Arc<dyn PhysicalExpr>],
        types: &[DataType],
        rows: &Arc<dyn ExecutionPlan>,
    ) -> Self {
        let Ok(statistics) = StatisticsContext::new().compute(rows.as_ref(), &StatisticsArgs::new()) else {
            return Self::default();
        };
        let bounds = |(column, ty): (&Arc<dyn PhysicalExpr>, &DataType)| {
            let index = column.downcast_ref::<Column>()?.index();
            let known = statistics.column_statistics.get(index)?;
            let least = number(known.min_value.get_value()?, ty)?;
            let most = number(known.max_value.get_value()?, ty)?;
            (least <= most).then_some(Bounds { least, most })
        };
        Self(columns.iter().zip(types).map(bounds).collect())
    }

    /// The bounds of the column at this place.
    pub(super) fn bounds(&self, place: usize) -> Option<Bounds> {
        self.0.get(place).copied().flatten()
    }
}

#[cfg(test)]
impl FromIterator<Option<Bounds>> for Expected {
    fn from_iter<I: IntoIterator<Item = Option<Bounds>>>(bounds: I) -> Self {
        Self(bounds.into_iter().collect())
    }
}

/// A value of this type as the number that it is kept as.
fn number(value: &ScalarValue, ty: &DataType) -> Option<i64> {
    if value.data_type() != *ty {
        return None;
    }
    match value {
        ScalarValue::Int8(value) => value.map(i64::from),
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value)
        | ScalarValue::Date32(value)
        | ScalarValue::Time32Second(value)
        | ScalarValue::Time32Millisecond(value) => value.map(i64::from),
        ScalarValue::Int64(value)
        | ScalarValue::Date64(value)
        | ScalarValue::Time64Microsecond(value)
        | ScalarValue::Time64Nanosecond(value)
        | ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _) => *value,
        _ => None,
    }
}
