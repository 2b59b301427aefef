// SPDX-License-Identifier: Apache-2.0
//! The functions of JSON, and those that stand behind its operators.

use super::changes::{self, Change};
use super::containment::{contains, exists};
use super::kept_lists;
use super::operators::MEMBER;
use super::pairs::Texts;
use super::path::{Errors, Search, canonical_path, functions as path_functions};
use super::records::{Elements, array_text};
use super::written::{in_lines, push_value};
use crate::allowance::Meter;
use crate::constants::made_of;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::json::{Kind, Part, canonical, check_escapes, order_key, push_string};
use crate::types::{column_type_of_field, format_value, marked_field, session_zone};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use chrono_tz::Tz;
use coeval_store::{ColumnType, ValueRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

/// What a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gives {
    Text,
    Json,
    Jsonb,
    /// The type of its first argument.
    Same,
    Bool,
    Int,
}

/// The arguments of a function, as arrays of the same length.
struct Arguments<'a> {
    arrays: &'a [ArrayRef],
    fields: &'a [FieldRef],
    /// The session's time zone.
    zone: Tz,
    /// Counts what is made.
    meter: &'a Meter,
}

type Body = fn(&Arguments<'_>, usize) -> SqlResult<Option<Answer>>;

/// What a function gives for a row.
enum Answer {
    Text(String),
    Truth(bool),
    Number(i32),
}

struct Entry {
    name: &'static str,
    arguments: RangeInclusive<usize>,
    gives: Gives,
    body: Body,
}

const fn entry(name: &'static str, arguments: RangeInclusive<usize>, gives: Gives, body: Body) -> Entry {
    Entry { name, arguments, gives, body }
}

/// The function whose texts are in the order of documents.
pub(crate) const ORDER: &str = "coeval_jsonb_order";

/// The function that a cast to `jsonpath` is.
pub(crate) const PATH: &str = "coeval_jsonpath";

/// The function that breaks the document of a row into lines.
pub(crate) const LINES: &str = "coeval_json_lines";

/// The function that gives a member of a document as the text of an array.
pub(crate) const ARRAY_MEMBER: &str = "coeval_json_array_member";

/// The same of an array whose elements are documents.
pub(crate) const ARRAY_MEMBER_OF_DOCUMENTS: &str = "coeval_json_array_member_of_documents";

/// The function that makes an object of the columns of a row: of a name and a value for each, with a value in front that is NULL
/// only where the row is, if it may be.
pub(crate) const ROW: &str = "coeval_json_row";

/// The most arguments that a function is given.
const MANY: usize = 100;

/// The most arguments of [`ROW`]: as many columns as a query of PostgreSQL has.
const ROW_MANY: usize = 1 + 2 * 1664;

const ENTRIES: &[Entry] = &[
    entry("coeval_json_get", 2..=2, Gives::Same, |call, row| Ok(call.step(row)?.map(text))),
    entry("coeval_json_get_text", 2..=2, Gives::Text, |call, row| Ok(call.step(row)?.and_then(plain))),
    entry("coeval_json_path", 2..=2, Gives::Same, |call, row| Ok(call.path(row)?.map(text))),
    entry("coeval_json_path_text", 2..=2, Gives::Text, |call, row| Ok(call.path(row)?.and_then(plain))),
    entry("coeval_json_contains", 2..=2, Gives::Bool, |call, row| call.contains(0, 1, row)),
    entry("coeval_json_exists", 2..=2, Gives::Bool, |call, row| Ok(call.has_key(row))),
    entry("coeval_json_exists_any", 2..=2, Gives::Bool, |call, row| call.has_any(row)),
    entry("coeval_json_exists_all", 2..=2, Gives::Bool, |call, row| call.has_all(row)),
    // The functions behind PostgreSQL's operators: `?` is a parameter to some drivers.
    entry("jsonb_contains", 2..=2, Gives::Bool, |call, row| call.contains(0, 1, row)),
    entry("jsonb_contained", 2..=2, Gives::Bool, |call, row| call.contains(1, 0, row)),
    entry("jsonb_exists", 2..=2, Gives::Bool, |call, row| Ok(call.has_key(row))),
    entry("jsonb_exists_any", 2..=2, Gives::Bool, |call, row| call.has_any(row)),
    entry("jsonb_exists_all", 2..=2, Gives::Bool, |call, row| call.has_all(row)),
    entry("jsonb_set", 3..=4, Gives::Jsonb, |call, row| {
        let (Some(value), Some(creates)) = (call.given(2, row)?, call.truth(3, row).unwrap_or(Some(true)))
        else {
            return Ok(None);
        };
        call.changed(row, Change::Set { value: &value, creates })
    }),
    entry("jsonb_set_lax", 3..=5, Gives::Jsonb, set_unless_null),
    entry("jsonb_insert", 3..=4, Gives::Jsonb, |call, row| {
        let (Some(value), Some(is_after)) = (call.given(2, row)?, call.truth(3, row).unwrap_or(Some(false)))
        else {
            return Ok(None);
        };
        call.changed(row, Change::Insert { value: &value, is_after })
    }),
    entry("jsonb_delete_path", 2..=2, Gives::Jsonb, |call, row| call.changed(row, Change::Delete)),
    entry("jsonb_delete", 2..=2, Gives::Jsonb, deleted),
    entry("jsonb_strip_nulls", 1..=1, Gives::Jsonb, |call, row| {
        let Some(document) = call.given(0, row)? else { return Ok(None) };
        Ok(Some(Answer::Text(canonical(&changes::without_nulls(Part::of(&document))?)?)))
    }),
    entry("json_strip_nulls", 1..=1, Gives::Json, |call, row| {
        call.opened(row)?.map(|document| changes::without_nulls(document).map(Answer::Text)).transpose()
    }),
    entry("jsonb_pretty", 1..=1, Gives::Text, |call, row| {
        let Some(document) = call.given(0, row)? else { return Ok(None) };
        let mut out = String::new();
        changes::indented(Part::of(&document), 0, &mut out);
        Ok(Some(Answer::Text(out)))
    }),
    entry("array_to_json", 1..=2, Gives::Json, |call, row| {
        let Some(has_lines) = call.truth(1, row).unwrap_or(Some(false)) else { return Ok(None) };
        call.unless_null(row, |call| {
            let array = call.value(0, row)?;
            Ok(if has_lines { in_lines(Part::of(&array)) } else { array })
        })
    }),
    // A document of a row, and whether each of its members has a line of its own.
    entry(LINES, 2..=2, Gives::Json, |call, row| {
        let (Some(document), Some(Some(has_lines))) = (call.document(0, row), call.truth(1, row)) else {
            return Ok(None);
        };
        Ok(Some(if has_lines { Answer::Text(in_lines(document)) } else { text(document) }))
    }),
    entry(ARRAY_MEMBER, 2..=2, Gives::Text, |call, row| call.array_member(row, Elements::Values)),
    entry(ARRAY_MEMBER_OF_DOCUMENTS, 2..=2, Gives::Text, |call, row| {
        call.array_member(row, Elements::Documents)
    }),
    entry("coeval_jsonb_concat", 2..=2, Gives::Jsonb, both),
    entry("jsonb_concat", 2..=2, Gives::Jsonb, both),
    entry("json_object", 1..=2, Gives::Json, |call, row| Ok(call.of_texts(row)?.map(Answer::Text))),
    entry("jsonb_object", 1..=2, Gives::Jsonb, |call, row| {
        call.of_texts(row)?.map(|object| canonical(&object).map(Answer::Text)).transpose()
    }),
    entry(ORDER, 1..=1, Gives::Text, |call, row| {
        Ok(call.given(0, row)?.map(|document| Answer::Text(order_key(Part::of(&document)))))
    }),
    entry("json_extract_path", 2..=MANY, Gives::Json, |call, row| Ok(call.steps(row)?.map(text))),
    entry("jsonb_extract_path", 2..=MANY, Gives::Jsonb, |call, row| {
        call.jsonb_steps(row, |at| Some(text(at)))
    }),
    entry("json_extract_path_text", 2..=MANY, Gives::Text, |call, row| Ok(call.steps(row)?.and_then(plain))),
    entry("jsonb_extract_path_text", 2..=MANY, Gives::Text, |call, row| call.jsonb_steps(row, plain)),
    entry("json_typeof", 1..=1, Gives::Text, type_of),
    entry("jsonb_typeof", 1..=1, Gives::Text, type_of),
    entry("json_array_length", 1..=1, Gives::Int, length),
    entry("jsonb_array_length", 1..=1, Gives::Int, length),
    entry("to_json", 1..=1, Gives::Json, |call, row| call.unless_null(row, |call| call.value(0, row))),
    entry("to_jsonb", 1..=1, Gives::Jsonb, |call, row| {
        call.unless_null(row, |call| canonical(&call.value(0, row)?))
    }),
    entry("json_build_object", 0..=MANY, Gives::Json, |call, row| Ok(Some(Answer::Text(call.object(row)?)))),
    entry("jsonb_build_object", 0..=MANY, Gives::Jsonb, |call, row| {
        Ok(Some(Answer::Text(canonical(&call.object(row)?)?)))
    }),
    entry("json_build_array", 0..=MANY, Gives::Json, |call, row| Ok(Some(Answer::Text(call.array(row)?)))),
    entry("jsonb_build_array", 0..=MANY, Gives::Jsonb, |call, row| {
        Ok(Some(Answer::Text(canonical(&call.array(row)?)?)))
    }),
    // Of the elements of an array, behind VARIADIC.
    entry("coeval_json_build_array", 1..=1, Gives::Json, |call, row| {
        call.of_elements(row, |elements| elements.array(0))
    }),
    entry("coeval_json_build_object", 1..=1, Gives::Json, |call, row| {
        call.of_elements(row, |elements| elements.object(0))
    }),
    entry("coeval_jsonb_build_object", 1..=1, Gives::Jsonb, |call, row| {
        call.of_elements(row, |elements| canonical(&elements.object(0)?))
    }),
    entry(PATH, 1..=1, Gives::Text, |call, row| {
        call.text(0, row).map(|path| canonical_path(path).map(Answer::Text)).transpose()
    }),
    entry("jsonb_path_exists", 2..=4, Gives::Bool, |call, row| call.searched(row, None, None, exists_by)),
    entry("jsonb_path_match", 2..=4, Gives::Bool, |call, row| call.searched(row, None, None, holds_by)),
    entry("coeval_jsonb_path_exists", 2..=2, Gives::Bool, |call, row| {
        call.searched(row, Some(Errors::Silent), None, exists_by)
    }),
    entry("coeval_jsonb_path_holds", 2..=2, Gives::Bool, |call, row| {
        call.searched(row, Some(Errors::Silent), None, holds_by)
    }),
    entry("jsonb_path_query_array", 2..=4, Gives::Jsonb, |call, row| {
        call.searched(row, None, None, array_by)
    }),
    entry("jsonb_path_query_first", 2..=4, Gives::Jsonb, |call, row| {
        call.searched(row, None, None, first_by)
    }),
    // For these, dates and times without a zone are of the session's.
    entry("jsonb_path_exists_tz", 2..=4, Gives::Bool, |call, row| {
        call.searched(row, None, Some(call.zone), exists_by)
    }),
    entry("jsonb_path_match_tz", 2..=4, Gives::Bool, |call, row| {
        call.searched(row, None, Some(call.zone), holds_by)
    }),
    entry("jsonb_path_query_array_tz", 2..=4, Gives::Jsonb, |call, row| {
        call.searched(row, None, Some(call.zone), array_by)
    }),
    entry("jsonb_path_query_first_tz", 2..=4, Gives::Jsonb, |call, row| {
        call.searched(row, None, Some(call.zone), first_by)
    }),
    // What gives a document says so, though its text comes from where that is forgotten.
    entry("coeval_json_kept", 1..=1, Gives::Json, same),
    entry("coeval_jsonb_kept", 1..=1, Gives::Jsonb, same),
    entry(ROW, 0..=ROW_MANY, Gives::Json, |call, row| call.columns(row)),
    entry(MEMBER, 2..=2, Gives::Text, |call, row| call.member(row).map(|member| Some(Answer::Text(member)))),
    entry("coeval_json_members", 1..=1, Gives::Json, |call, row| {
        call.unless_null(row, |call| call.members(row))
    }),
    entry("coeval_jsonb_members", 1..=1, Gives::Jsonb, |call, row| {
        call.unless_null(row, |call| canonical(&call.members(row)?))
    }),
    // The array that the aggregates collect their values in, of JSON already.
    entry("coeval_json_collected", 1..=1, Gives::Json, |call, row| {
        call.unless_null(row, |call| call.collected(row, ", "))
    }),
    // Rows of tables stand in lines of their own.
    entry("coeval_json_rows_collected", 1..=1, Gives::Json, |call, row| {
        call.unless_null(row, |call| call.collected(row, ", \n "))
    }),
    entry("coeval_jsonb_collected", 1..=1, Gives::Jsonb, |call, row| {
        call.unless_null(row, |call| canonical(&call.collected(row, ",")?))
    }),
];

/// Whether a function of this name makes JSON of values of SQL.
pub(crate) fn writes_values(name: &str) -> bool {
    name.starts_with("to_json")
        || name == "array_to_json"
        || name.contains("_build_")
        || name == MEMBER
        || name == ROW
}

/// The function of this name.
///
/// # Errors
/// If there is none: a bug.
pub(crate) fn function(name: &str) -> SqlResult<Arc<ScalarUDF>> {
    static FUNCTIONS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
        functions().into_iter().map(|function| (function.name().to_owned(), Arc::new(function))).collect()
    });
    FUNCTIONS.get(name).cloned().ok_or_else(|| SqlError::internal(format!("there is no function {name}")))
}

