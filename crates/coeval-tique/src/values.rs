// SPDX-License-Identifier: Apache-2.0
//! Rows that an INSERT writes out: constants whose value in a column is beyond doubt need no query of the engine.
//!
//! | column | constant |
//! |---|---|
//! | integers | digits, with a sign, in the type's range |
//! | numeric | digits, with no more behind the point than the column has |
//! | text, varchar, char | a text |
//! | date, timestamp | `DATE '...'`, `TIMESTAMP '...'` with milliseconds at most, which all engines keep |
//! | boolean | true, false |
//! | bytea | a text of hexadecimal digits behind `\x` |
//! | all | NULL |
//!
//! Everything else, and columns that are left to a DEFAULT, is for the engine to compute.

use crate::catalog::Table;
use crate::engine::Integers;
use crate::error::{Result, SqlState, TiqueError};
use crate::literal::Row;
use crate::packed::bits;
use crate::schema::Column;
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Query, SetExpr, TimezoneInfo, TypedString, UnaryOperator, Value,
};
use std::ops::RangeInclusive;

/// The rows of VALUES for these columns of a table, if all is constant and no CHECK has to be computed.
pub(crate) fn constant_rows(table: &Table, columns: &[usize], source: &Query) -> Option<Vec<Row>> {
    let SetExpr::Values(values) = &*source.body else { return None };
    let is_plain = source.with.is_none() && source.order_by.is_none() && source.limit_clause.is_none();
    let definition = &table.definition;
    let is_default = |place: usize| !columns.contains(&place) && definition.columns[place].default.is_some();
    if !is_plain || !definition.checks.is_empty() || (0..definition.columns.len()).any(is_default) {
        return None;
    }
    let nulls = || -> Option<Row> {
        let of = |place: usize| ScalarValue::try_from(table.rows.field(place).data_type()).ok();
        (0..definition.columns.len()).map(of).collect()
    };
    let row = |values: &Vec<Expr>| {
        let mut row = nulls()?;
        if values.len() != columns.len() {
            return None;
        }
        for (value, &place) in values.iter().zip(columns) {
            let kind = table.rows.field(place).data_type();
            row[place] = constant(value, &definition.columns[place], kind)?;
        }
        Some(row)
    };
    values.rows.iter().map(|values| row(values)).collect()
}

/// Refuses integers and texts of VALUES that their columns of integers cannot hold: engines have many words for that.
///
/// # Errors
/// 22003, 22P02.
pub(crate) fn check_integers(
    table: &Table,
    columns: &[usize],
    source: &Query,
    integers: Integers,
) -> Result<()> {
    let SetExpr::Values(values) = &*source.body else { return Ok(()) };
    for row in &values.rows {
        for (value, &place) in row.iter().zip(columns) {
            let column = &table.definition.columns[place];
            if let Some(bits) = bits(column) {
                let most = i128::from(i64::MAX >> (64 - bits));
                let least = if integers == Integers::Whole { -most - 1 } else { -most };
                check_integer(value, column, &(least..=most))?;
            }
        }
    }
    Ok(())
}

fn check_integer(value: &Expr, column: &Column, range: &RangeInclusive<i128>) -> Result<()> {
    let (text, sign) = match value {
        Expr::Nested(inner) => return check_integer(inner, column, range),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => (&**expr, -1),
        other => (other, 1),
    };
    let Expr::Value(text) = text else { return Ok(()) };
    match &text.value {
        Value::Number(digits, _) => match digits.parse::<i128>() {
            Ok(number) if !range.contains(&(sign * number)) => Err(TiqueError::new(
                SqlState::OutOfRange,
                format!("{value} is out of range for type {}", column.kind),
            )),
            // Fractions are rounded by the engine.
            _ => Ok(()),
        },
        Value::SingleQuotedString(word) if word.trim().parse::<i128>().is_err() => {
            let message = format!("invalid input syntax for type {}: \"{word}\"", column.kind);
            Err(TiqueError::new(SqlState::InvalidText, message))
        }
        _ => Ok(()),
    }
}

