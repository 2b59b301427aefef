// SPDX-License-Identifier: Apache-2.0
//! Functions of text that DataFusion has not: quoting, type names of values.

use super::{Call, Entry, Gives, called, strict};
use crate::catalog::identifiers::{literal, quoted};
use crate::catalog::rows::Cell;
use crate::catalog::types::facts_of_arrow;
use crate::error::{SqlError, SqlState};
use datafusion::common::ScalarValue;

pub(super) const ENTRIES: &[Entry] = &[
    strict("quote_ident", 1..=1, Gives::Text, |call| Ok(call.text(0).map(quoted).into())),
    strict("quote_literal", 1..=1, Gives::Text, |call| {
        Ok(text(&call.arguments[0]).map(|text| literal(&text)).into())
    }),
    called("quote_nullable", 1..=1, Gives::Text, |call| {
        Ok(text(&call.arguments[0]).map_or_else(|| "NULL".to_owned(), |text| literal(&text)).into())
    }),
    called("pg_typeof", 1..=1, Gives::Text, |call| {
        let oid = facts_of_arrow(&call.arguments[0].data_type()).oid;
        Ok(super::type_names::formatted(oid, None).into())
    }),
    strict("coeval_like_pattern", 2..=2, Gives::Text, |call| {
        Ok(like_pattern(call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default()).into())
    }),
    called("format", 1..=20, Gives::Text, format),
];

fn text(value: &ScalarValue) -> Option<String> {
    (!value.is_null()).then(|| match value.try_as_str() {
        Some(Some(text)) => text.to_owned(),
        _ => value.to_string(),
    })
}

/// A pattern of LIKE with another escape than the backslash, written with that.
fn like_pattern(pattern: &str, escape: &str) -> String {
    let escape = escape.chars().next();
    let mut written = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if Some(letter) == escape {
            written.push('\\');
            written.extend(letters.next());
        } else if letter == '\\' {
            written.push_str("\\\\");
        } else {
            written.push(letter);
        }
    }
    written
}

/// `format('%s %I %L %%', ...)`, with `%1$s` for a place.
fn format(call: &Call<'_>) -> Result<Cell, SqlError> {
    let invalid = |message: String| SqlError::new(SqlState::InvalidParameterValue, message);
    let Some(pattern) = call.text(0) else { return Ok(Cell::Null) };
    let (mut written, mut next) = (String::new(), 1);
    let mut rest = pattern;
    while let Some(start) = rest.find('%') {
        written.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let place_end = rest
            .find('$')
            .filter(|end| !rest[..*end].is_empty() && rest[..*end].bytes().all(|byte| byte.is_ascii_digit()));
        if let Some(end) = place_end {
            next = rest[..end].parse().map_err(|_| invalid("number is out of range".to_owned()))?;
            rest = &rest[end + 1..];
        }
        let Some(kind) = rest.chars().next() else {
            return Err(invalid("unterminated format() type specifier".to_owned()));
        };
        rest = &rest[kind.len_utf8()..];
        if kind == '%' {
            written.push('%');
            continue;
        }
        let Some(argument) = call.arguments.get(next) else {
            return Err(invalid("too few arguments for format()".to_owned()));
        };
        next += 1;
        match (kind, text(argument)) {
            ('s', value) => written.push_str(&value.unwrap_or_default()),
            ('I', Some(value)) => written.push_str(&quoted(&value)),
            ('I', None) => {
                return Err(invalid("null values cannot be formatted as an SQL identifier".to_owned()));
            }
            ('L', value) => {
                written.push_str(&value.map_or_else(|| "NULL".to_owned(), |value| literal(&value)))
            }
            (other, _) => return Err(invalid(format!("unrecognized format() type specifier \"{other}\""))),
        }
    }
    written.push_str(rest);
    Ok(written.into())
}