/// All of them, for the engine's registry.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    let function = |entry: &'static Entry| {
        // What becomes of an instant, or of a time without a zone, depends on the session's time zone.
        let is_stable = writes_values(entry.name) || entry.name.ends_with("_tz");
        let volatility = if is_stable { Volatility::Stable } else { Volatility::Immutable };
        ScalarUDF::from(JsonFunction { entry, signature: Signature::user_defined(volatility) })
    };
    let others = super::sets::functions().chain(path_functions()).chain(kept_lists::functions());
    ENTRIES.iter().map(function).chain(others).collect()
}

/// The function that gives what it is given, and says that it is of this type; `None` for types that are no documents, and no arrays of
/// them.
pub(crate) fn keeper(ty: ColumnType) -> Option<&'static str> {
    match ty {
        ColumnType::Json => Some("coeval_json_kept"),
        ColumnType::Jsonb => Some("coeval_jsonb_kept"),
        ColumnType::Array(element) => kept_lists::keeper(element),
        _ => None,
    }
}

fn text(part: Part<'_>) -> Answer {
    Answer::Text(part.text().to_owned())
}

fn same(call: &Arguments<'_>, row: usize) -> SqlResult<Option<Answer>> {
    Ok(call.text(0, row).map(|text| Answer::Text(text.to_owned())))
}

