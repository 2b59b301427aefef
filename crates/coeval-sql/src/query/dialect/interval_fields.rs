// SPDX-License-Identifier: Apache-2.0
//! `x::interval day to minute`, an interval without what is below its last field. A literal is read by the fields as well: `'1'::interval
//! hour` is an hour.

use super::{call, is_text, text};
use crate::functions::INTERVAL_DOWN_TO;
use datafusion::sql::sqlparser::ast::{DataType, DateTimeField, Expr, Interval, IntervalFields};

/// What stands in the place of such a cast; `None` for all others.
pub(super) fn rewritten(cast: &mut Expr) -> Option<Expr> {
    let Expr::Cast { expr, data_type: DataType::Interval { fields, precision: None }, .. } = cast else {
        return None;
    };
    let (first, last) = ends_of(fields.as_ref()?);
    if let Some(literal) = literal_of(expr) {
        return Some(Expr::Interval(Interval {
            value: Box::new(literal.clone()),
            leading_field: Some(first),
            leading_precision: None,
            last_field: Some(last),
            fractional_seconds_precision: None,
        }));
    }
    *fields = None;
    let last = match last {
        DateTimeField::Year => "year",
        DateTimeField::Month => "month",
        DateTimeField::Day => "day",
        DateTimeField::Hour => "hour",
        DateTimeField::Minute => "minute",
        // There is nothing below seconds.
        _ => return None,
    };
    Some(call(INTERVAL_DOWN_TO, vec![cast.clone(), text(last)]))
}

fn literal_of(expression: &Expr) -> Option<&Expr> {
    match expression {
        Expr::Nested(inner) => literal_of(inner),
        literal => is_text(literal).then_some(literal),
    }
}

/// The first and the last one.
fn ends_of(fields: &IntervalFields) -> (DateTimeField, DateTimeField) {
    use DateTimeField::{Day, Hour, Minute, Month, Second, Year};
    match fields {
        IntervalFields::Year => (Year, Year),
        IntervalFields::Month => (Month, Month),
        IntervalFields::Day => (Day, Day),
        IntervalFields::Hour => (Hour, Hour),
        IntervalFields::Minute => (Minute, Minute),
        IntervalFields::Second => (Second, Second),
        IntervalFields::YearToMonth => (Year, Month),
        IntervalFields::DayToHour => (Day, Hour),
        IntervalFields::DayToMinute => (Day, Minute),
        IntervalFields::DayToSecond => (Day, Second),
        IntervalFields::HourToMinute => (Hour, Minute),
        IntervalFields::HourToSecond => (Hour, Second),
        IntervalFields::MinuteToSecond => (Minute, Second),
    }
}
