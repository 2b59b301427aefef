// SPDX-License-Identifier: Apache-2.0
//! What fuzzers call (`tests/fuzz`): readers of values, documents, patterns and COPY, on any bytes.
//!
//! A function returns whatever the bytes are, and panics only if a reader is wrong: text that was read as a value is
//! written as a text that is read as the same value, and so on.

use crate::allowance::Allowance;
use crate::carried::Carry;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::scalar::{LetterCase, LikeStyle};
use crate::types::{decode_binary, encode_binary, format_value, marked_field, parse_value, scalar_of, utf8};
use arrow::array::{Array, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use chrono_tz::Tz;
use coeval_store::{ColumnType, ElementType, Value};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF};
use std::sync::{Arc, LazyLock};

pub use crate::copy::fuzzing::copy;

/// What the functions of one call may take.
const MEMORY_BYTES: usize = 64 << 20;

const TYPES: [ColumnType; 29] = [
    ColumnType::SmallInt,
    ColumnType::Int,
    ColumnType::BigInt,
    ColumnType::Real,
    ColumnType::Double,
    ColumnType::Numeric { precision: 38, scale: 10 },
    ColumnType::Numeric { precision: 5, scale: 2 },
    ColumnType::AnyNumeric,
    ColumnType::Boolean,
    ColumnType::Text,
    ColumnType::Varchar(5),
    ColumnType::Char(5),
    ColumnType::Bytea,
    ColumnType::Bit(Some(5)),
    ColumnType::Varbit(None),
    ColumnType::Date,
    ColumnType::Time,
    ColumnType::TimeTz,
    ColumnType::Timestamp,
    ColumnType::TimestampTz,
    ColumnType::Interval,
    ColumnType::Uuid,
    ColumnType::PgLsn,
    ColumnType::Json,
    ColumnType::Jsonb,
    ColumnType::Array(ElementType::Int),
    ColumnType::Array(ElementType::Text),
    ColumnType::Array(ElementType::Timestamp),
    ColumnType::Array(ElementType::Double),
];

const ZONES: [Tz; 4] = [Tz::UTC, Tz::Europe__Lisbon, Tz::America__New_York, Tz::Asia__Kathmandu];

/// A value: the first byte says of which type, the second in which time zone, the third whether the rest is its text or its
/// binary form.
///
/// # Panics
/// If it is another value after it was written and read again.
pub fn value(bytes: &[u8]) {
    let [ty, zone, form, rest @ ..] = bytes else { return };
    let ty = TYPES[usize::from(*ty) % TYPES.len()];
    let zone = ZONES[usize::from(*zone) % ZONES.len()];
    let value = match form % 2 {
        // Whoever takes a text in refuses one with a zero byte.
        0 => utf8(rest).ok().and_then(|text| parse_value(text, ty, zone).ok()),
        _ => decode_binary(rest, ty).ok(),
    };
    let Some(value) = value else { return };
    let mut text = String::new();
    format_value(value.borrow(), ty, zone, &mut text);
    let again = parse_value(&text, ty, zone);
    let same = again.as_ref().is_ok_and(|again| is_same(again, &value, ty, zone));
    assert!(same, "{ty}: {value:?} is written as {text:?} and read as {again:?}");
    let mut binary = Vec::new();
    if encode_binary(value.borrow(), ty, &mut binary).is_ok() {
        let again = decode_binary(&binary, ty);
        let same = again.as_ref().is_ok_and(|again| is_same(again, &value, ty, zone));
        assert!(same, "{ty}: {value:?} is written as {binary:?} and read as {again:?}");
    }
}

/// By what is shown, since not every value is equal to itself, and a summer's last hour is there twice.
fn is_same(left: &Value, right: &Value, ty: ColumnType, zone: Tz) -> bool {
    let shown = |value: &Value| {
        let mut text = String::new();
        format_value(value.borrow(), ty, zone, &mut text);
        text
    };
    left == right || shown(left) == shown(right)
}

