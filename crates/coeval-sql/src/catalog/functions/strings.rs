// SPDX-License-Identifier: Apache-2.0
//! Functions of text that DataFusion has not: quoting, type names of values.

use super::{Entry, Gives, called, strict};
use crate::catalog::identifiers::{literal, quoted};
use crate::catalog::types::facts_of_arrow;
use crate::types::column_type_of_arrow;
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
        let ty = call.arguments[0].data_type();
        if let Some(known) = column_type_of_arrow(&ty).filter(|known| known.user_type().is_some()) {
            return Ok(known.to_string().into());
        }
        let oid = facts_of_arrow(&ty).oid;
        Ok(super::type_names::formatted(oid, None).into())
    }),
    strict("coeval_like_pattern", 2..=2, Gives::Text, |call| {
        Ok(like_pattern(call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default()).into())
    }),
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
