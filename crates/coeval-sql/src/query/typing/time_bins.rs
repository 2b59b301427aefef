// SPDX-License-Identifier: Apache-2.0
//! `date_bin(width, moment, origin)`: the beginning of the bin that a moment falls into, where bins of one width are counted from an origin.
//!
//! | | PostgreSQL and here | DataFusion |
//! |---|---|---|
//! | moments | all that there are | those whose nanoseconds fit into 64 bits |
//! | a width that differs from row to row | taken | `0A000` |
//! | a width of months or years | `0A000`: they are not of one length | bins of months |
//! | a width of nothing, or less | `22008` | bins that begin behind the moment |

use super::moments::{is_infinite, micros, out_of_range, overflow, own_type};
use crate::constants::made_of;
use crate::error::{SqlError, SqlState};
use crate::types::{is_timestamp, type_in_words};
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use coeval_store::ColumnType;
use datafusion::common::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

const NANOS_PER_MICRO: i64 = 1_000;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// The function, for the engine's registry.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(TimeBins { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeBins {
    signature: Signature,
}

/// The type of the moment and of the origin, and so of the bins. A date, and a text beside one, is an instant, as PostgreSQL prefers them.
/// `None` if the function does not take these types.
fn moments_of(types: &[DataType]) -> Option<ColumnType> {
    let [width, moment, origin] = types else { return None };
    let is_open = |ty: &DataType| ty.is_string() || ty.is_null();
    let is_moment = |ty: &DataType| is_open(ty) || matches!(ty, DataType::Timestamp(..) | DataType::Date32);
    let is_width = is_open(width) || matches!(width, DataType::Interval(_));
    if !is_width || !is_moment(moment) || !is_moment(origin) {
        return None;
    }
    let has = |is_such: fn(&DataType) -> bool| is_such(moment) || is_such(origin);
    let is_local = has(|ty| matches!(ty, DataType::Timestamp(_, None)))
        && !has(|ty| matches!(ty, DataType::Timestamp(_, Some(_))));
    Some(if is_local { ColumnType::Timestamp } else { ColumnType::TimestampTz })
}

impl ScalarUDFImpl for TimeBins {
    fn name(&self) -> &str {
        "date_bin"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Types that it does not take stay, and are refused with the function's name once the type of the result is asked for.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(match moments_of(types) {
            Some(ty) => vec![ColumnType::Interval.arrow(), ty.arrow(), ty.arrow()],
            None => types.to_vec(),
        })
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let ty = moments_of(types).ok_or_else(|| {
            let types: Vec<String> = types.iter().map(type_in_words).collect();
            let message = format!("function date_bin({}) does not exist", types.join(", "));
            SqlError::new(SqlState::UndefinedFunction, message)
                .with_hint("It takes the width of the bins, a moment and an origin.")
        })?;
        Ok(ty.arrow())
    }

    /// Bins of one width come in the order of their moments.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let is_constant = |input: &ExprProperties| input.sort_properties == SortProperties::Singleton;
        Ok(match inputs {
            [width, moment, origin] if is_constant(width) && is_constant(origin) => moment.sort_properties,
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ty = own_type(arguments.return_field.data_type());
        made_of(&arguments.args, arguments.number_rows, |rows| {
            let [widths, moments, origins] = &arguments.args[..] else {
                return Err(SqlError::internal("date_bin takes three arguments").into());
            };
            let widths = cast(&column(widths, rows)?, &ColumnType::Interval.arrow())?;
            let widths = widths.as_primitive::<IntervalMonthDayNanoType>();
            let moments = micros(&column(moments, rows)?, ty)?;
            let origins = micros(&column(origins, rows)?, ty)?;
            let begins = TimestampMicrosecondArray::from(begins(widths, &moments, &origins, rows)?);
            let begins: ArrayRef = match ty {
                ColumnType::Timestamp => Arc::new(begins),
                _ => Arc::new(begins.with_timezone("UTC")),
            };
            Ok(begins)
        })
    }
}

/// An argument as a column; a constant as a column of one row.
fn column(argument: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    argument.to_array(if matches!(argument, ColumnarValue::Scalar(_)) { 1 } else { rows })
}

fn begins(
    widths: &IntervalMonthDayNanoArray,
    moments: &Int64Array,
    origins: &Int64Array,
    rows: usize,
) -> Result<Vec<Option<i64>>, SqlError> {
    // The one row of a constant stands for all.
    let place = |column: &dyn Array, row: usize| if column.len() == rows { row } else { 0 };
    let begin = |row: usize| {
        let (width, moment, origin) = (place(widths, row), place(moments, row), place(origins, row));
        if widths.is_null(width) || moments.is_null(moment) || origins.is_null(origin) {
            return Ok(None);
        }
        begin(widths.value(width), moments.value(moment), origins.value(origin)).map(Some)
    };
    (0..rows).map(begin).collect()
}

/// Where the bin of a moment begins; both are microseconds.
fn begin(width: IntervalMonthDayNano, moment: i64, origin: i64) -> Result<i64, SqlError> {
    if is_infinite(moment) {
        return Ok(moment);
    }
    if is_infinite(origin) {
        return Err(overflow("origin out of range"));
    }
    let width = micros_wide(width)?;
    let since = moment.checked_sub(origin).ok_or_else(|| overflow("interval out of range"))?;
    let begin = moment.checked_sub(since.rem_euclid(width));
    begin.filter(|&begin| is_timestamp(begin)).ok_or_else(out_of_range)
}

/// # Errors
/// `0A000` if it has months, `22008` if it is too wide, or has no width.
fn micros_wide(width: IntervalMonthDayNano) -> Result<i64, SqlError> {
    if width.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(SqlState::FeatureNotSupported, message));
    }
    let days = i64::from(width.days).checked_mul(MICROS_PER_DAY);
    let micros = days.and_then(|days| days.checked_add(width.nanoseconds / NANOS_PER_MICRO));
    let micros = micros.ok_or_else(|| overflow("interval out of range"))?;
    if micros > 0 { Ok(micros) } else { Err(overflow("stride must be greater than zero")) }
}