/// The value that a constant has in a column, if that is beyond doubt.
fn constant(value: &Expr, column: &Column, kind: &ArrowType) -> Option<ScalarValue> {
    match value {
        Expr::Nested(inner) => constant(inner, column, kind),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match &**expr {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) => number(&format!("-{digits}"), column, kind),
                _ => None,
            },
            _ => None,
        },
        Expr::Value(value) => match (&value.value, &column.kind) {
            (Value::Null, _) => ScalarValue::try_from(kind).ok(),
            (Value::Number(digits, _), _) => number(digits, column, kind),
            (Value::SingleQuotedString(_), DataType::Bytea) => {
                let bytes = bytes_of(&Expr::Value(value.clone()))?;
                ScalarValue::Binary(Some(bytes)).cast_to(kind).ok()
            }
            (Value::Boolean(value), DataType::Boolean | DataType::Bool) => Some(ScalarValue::from(*value)),
            (
                Value::SingleQuotedString(text),
                DataType::Text
                | DataType::Varchar(_)
                | DataType::CharVarying(_)
                | DataType::CharacterVarying(_)
                | DataType::Char(_)
                | DataType::Character(_),
            ) => ScalarValue::from(column.kept(text)).cast_to(kind).ok(),
            _ => None,
        },
        Expr::TypedString(TypedString { data_type, value, .. }) => match &value.value {
            Value::SingleQuotedString(text) => moment(data_type, text, column, kind),
            _ => None,
        },
        _ => None,
    }
}

/// The bytes that a text of hexadecimal digits behind `\x` means.
pub(crate) fn bytes_of(value: &Expr) -> Option<Vec<u8>> {
    let text = match value {
        Expr::Nested(inner) => return bytes_of(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text,
            _ => return None,
        },
        _ => return None,
    };
    let digits = text.strip_prefix("\\x").filter(|digits| digits.is_ascii() && digits.len() % 2 == 0)?;
    let places = (0..digits.len()).step_by(2);
    places.map(|place| u8::from_str_radix(&digits[place..place + 2], 16).ok()).collect()
}

/// The text of a moment of the world with the minutes of its offset, if it has the hours alone: MonetDB wants them.
pub(crate) fn with_minutes(value: &Expr, kind: &DataType) -> Option<Expr> {
    let DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) = kind else { return None };
    let text = match value {
        Expr::Nested(inner) => return with_minutes(inner, kind),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text,
            _ => return None,
        },
        _ => return None,
    };
    let (time, hours) = text.rsplit_once(['+', '-']).filter(|(time, _)| time.contains(':'))?;
    let is_short = hours.len() == 2 && hours.bytes().all(|byte| byte.is_ascii_digit());
    let sign = &text[time.len()..=time.len()];
    is_short
        .then(|| Expr::Value(Value::SingleQuotedString(format!("{time}{sign}{hours}:00")).with_empty_span()))
}

/// Digits, as an integer or a decimal.
fn number(digits: &str, column: &Column, kind: &ArrowType) -> Option<ScalarValue> {
    match (&column.kind, kind) {
        (
            DataType::SmallInt(_) | DataType::Int(_) | DataType::Integer(_) | DataType::BigInt(_),
            ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64,
        ) => {
            let number: i64 = digits.parse().ok()?;
            Some(match kind {
                ArrowType::Int16 => ScalarValue::from(i16::try_from(number).ok()?),
                ArrowType::Int32 => ScalarValue::from(i32::try_from(number).ok()?),
                _ => ScalarValue::from(number),
            })
        }
        (DataType::Numeric(_) | DataType::Decimal(_), ArrowType::Decimal128(precision, scale)) => {
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            let zeros = usize::try_from(*scale).ok()?.checked_sub(fraction.len())?;
            let unscaled: i128 = format!("{whole}{fraction}{}", "0".repeat(zeros)).parse().ok()?;
            let fits = unscaled.unsigned_abs() < 10_u128.checked_pow(u32::from(*precision))?;
            fits.then_some(ScalarValue::Decimal128(Some(unscaled), *precision, *scale))
        }
        _ => None,
    }
}