fn plain(part: Part<'_>) -> Option<Answer> {
    part.plain().map(|text| Answer::Text(text.into_owned()))
}

fn type_of(call: &Arguments<'_>, row: usize) -> SqlResult<Option<Answer>> {
    Ok(call.document(0, row).map(|document| Answer::Text(document.kind().name().to_owned())))
}

fn length(call: &Arguments<'_>, row: usize) -> SqlResult<Option<Answer>> {
    let Some(document) = call.document(0, row) else { return Ok(None) };
    if document.kind() != Kind::Array {
        let what = if document.kind() == Kind::Object { "a non-array" } else { "a scalar" };
        let message = format!("cannot get array length of {what}");
        return Err(SqlError::new(SqlState::InvalidParameterValue, message));
    }
    Ok(i32::try_from(document.elements().count()).ok().map(Answer::Number))
}

fn exists_by(search: &Search<'_>, document: &str) -> SqlResult<Option<Answer>> {
    Ok(search.exists(document)?.map(Answer::Truth))
}

fn holds_by(search: &Search<'_>, document: &str) -> SqlResult<Option<Answer>> {
    Ok(search.holds(document)?.map(Answer::Truth))
}

fn array_by(search: &Search<'_>, document: &str) -> SqlResult<Option<Answer>> {
    let found = search.found(document)?;
    // Parts that lie within each other may be much longer together than the document.
    search.meter.workspace(found.iter().map(|value| value.len() + 2).sum())?;
    Ok(Some(Answer::Text(format!("[{}]", found.join(", ")))))
}

