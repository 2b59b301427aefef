// SPDX-License-Identifier: Apache-2.0
//! The functions of JSON, and those that stand behind its operators.

mod arguments;
mod building;

use super::changes::{self, Change};
use super::kept_lists;
use super::operators::MEMBER;
use super::path::{Errors, Search, canonical_path, functions as path_functions};
use super::records::Elements;
use super::written::in_lines;
use crate::allowance::Meter;
use crate::constants::made_of;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::json::{Kind, Part, canonical, order_key};
use crate::types::{marked_field, session_zone};
use arguments::{Answer, Arguments};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use coeval_store::ColumnType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
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

type Body = fn(&Arguments<'_>, usize) -> SqlResult<Option<Answer>>;

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
