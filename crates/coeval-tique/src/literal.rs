// SPDX-License-Identifier: Apache-2.0
//! Values as SQL text, and as the text of a key.

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::DataType;

/// A row: a value for each column.
pub(crate) type Row = Vec<ScalarValue>;

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// A value as a literal of a column's type.
pub(crate) fn literal(value: &ScalarValue, kind: &DataType) -> String {
    if value.is_null() {
        return format!("CAST(NULL AS {kind})");
    }
    match value {
        ScalarValue::Boolean(_)
        | ScalarValue::Int8(_)
        | ScalarValue::Int16(_)
        | ScalarValue::Int32(_)
        | ScalarValue::UInt8(_)
        | ScalarValue::UInt16(_)
        | ScalarValue::UInt32(_)
        | ScalarValue::UInt64(_) => value.to_string(),
        // The smallest integer is no literal: its sign is an operator.
        ScalarValue::Int64(Some(number)) if *number != i64::MIN => number.to_string(),
        ScalarValue::Utf8(Some(value))
        | ScalarValue::LargeUtf8(Some(value))
        | ScalarValue::Utf8View(Some(value)) => text(value),
        other => format!("CAST({} AS {kind})", text(&printed(other))),
    }
}

/// A value as text: equal for equal values of one type.
pub(crate) fn printed(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Float64(Some(0.0)) | ScalarValue::Float32(Some(0.0)) => "0".to_owned(),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => text.clone(),
        other => {
            let array = other
                .to_array()
                .and_then(|array| arrow::util::display::array_value_to_string(&array, 0).map_err(Into::into));
            array.unwrap_or_else(|_| other.to_string())
        }
    }
}

/// The values of these columns as one text that no other values have: 3.2.5's key.
pub(crate) fn joined(row: &Row, columns: &[usize]) -> String {
    let mut key = String::new();
    for (place, &column) in columns.iter().enumerate() {
        if place > 0 {
            key.push('.');
        }
        for character in printed(&row[column]).chars() {
            if matches!(character, '.' | '\\') {
                key.push('\\');
            }
            key.push(character);
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[&str]) -> Row {
        values.iter().map(|value| ScalarValue::from(*value)).collect()
    }

    #[test]
    fn different_keys_have_different_texts() {
        let keys = [["a.b", "c"], ["a", "b.c"], ["a\\", ".b"], ["a\\.", "b"], ["a", "b"]];
        let texts: std::collections::HashSet<_> = keys.iter().map(|key| joined(&row(key), &[0, 1])).collect();
        assert_eq!(texts.len(), keys.len());
        assert_eq!(joined(&vec![ScalarValue::from(4), ScalarValue::from(1234_i64)], &[0, 1]), "4.1234");
        assert_eq!(joined(&vec![ScalarValue::from(-0.0)], &[0]), joined(&vec![ScalarValue::from(0.0)], &[0]));
    }

    #[test]
    fn text_cannot_leave_its_quotes() {
        assert_eq!(literal(&ScalarValue::from("a'; --"), &DataType::Text), "'a''; --'");
        assert_eq!(literal(&ScalarValue::Int64(None), &DataType::BigInt(None)), "CAST(NULL AS BIGINT)");
        assert_eq!(
            literal(&ScalarValue::from(i64::MIN), &DataType::BigInt(None)),
            format!("CAST('{}' AS BIGINT)", i64::MIN)
        );
    }
}