fn first_by(search: &Search<'_>, document: &str) -> SqlResult<Option<Answer>> {
    Ok(search.found(document)?.into_iter().next().map(|first| Answer::Text(first.into_owned())))
}

/// `||`
fn both(call: &Arguments<'_>, row: usize) -> SqlResult<Option<Answer>> {
    let (Some(left), Some(right)) = (call.given(0, row)?, call.given(1, row)?) else { return Ok(None) };
    Ok(Some(Answer::Text(concatenated(Part::of(&left), Part::of(&right))?)))
}

/// `jsonb_set_lax`: as `jsonb_set`, but the last argument says what becomes of a value that is NULL.
fn set_unless_null(call: &Arguments<'_>, row: usize) -> SqlResult<Option<Answer>> {
    let Some(creates) = call.truth(3, row).unwrap_or(Some(true)) else { return Ok(None) };
    if call.arrays[0].is_null(row) || call.arrays[1].is_null(row) {
        return Ok(None);
    }
    let treatment = if call.arrays.len() > 4 { call.text(4, row) } else { Some("use_json_null") };
    let value = call.given(2, row)?;
    match (value, treatment) {
        (_, None) => Err(SqlError::new(SqlState::InvalidParameterValue, NULL_TREATMENTS)),
        (Some(value), Some(_)) => call.changed(row, Change::Set { value: &value, creates }),
        (None, Some("use_json_null")) => call.changed(row, Change::Set { value: "null", creates }),
        (None, Some("delete_key")) => call.changed(row, Change::Delete),
        (None, Some("return_target")) => Ok(call.given(0, row)?.map(Answer::Text)),
        (None, Some("raise_exception")) => {
            let error = SqlError::new(SqlState::NullValueNotAllowed, "JSON value must not be null");
            let hint = "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL \
                        is not passed.";
            Err(error
                .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
                .with_hint(hint))
        }
        (None, Some(_)) => Err(SqlError::new(SqlState::InvalidParameterValue, NULL_TREATMENTS)),
    }
}

/// What is wrong with any other word for what becomes of NULL.
const NULL_TREATMENTS: &str = "null_value_treatment must be \"delete_key\", \"return_target\", \
                               \"use_json_null\", or \"raise_exception\"";

/// `-`: without a member, or without these, or without an element.
fn deleted(call: &Arguments<'_>, row: usize) -> SqlResult<Option<Answer>> {
    let Some(document) = call.given(0, row)? else { return Ok(None) };
    let document = Part::of(&document);
    let key = &call.arrays[1];
    if key.is_null(row) {
        return Ok(None);
    }
    let kept = match key.data_type() {
        DataType::Int64 => changes::without_element(document, key.as_primitive::<Int64Type>().value(row))?,
        DataType::List(_) => {
            let keys = call.texts(1, row)?.unwrap_or_default();
            changes::without_keys(document, &keys.into_iter().flatten().collect::<Vec<_>>())?
        }
        _ => changes::without_keys(document, &[call.text(1, row).unwrap_or_default().to_owned()])?,
    };
    Ok(Some(Answer::Text(kept)))
}

