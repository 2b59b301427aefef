// SPDX-License-Identifier: Apache-2.0
//! Calls that fit no function, of which DataFusion tells in several forms, in PostgreSQL's words.

use super::datafusion::type_name;
use crate::error::{SqlError, SqlState};

/// What PostgreSQL does not call functions: their operands are brought to one type.
const OF_ONE_TYPE: [(&str, &str); 4] =
    [("make_array", "ARRAY"), ("coalesce", "COALESCE"), ("greatest", "GREATEST"), ("least", "LEAST")];

/// `42883` with the name of the function and the types that it was called with, `42804` for what takes operands of one type; `None` if
/// the text tells of something else.
pub(super) fn unmatched(text: &str) -> Option<SqlError> {
    let (name, types) = call_in(text)?;
    // What the user has called has another name.
    if name.starts_with("coeval_") {
        return None;
    }
    let types: Vec<String> = parts(types).map(named).collect();
    if let Some((_, words)) = OF_ONE_TYPE.iter().find(|(function, _)| *function == name) {
        let message = format!("{words} types {} cannot be matched", types.join(" and "));
        return Some(SqlError::new(SqlState::DatatypeMismatch, message));
    }
    let message = format!("function {name}({}) does not exist", types.join(", "));
    Some(SqlError::new(SqlState::UndefinedFunction, message).with_hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    ))
}

/// The name of a function, and types with commas between them.
fn call_in(text: &str) -> Option<(&str, &str)> {
    let behind = |words: &str| text.split_once(words).map(|(_, rest)| rest);
    if let Some(rest) = behind("No function matches the given name and argument types '") {
        let (call, _) = rest.split_once("'. You might")?;
        return call.strip_suffix(')')?.split_once('(');
    }
    if let Some(rest) = behind("Failed to coerce arguments to satisfy a call to '") {
        let (name, rest) = rest.split_once("' function: coercion from ")?;
        return Some((name, rest.split_once(" to the signature ")?.0));
    }
    // Which of the arguments it is about is not told; most of these functions have one.
    let (name, rest) = behind("Function '")?.split_once("' failed to match any signature")?;
    let (_, rest) = rest.split_once("(DataType: ")?;
    Some((name, rest.split_once(").")?.0))
}

/// The parts between commas, but for those within parentheses.
fn parts(types: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let is_end = move |letter: char| {
        match letter {
            '(' | '<' => depth += 1,
            ')' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    };
    types.split(is_end).map(str::trim).filter(|part| !part.is_empty())
}

/// PostgreSQL's name of a type.
fn named(ty: &str) -> String {
    if let Some(element) = ty.strip_prefix("List(").and_then(|rest| rest.strip_suffix(')')) {
        return format!("{}[]", named(element.rsplit_once(": ").map_or(element, |(_, element)| element)));
    }
    match ty {
        "Binary" | "LargeBinary" | "BinaryView" => "bytea".to_owned(),
        "Null" => "unknown".to_owned(),
        ty if ty.starts_with("Struct(") => "record".to_owned(),
        ty => type_name(ty).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::unmatched;

    #[test]
    fn calls_are_told_by_name_and_types() {
        for (text, message) in [
            (
                "Internal error: Function 'sum' failed to match any signature, errors: Error during planning: Function 'sum' \
                 requires Decimal, but received String (DataType: Utf8View).,Error during planning: Function 'sum' requires \
                 UInt64, but received String (DataType: Utf8View).",
                "function sum(text) does not exist",
            ),
            (
                "Function 'percentile_cont' requires Float64, but received List(Decimal(2, 2)). No function matches the given \
                 name and argument types 'percentile_cont(Decimal128(10, 2), List(Decimal128(2, 2)))'. You might need to add \
                 explicit type casts.\n\tCandidate functions:",
                "function percentile_cont(numeric, numeric[]) does not exist",
            ),
            (
                "Failed to coerce arguments to satisfy a call to 'substr' function: coercion from BinaryView, Int64 to the \
                 signature OneOf([..]) failed",
                "function substr(bytea, bigint) does not exist",
            ),
        ] {
            assert_eq!(unmatched(text).expect("it tells of a call").message, message);
        }
        assert!(unmatched("Failed to coerce arguments").is_none());
        assert!(
            unmatched(
                "Function 'coeval_json_elements' failed to match any signature, errors: (DataType: Int32)."
            )
            .is_none()
        );
    }
}