/// A document: the first byte says which function is called with it, a zero byte stands before each further argument.
///
/// # Panics
/// If what is written of a document is none, or not what would be written of it.
pub fn json(bytes: &[u8]) {
    let Some((function, rest)) = bytes.split_first() else { return };
    let Ok(rest) = std::str::from_utf8(rest) else { return };
    let mut parts = rest.split('\0');
    let document = parts.next().unwrap_or_default();
    let Ok(Value::Text(written)) = parse_value(document, ColumnType::Jsonb, Tz::UTC) else { return };
    let again = parse_value(&written, ColumnType::Jsonb, Tz::UTC);
    assert_eq!(
        again.ok(),
        Some(Value::Text(written.clone())),
        "what is written of {document} stays as it is"
    );
    static FUNCTIONS: LazyLock<Vec<ScalarUDF>> = LazyLock::new(crate::json::functions);
    let function = &FUNCTIONS[usize::from(*function) % FUNCTIONS.len()];
    let first = (ScalarValue::Utf8View(Some(written.into())), ColumnType::Jsonb);
    let others = parts.filter_map(argument);
    drop(call(function, std::iter::once(first).chain(others).collect()));
}

/// A call of a function: its name and its arguments, each in a line of its own, whose first letter says of which type it is.
pub fn function(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n');
    let name = lines.next().unwrap_or_default();
    let Ok(function) = crate::functions::function(name) else { return };
    let Some(arguments) = lines.map(argument).collect::<Option<Vec<_>>>() else { return };
    drop(call(&function, arguments));
}

/// An argument, of the type that its first letter says.
fn argument(text: &str) -> Option<(ScalarValue, ColumnType)> {
    let letter = text.chars().next()?;
    let ty = match letter {
        's' => ColumnType::Text,
        'i' => ColumnType::Int,
        'l' => ColumnType::BigInt,
        'n' => ColumnType::Numeric { precision: 38, scale: 10 },
        'd' => ColumnType::Double,
        't' => ColumnType::Timestamp,
        'z' => ColumnType::TimestampTz,
        'v' => ColumnType::Interval,
        'b' => ColumnType::Boolean,
        'x' => ColumnType::Bytea,
        'a' => ColumnType::Array(ElementType::Text),
        _ => return None,
    };
    let value = parse_value(&text[letter.len_utf8()..], ty, Tz::UTC).ok()?;
    Some((scalar_of(&value, ty).ok()?, ty))
}

/// Calls a function for one row, with memory for little.
fn call(function: &ScalarUDF, arguments: Vec<(ScalarValue, ColumnType)>) -> Result<ColumnarValue, SqlError> {
    let fields: Vec<FieldRef> = arguments
        .iter()
        .map(|(value, ty)| marked_field(Field::new("argument", value.data_type(), true), *ty).into())
        .collect();
    let types = |fields: &[FieldRef]| -> Vec<DataType> {
        fields.iter().map(|field| field.data_type().clone()).collect()
    };
    if types(&fields_with_udf(&fields, function)?) != types(&fields) {
        return Err(SqlError::unsupported("a call with casts"));
    }
    let values: Vec<Option<&ScalarValue>> = arguments.iter().map(|(value, _)| Some(value)).collect();
    let return_field = function
        .return_field_from_args(ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &values })?;
    let mut options = ConfigOptions::default();
    let memory = Arc::new(GreedyMemoryPool::new(MEMORY_BYTES));
    let environment = RuntimeEnvBuilder::new().with_memory_pool(memory).build()?;
    Allowance::of(&environment).carry_in(&mut options);
    let args = arguments.into_iter().map(|(value, _)| ColumnarValue::Scalar(value)).collect();
    let config_options = Arc::new(options);
    Ok(function.invoke_with_args(ScalarFunctionArgs {
        args,
        arg_fields: fields,
        number_rows: 1,
        return_field,
        config_options,
    })?)
}

/// The names of all functions that a statement may call, those that only our own plans are meant to call among them.
#[must_use]
pub fn function_names(engine: &Engine) -> Vec<String> {
    let state = engine.template();
    let (scalar, aggregate) = (state.scalar_functions().keys(), state.aggregate_functions().keys());
    let mut names: Vec<_> = scalar.chain(aggregate).chain(state.window_functions().keys()).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// A text and a pattern of `LIKE`, a zero byte between them: with one row and with many the answer is the same.
///
/// # Panics
/// If it is not.
pub fn like(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some((text, pattern)) = text.split_once('\0') else { return };
    let style = LikeStyle { escape: Some('\\'), letters: LetterCase::Sensitive };
    let Ok(one) = crate::scalar::like(text, pattern, style, || Ok(())) else { return };
    let (texts, patterns) = (StringArray::from(vec![text]), StringArray::new_scalar(pattern));
    let Ok(many) = arrow::compute::like(&texts, &patterns) else { return };
    assert!(!many.is_null(0), "texts and patterns that are there match or do not");
    assert_eq!(many.value(0), one, "{text:?} LIKE {pattern:?}");
}