impl<'a> Arguments<'a> {
    fn text(&self, index: usize, row: usize) -> Option<&'a str> {
        let array = self.arrays.get(index)?;
        match array.data_type() {
            DataType::Utf8View if !array.is_null(row) => Some(array.as_string_view().value(row)),
            _ => None,
        }
    }

    fn document(&self, index: usize, row: usize) -> Option<Part<'a>> {
        self.text(index, row).map(Part::of)
    }

    /// A document that may be a literal: then it is looked at here.
    fn given(&self, index: usize, row: usize) -> SqlResult<Option<String>> {
        let Some(text) = self.text(index, row) else { return Ok(None) };
        crate::types::parse_value(text, ColumnType::Json, Tz::UTC)?;
        canonical(text).map(Some)
    }

    /// The document that something is looked for in. What it writes by escapes has to be characters.
    fn opened(&self, row: usize) -> SqlResult<Option<Part<'a>>> {
        let document = self.document(0, row);
        document.map_or(Ok(()), |document| check_escapes(document.text()))?;
        Ok(document)
    }

    /// The member that the second argument names, as the text of an array.
    fn array_member(&self, row: usize, elements: Elements) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(key)) = (self.opened(row)?, self.text(1, row)) else { return Ok(None) };
        Ok(array_text(document, key, elements)?.map(Answer::Text))
    }

    /// The object of one array of texts, or of two.
    fn of_texts(&self, row: usize) -> SqlResult<Option<String>> {
        let array = |index: usize| -> SqlResult<Option<Texts>> {
            let array = &self.arrays[index];
            match array.as_list_opt::<i32>() {
                _ if array.is_null(row) => Ok(None),
                Some(lists) => Texts::of_list(&lists.value(row)).map(Some),
                None => self.text(index, row).map(Texts::read).transpose(),
            }
        };
        let Some(first) = array(0)? else { return Ok(None) };
        if self.arrays.len() == 1 {
            return first.object().map(Some);
        }
        array(1)?.map(|values| first.object_with(&values)).transpose()
    }

    /// Whether one argument contains the other.
    fn contains(&self, whole: usize, part: usize, row: usize) -> SqlResult<Option<Answer>> {
        let (Some(whole), Some(part)) = (self.jsonb(whole, row)?, self.jsonb(part, row)?) else {
            return Ok(None);
        };
        let is_there = contains(Part::of(&whole), Part::of(&part), self.meter)?;
        Ok(Some(Answer::Truth(is_there)))
    }

    /// Whether the document has a key or a text of the second argument.
    fn has_key(&self, row: usize) -> Option<Answer> {
        let (document, key) = (self.document(0, row)?, self.text(1, row)?);
        Some(Answer::Truth(exists(document, key)))
    }

    /// Whether it has any of the keys.
    fn has_any(&self, row: usize) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(keys)) = (self.document(0, row), self.texts(1, row)?) else {
            return Ok(None);
        };
        Ok(Some(Answer::Truth(self.is_any(&keys, |key| exists(document, key))?)))
    }

    /// Whether it has all of the keys.
    fn has_all(&self, row: usize) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(keys)) = (self.document(0, row), self.texts(1, row)?) else {
            return Ok(None);
        };
        Ok(Some(Answer::Truth(!self.is_any(&keys, |key| !exists(document, key))?)))
    }

    /// What a search gives by the path of the second argument in the document of the first one, with the values of its variables
    /// and whether errors are left unsaid as the third and the fourth. NULL if one of them is. Dates and times without a zone are of
    /// this one.
    fn searched(
        &self,
        row: usize,
        errors: Option<Errors>,
        zone: Option<Tz>,
        answer: fn(&Search<'_>, &str) -> SqlResult<Option<Answer>>,
    ) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(path)) = (self.jsonb(0, row)?, self.text(1, row)) else { return Ok(None) };
        let variables = match self.arrays.get(2) {
            // The operators have none.
            None if errors.is_some() => None,
            None => Some(Cow::Borrowed("{}")),
            Some(_) => match self.jsonb(2, row)? {
                None => return Ok(None),
                variables => variables,
            },
        };
        let errors = match (errors, self.truth(3, row)) {
            (Some(errors), _) => errors,
            (None, None | Some(Some(false))) => Errors::Told,
            (None, Some(Some(true))) => Errors::Silent,
            (None, Some(None)) => return Ok(None),
        };
        answer(&Search { path, variables: variables.as_deref(), errors, zone, meter: self.meter }, &document)
    }

    /// A document as `jsonb` is written: one that is a `jsonb` is so already.
    fn jsonb(&self, index: usize, row: usize) -> SqlResult<Option<Cow<'a, str>>> {
        if self.is_jsonb(index) {
            return Ok(self.text(index, row).map(Cow::Borrowed));
        }
        Ok(self.given(index, row)?.map(Cow::Owned))
    }

    /// What one step of the second argument leads to.
    fn step(&self, row: usize) -> SqlResult<Option<Part<'a>>> {
        let (Some(document), Some(key)) = (self.opened(row)?, self.arrays.get(1)) else { return Ok(None) };
        Ok(match key.data_type() {
            DataType::Int64 if !key.is_null(row) => {
                let place = key.as_primitive::<Int64Type>().value(row);
                match document.kind() {
                    Kind::Array => document.element(place),
                    Kind::Object => None,
                    // PostgreSQL keeps such a document as an array of one element.
                    _ => (matches!(place, 0 | -1) && self.is_jsonb(0)).then_some(document),
                }
            }
            _ if document.kind() == Kind::Object => self.text(1, row).and_then(|name| document.member(name)),
            _ => None,
        })
    }

    /// Whether an argument is neither an array nor a row nor a document.
    fn is_scalar(&self, index: usize) -> bool {
        let ty = self.fields.get(index).and_then(|field| column_type_of_field(field));
        let is_document = matches!(ty, Some(ColumnType::Json | ColumnType::Jsonb));
        let is_enum = matches!(ty, Some(ColumnType::Enum(_)));
        let is_made_of_others =
            matches!(self.arrays[index].data_type(), DataType::List(_) | DataType::Struct(_));
        !is_document && (is_enum || !is_made_of_others)
    }

    fn is_jsonb(&self, index: usize) -> bool {
        let ty = self.fields.get(index).and_then(|field| column_type_of_field(field));
        ty == Some(ColumnType::Jsonb)
    }

    /// An array of texts, or the text of one.
    fn texts(&self, index: usize, row: usize) -> SqlResult<Option<Vec<Option<String>>>> {
        Ok(Some(match self.arrays[index].data_type() {
            DataType::List(_) if !self.arrays[index].is_null(row) => {
                let list = self.arrays[index].as_list::<i32>().value(row);
                let texts = arrow::compute::cast(&list, &DataType::Utf8View)?;
                texts.as_string_view().iter().map(|text| text.map(str::to_owned)).collect()
            }
            _ => match self.text(index, row) {
                Some(text) => crate::types::array_elements(text)?,
                None => return Ok(None),
            },
        }))
    }

    /// Whether the condition holds for any of the keys.
    fn is_any(&self, keys: &[Option<String>], is_so: impl Fn(&str) -> bool) -> SqlResult<bool> {
        for key in keys.iter().flatten() {
            self.meter.look()?;
            if is_so(key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A truth value, which may be NULL; `None` if it is left out.
    fn truth(&self, index: usize, row: usize) -> Option<Option<bool>> {
        let array = self.arrays.get(index)?;
        Some(match array.data_type() {
            DataType::Boolean if !array.is_null(row) => Some(array.as_boolean().value(row)),
            _ => None,
        })
    }

    /// The document with a change at the end of the second argument's path.
    fn changed(&self, row: usize, change: Change<'_>) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(path)) = (self.given(0, row)?, self.texts(1, row)?) else {
            return Ok(None);
        };
        let steps = path.into_iter().enumerate().map(|(place, step)| {
            step.ok_or_else(|| {
                let message = format!("path element at position {} is null", place + 1);
                SqlError::new(SqlState::NullValueNotAllowed, message)
            })
        });
        let steps: Vec<String> = steps.collect::<SqlResult<_>>()?;
        changes::changed(Part::of(&document), &steps, change).map(|text| Some(Answer::Text(text)))
    }

    /// What the path of the second argument leads to: an array of texts, or its text.
    fn path(&self, row: usize) -> SqlResult<Option<Part<'a>>> {
        let Some(mut at) = self.opened(row)? else { return Ok(None) };
        let Some(steps) = self.texts(1, row)? else { return Ok(None) };
        for step in steps {
            match step.and_then(|step| at.step(&step)) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// What the arguments behind the first one lead to, one after another.
    fn steps(&self, row: usize) -> SqlResult<Option<Part<'a>>> {
        let Some(document) = self.opened(row)? else { return Ok(None) };
        Ok((1..self.arrays.len()).try_fold(document, |at, index| at.step(self.text(index, row)?)))
    }

    /// The same in a document as `jsonb` is written.
    fn jsonb_steps(&self, row: usize, answer: fn(Part<'_>) -> Option<Answer>) -> SqlResult<Option<Answer>> {
        let Some(document) = self.jsonb(0, row)? else { return Ok(None) };
        let mut keys = 1..self.arrays.len();
        let found = keys.try_fold(Part::of(&document), |at, index| at.step(self.text(index, row)?));
        Ok(found.and_then(answer))
    }

    fn unless_null(
        &self,
        row: usize,
        answer: impl FnOnce(&Self) -> SqlResult<String>,
    ) -> SqlResult<Option<Answer>> {
        if self.arrays[0].is_null(row) {
            return Ok(None);
        }
        answer(self).map(|text| Some(Answer::Text(text)))
    }

    /// An argument as JSON.
    fn value(&self, index: usize, row: usize) -> SqlResult<String> {
        let mut out = String::new();
        push_value(&self.arrays[index], row, &self.fields[index], self.zone, &mut out)?;
        Ok(out)
    }

    /// `{"a" : 1, "b" : null}`, spaced as PostgreSQL spaces it.
    fn object(&self, row: usize) -> SqlResult<String> {
        let wrong = |message: String| SqlError::new(SqlState::InvalidParameterValue, message);
        if !self.arrays.len().is_multiple_of(2) {
            return Err(wrong("argument list must have even number of elements".to_owned()));
        }
        let mut out = String::from("{");
        for index in (0..self.arrays.len()).step_by(2) {
            if self.arrays[index].is_null(row) {
                return Err(wrong(format!("argument {}: key must not be null", index + 1)));
            }
            if !self.is_scalar(index) {
                return Err(wrong("key value must be scalar, not array, composite, or json".to_owned()));
            }
            out.push_str(if index == 0 { "" } else { ", " });
            self.push_key(index, row, &mut out)?;
            out.push_str(" : ");
            push_value(&self.arrays[index + 1], row, &self.fields[index + 1], self.zone, &mut out)?;
        }
        out.push('}');
        Ok(out)
    }

    /// `{"a":1,"b":null}`, as a row is written; NULL if the argument in front of the columns is NULL, where there is one.
    fn columns(&self, row: usize) -> SqlResult<Option<Answer>> {
        let first = self.arrays.len() % 2;
        if first == 1 && self.arrays[0].is_null(row) {
            return Ok(None);
        }
        let mut out = String::from("{");
        for name in (first..self.arrays.len()).step_by(2) {
            out.push_str(if name == first { "" } else { "," });
            push_string(self.text(name, row).unwrap_or_default(), &mut out);
            out.push(':');
            push_value(&self.arrays[name + 1], row, &self.fields[name + 1], self.zone, &mut out)?;
        }
        out.push('}');
        Ok(Some(Answer::Text(out)))
    }

    fn array(&self, row: usize) -> SqlResult<String> {
        let values = (0..self.arrays.len()).map(|index| self.value(index, row));
        Ok(format!("[{}]", values.collect::<SqlResult<Vec<_>>>()?.join(", ")))
    }

    /// What is made of the elements of the only argument, an array, as if they were arguments; NULL of NULL.
    fn of_elements(
        &self,
        row: usize,
        made: fn(&Arguments<'_>) -> SqlResult<String>,
    ) -> SqlResult<Option<Answer>> {
        if self.arrays[0].is_null(row) {
            return Ok(None);
        }
        let Some(lists) = self.arrays[0].as_list_opt::<i32>() else {
            let message = "VARIADIC argument must be an array";
            return Err(SqlError::new(SqlState::DatatypeMismatch, message));
        };
        let mut list = lists.value(row);
        if list.data_type().is_string() {
            list = arrow::compute::cast(&list, &DataType::Utf8View)?;
        }
        let field = Field::new_list_field(list.data_type().clone(), true);
        let field = match column_type_of_field(&self.fields[0]) {
            Some(ColumnType::Array(element)) => marked_field(field, element.column_type()),
            _ => field,
        };
        let arrays: Vec<ArrayRef> = (0..list.len()).map(|place| list.slice(place, 1)).collect();
        let field: FieldRef = Arc::new(field);
        let fields: Vec<FieldRef> = arrays.iter().map(|_| Arc::clone(&field)).collect();
        let elements = Arguments { arrays: &arrays, fields: &fields, zone: self.zone, meter: self.meter };
        made(&elements).map(|text| Some(Answer::Text(text)))
    }

    /// The name of a member: whatever the argument is, as a string.
    fn push_key(&self, index: usize, row: usize, out: &mut String) -> SqlResult<()> {
        let Some(text) = self.text(index, row) else {
            push_string(self.value(index, row)?.trim_matches('"'), out);
            return Ok(());
        };
        match column_type_of_field(&self.fields[index]) {
            Some(ty @ ColumnType::Char(_)) => {
                let mut filled_up = String::new();
                format_value(ValueRef::Text(text), ty, self.zone, &mut filled_up);
                push_string(&filled_up, out);
            }
            _ => push_string(text, out),
        }
        Ok(())
    }

    /// `"a" : 1`.
    fn member(&self, row: usize) -> SqlResult<String> {
        if self.arrays[0].is_null(row) {
            return Err(SqlError::new(SqlState::InvalidParameterValue, "field name must not be null"));
        }
        let mut out = String::new();
        self.push_key(0, row, &mut out)?;
        out.push_str(" : ");
        push_value(&self.arrays[1], row, &self.fields[1], self.zone, &mut out)?;
        Ok(out)
    }

    /// The members that an aggregate has collected, as one object.
    fn members(&self, row: usize) -> SqlResult<String> {
        let members = self.aggregated(row)?;
        let members: Vec<_> = members.as_string_view().iter().flatten().collect();
        Ok(format!("{{ {} }}", members.join(", ")))
    }

    /// What an aggregate has collected, as texts.
    ///
    /// # Errors
    /// `42883` for what no aggregate has collected: a user knows the function's name.
    fn aggregated(&self, row: usize) -> SqlResult<ArrayRef> {
        let Some(lists) = self.arrays[0].as_list_opt::<i32>() else {
            let message = "no function of this name takes an argument that is no array";
            return Err(SqlError::new(SqlState::UndefinedFunction, message));
        };
        Ok(arrow::compute::cast(&lists.value(row), &DataType::Utf8View)?)
    }

    /// The array of what an aggregate has collected, with this between its elements.
    fn collected(&self, row: usize, between: &str) -> SqlResult<String> {
        let values = self.aggregated(row)?;
        let values: Vec<_> = values.as_string_view().iter().map(|value| value.unwrap_or("null")).collect();
        Ok(format!("[{}]", values.join(between)))
    }
}

/// `||` of two documents: of two objects the members of both, otherwise an array of the elements of both, where a document that is
/// no array counts as one element.
fn concatenated(left: Part<'_>, right: Part<'_>) -> SqlResult<String> {
    let inner = |part: Part<'_>| match part.kind() {
        Kind::Object | Kind::Array => part.text()[1..part.text().len() - 1].trim().to_owned(),
        _ => part.text().to_owned(),
    };
    let (open, close, parts) = match (left.kind(), right.kind()) {
        (Kind::Object, Kind::Object) => ('{', '}', [inner(left), inner(right)]),
        (Kind::Array, Kind::Array) => ('[', ']', [inner(left), inner(right)]),
        (Kind::Array, _) => ('[', ']', [inner(left), right.text().to_owned()]),
        (_, Kind::Array) => ('[', ']', [left.text().to_owned(), inner(right)]),
        _ => ('[', ']', [left.text().to_owned(), right.text().to_owned()]),
    };
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    canonical(&format!("{open}{}{close}", parts.join(",")))
}

struct JsonFunction {
    entry: &'static Entry,
    signature: Signature,
}

impl std::fmt::Debug for JsonFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.entry.name)
    }
}

