// SPDX-License-Identifier: Apache-2.0
//! Names, as they are compared and as they stand in SQL that we write.

use datafusion::sql::sqlparser::ast::Ident;

/// An identifier as it is compared: lower case unless quoted.
pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// A name as it stands in SQL that we write.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
