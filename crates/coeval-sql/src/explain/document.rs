// SPDX-License-Identifier: Apache-2.0
//! What EXPLAIN tells as a JSON document, in the shape of PostgreSQL's: nodes below `Plan`, each with its `Node Type`
//! and those below it in `Plans`. What a line says behind its colon is the node's `Details`.

use super::{Explained, milliseconds, result};
use crate::error::SqlError;
use crate::result::StatementResult;
use coeval_store::ColumnType;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The one row with the document.
///
/// # Errors
/// If it cannot be written: a bug.
pub(super) fn row(explained: &Explained) -> Result<StatementResult, SqlError> {
    let mut query = Map::new();
    query.insert("Plan".to_owned(), plan(&explained.lines));
    if let Some(measured) = &explained.measured {
        query.insert("Planning Time".to_owned(), json!(to_micros(measured.planning)));
        query.insert("Execution Time".to_owned(), json!(to_micros(measured.execution)));
        query.insert("Result".to_owned(), json!(measured.tag.to_string()));
    }
    let document = serde_json::to_string_pretty(&json!([query]));
    let document = document.map_err(|error| SqlError::internal(error.to_string()))?;
    result(vec![document], ColumnType::Json)
}

/// Milliseconds with three digits behind the point.
fn to_micros(time: Duration) -> f64 {
    (milliseconds(time) * 1e3).round() / 1e3
}

/// The tree of the lines; others on the level of the first one stand below it.
fn plan(lines: &[String]) -> Value {
    let Some((first, below)) = lines.split_first() else { return Value::Null };
    node(first, below)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A line with those below it.
fn node(line: &str, below: &[String]) -> Value {
    let (ty, details) = line.trim().split_once(':').unwrap_or((line.trim(), ""));
    let mut node = Map::new();
    node.insert("Node Type".to_owned(), json!(ty));
    if !details.trim().is_empty() {
        node.insert("Details".to_owned(), json!(details.trim()));
    }
    let mut plans = Vec::new();
    let mut rest = below;
    while let Some((first, others)) = rest.split_first() {
        let count = others.iter().take_while(|other| indentation(other) > indentation(first)).count();
        let (own, behind) = others.split_at(count);
        plans.push(self::node(first, own));
        rest = behind;
    }
    if !plans.is_empty() {
        node.insert("Plans".to_owned(), Value::Array(plans));
    }
    Value::Object(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_indented_stands_below() {
        let lines = ["Path:", "  A: x=1, y: 2", "    B", "    C: z", "  D"].map(str::to_owned);
        let below_a = json!([{"Node Type": "B"}, {"Node Type": "C", "Details": "z"}]);
        let a = json!({"Node Type": "A", "Details": "x=1, y: 2", "Plans": below_a});
        assert_eq!(plan(&lines), json!({"Node Type": "Path", "Plans": [a, {"Node Type": "D"}]}));
    }
}