impl PartialEq for JsonFunction {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name
    }
}

impl Eq for JsonFunction {}

impl std::hash::Hash for JsonFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.entry.name.hash(state);
    }
}

impl Gives {
    fn arrow(self) -> DataType {
        match self {
            Self::Text | Self::Json | Self::Jsonb | Self::Same => DataType::Utf8View,
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int32,
        }
    }
}

/// Whether it is one of these functions: what it gives depends on its arguments and on the session's settings alone.
pub(crate) fn is_of_settings(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<JsonFunction>().is_some()
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        self.entry.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Texts of one kind, and numbers of one; what becomes a value of JSON stays what it is.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if !self.entry.arguments.contains(&types.len()) {
            let message = format!("function {} does not exist", self.entry.name);
            return Err(SqlError::new(SqlState::UndefinedFunction, message)
                .with_hint("No function matches the given name and argument types.")
                .into());
        }
        let stays = writes_values(self.entry.name);
        Ok(types
            .iter()
            .map(|ty| match ty {
                DataType::Null | DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
                ty if ty.is_integer() && !stays => DataType::Int64,
                ty => ty.clone(),
            })
            .collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.entry.gives.arrow())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(self.entry.name, self.entry.gives.arrow(), true);
        let first =
            || arguments.arg_fields.first().and_then(|field| crate::types::column_type_of_field(field));
        let ty = match self.entry.gives {
            Gives::Json => ColumnType::Json,
            Gives::Jsonb => ColumnType::Jsonb,
            Gives::Same => first().filter(|ty| *ty == ColumnType::Jsonb).unwrap_or(ColumnType::Json),
            Gives::Text | Gives::Bool | Gives::Int => return Ok(Arc::new(field)),
        };
        Ok(Arc::new(marked_field(field, ty)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // These give what they are given: no text is copied.
        if let ([document], "coeval_json_kept" | "coeval_jsonb_kept") = (&args.args[..], self.entry.name)
            && document.data_type() == DataType::Utf8View
        {
            return Ok(document.clone());
        }
        made_of(&args.args, args.number_rows, |rows| {
            let meter = Meter::begin(&args.config_options, self.entry.name);
            let arrays: Vec<ArrayRef> =
                args.args.iter().map(|argument| meter.column(argument, rows)).collect::<Result<_>>()?;
            let zone = session_zone(&args.config_options);
            let call = Arguments { arrays: &arrays, fields: &args.arg_fields, zone, meter: &meter };
            let mut answers = Vec::with_capacity(rows);
            for row in 0..rows {
                meter.step()?;
                let answer = (self.entry.body)(&call, row)?;
                if let Some(Answer::Text(text)) = &answer {
                    meter.value(text.len())?;
                }
                answers.push(answer);
            }
            Ok(array_of(self.entry.gives, answers))
        })
    }
}

fn array_of(gives: Gives, answers: Vec<Option<Answer>>) -> ArrayRef {
    use arrow::array::{BooleanArray, Int32Array, StringViewArray};
    match gives {
        Gives::Bool => Arc::new(BooleanArray::from_iter(answers.into_iter().map(|answer| match answer {
            Some(Answer::Truth(truth)) => Some(truth),
            _ => None,
        }))),
        Gives::Int => Arc::new(Int32Array::from_iter(answers.into_iter().map(|answer| match answer {
            Some(Answer::Number(number)) => Some(number),
            _ => None,
        }))),
        Gives::Text | Gives::Json | Gives::Jsonb | Gives::Same => {
            Arc::new(StringViewArray::from_iter(answers.into_iter().map(|answer| match answer {
                Some(Answer::Text(text)) => Some(text),
                _ => None,
            })))
        }
    }
}