/// A date or a timestamp without zone.
fn moment(written: &DataType, text: &str, column: &Column, kind: &ArrowType) -> Option<ScalarValue> {
    let has_shape = |shape: &str| {
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(given, wanted)| match wanted {
                b'0' => given.is_ascii_digit(),
                other => given == other,
            })
    };
    let is_kept = match (written, &column.kind) {
        (DataType::Date, DataType::Date) => has_shape("0000-00-00"),
        (
            DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone),
            DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone),
        ) => has_shape("0000-00-00 00:00:00") || has_shape("0000-00-00 00:00:00.000"),
        _ => false,
    };
    if !is_kept {
        return None;
    }
    // What is no date becomes NULL in a cast; the engine refuses it.
    ScalarValue::from(text).cast_to(kind).ok().filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{parse, parse_query};
    use crate::schema::Definition;
    use arrow::datatypes::{Field, Schema, TimeUnit};
    use datafusion::sql::sqlparser::ast::Statement;
    use std::sync::Arc;

    fn table() -> Table {
        let sql =
            "CREATE TABLE t (k int PRIMARY KEY, n numeric(4, 2), v varchar(3), at timestamp, b boolean)";
        let Some(Statement::CreateTable(create)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
        let at = ArrowType::Timestamp(TimeUnit::Microsecond, None);
        let kinds = [ArrowType::Int32, ArrowType::Decimal128(4, 2), ArrowType::Utf8, at, ArrowType::Boolean];
        let fields: Vec<_> = kinds.into_iter().map(|kind| Field::new("c", kind, true)).collect();
        Table::new(Definition::of(&create).unwrap(), Arc::new(Schema::new(fields)), 0)
    }

    fn rows(columns: &[usize], values: &str) -> Option<Vec<Vec<String>>> {
        let rows = constant_rows(&table(), columns, &parse_query(&format!("VALUES {values}")).unwrap())?;
        Some(rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect())
    }

    #[test]
    fn constants_have_the_values_of_their_columns() {
        let at = "TIMESTAMP '2020-02-29 12:30:00.125'";
        let row = rows(&[0, 1, 2, 3, 4], &format!("(-7, 1.5, 'four', {at}, true)")).unwrap();
        assert_eq!(row[0], ["-7", "1.50", "four", "1582979400125000", "true"]);
        let row = rows(&[1, 0], "(NULL, 2147483647)").unwrap();
        assert_eq!(row[0][..3], ["2147483647", "NULL", "NULL"]);
    }

    #[test]
    fn what_no_integer_column_holds_is_refused() {
        let state = |value: &str, integers| {
            let source = parse_query(&format!("VALUES ({value})")).unwrap();
            check_integers(&table(), &[0], &source, integers).err().map(|error| error.state)
        };
        let narrow = Integers::Narrow("HUGEINT");
        for (value, whole, of_narrow) in [
            ("2147483647", None, None),
            ("2147483648", Some(SqlState::OutOfRange), Some(SqlState::OutOfRange)),
            ("-2147483647", None, None),
            ("(-2147483648)", None, Some(SqlState::OutOfRange)),
            ("-2147483649", Some(SqlState::OutOfRange), Some(SqlState::OutOfRange)),
            ("' 7 '", None, None),
            ("'7.5'", Some(SqlState::InvalidText), Some(SqlState::InvalidText)),
            ("7.5", None, None),
            ("NULL", None, None),
            ("1 + 2147483647", None, None),
        ] {
            assert_eq!((state(value, Integers::Whole), state(value, narrow)), (whole, of_narrow), "{value}");
        }
    }

    #[test]
    fn what_is_in_doubt_is_left_to_the_engine() {
        for value in ["2147483648", "1.5", "'7'", "1 + 1", "DEFAULT", "current_date"] {
            assert_eq!(rows(&[0], &format!("({value})")), None, "{value} as int");
        }
        for value in ["100", "1.005", "'1'"] {
            assert_eq!(rows(&[1], &format!("({value})")), None, "{value} as numeric(4, 2)");
        }
        for value in
            ["'2020-02-29'", "TIMESTAMP '2020-02-30 00:00:00'", "TIMESTAMP '2020-02-29 12:30:00.1234'"]
        {
            assert_eq!(rows(&[3], &format!("({value})")), None, "{value} as timestamp");
        }
        assert_eq!(rows(&[0, 1], "(1)"), None);
    }
}
