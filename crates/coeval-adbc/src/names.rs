// SPDX-License-Identifier: Apache-2.0
//! Names and texts as SQL writes them.

/// The name of the only catalog that there is.
pub(crate) const CATALOG: &str = "coeval";

/// A name as SQL writes it, whatever is in it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL writes it, whatever is in it.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A relation's name, with its schema if one is given.
pub(crate) fn relation(schema: Option<&str>, name: &str) -> String {
    match schema {
        Some(schema) => format!("{}.{}", quoted(schema), quoted(name)),
        None => quoted(name),
    }
}
