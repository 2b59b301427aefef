// SPDX-License-Identifier: Apache-2.0
//! Casts that DataFusion has not or does otherwise: lengths of text, dates and times in all their forms, bytes, bit
//! strings, uuid, json.
//!
//! They are a function of the value and of the type's description, which runs the casts of the point path.

use super::cast::{CastPlan, plan as cast_plan};
use super::datum::Datum;
use super::environment::Environment;
use crate::cancel;
use crate::constants::made_of;
use crate::error::SqlError;
use crate::parse::{is_clock_word, meant_at};
use crate::types::{
    CastContext, cannot_cast, column_type_of_arrow, column_type_of_field, format_shown, marked_field,
    parse_value, require_cast, scalar_of, session_zone, type_in_words, type_name, with_one_nan,
};
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use chrono_tz::Tz;
use coeval_store::{ColumnBuilder, ColumnType, EnumType, SequenceDef, ValueRef, value_at};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast, lit,
};
use std::sync::{Arc, LazyLock};

/// The function's name.
pub(crate) const CAST: &str = "coeval_cast";

/// Whether casts to this type go through the function.
pub(crate) fn is_own(to: ColumnType) -> bool {
    matches!(
        to,
        ColumnType::Text
            | ColumnType::Varchar(_)
            | ColumnType::Char(_)
            | ColumnType::Bytea
            | ColumnType::Bit(_)
            | ColumnType::Varbit(_)
            | ColumnType::Date
            | ColumnType::Time
            | ColumnType::TimeTz
            | ColumnType::Timestamp
            | ColumnType::TimestampTz
            | ColumnType::Interval
            | ColumnType::Uuid
            | ColumnType::PgLsn
            | ColumnType::AnyNumeric
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Enum(_)
    )
}

/// The type as the function's second argument.
pub(crate) fn description(to: ColumnType) -> Result<String, SqlError> {
    serde_json::to_string(&to).map_err(|error| SqlError::internal(error.to_string()))
}

/// The cast of a text literal to the type of what stands beside it.
pub(crate) fn literal_as(literal: Expr, to: ColumnType) -> Result<Expr, SqlError> {
    if !is_own(to) {
        return Ok(cast(literal, to.arrow()));
    }
    called(literal, to)
}

/// A call of the function that casts.
pub(crate) fn called(input: Expr, to: ColumnType) -> Result<Expr, SqlError> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function()));
    let arguments = vec![input, lit(description(to)?)];
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), arguments)))
}

/// Constants of at most so many bytes, without an exponent, are cast to `numeric` by Arrow if it can read them.
const SHORT_NUMBER_BYTES: usize = 1 << 10;

/// A cast of a text, or of an array of texts, to `numeric` as a call of our own function, whether the user or the planner wrote the
/// cast; `None` for other casts. Arrow's cast recurses over the digits: fifty million of them overflow the stack and end the process.
///
/// # Errors
/// What a literal has in it that is no such number.
pub(crate) fn read_number(input: &Expr, from: &DataType, to: &DataType) -> Result<Option<Expr>, SqlError> {
    // Arrow knows no exponents.
    let is_plain = |text: &str| text.len() <= SHORT_NUMBER_BYTES && !text.contains(['e', 'E']);
    if !reads_numbers(from, to) {
        return Ok(None);
    }
    match input.as_literal().filter(|literal| literal.try_as_str().flatten().is_some_and(is_plain)) {
        Some(literal) => read_literal(input, literal, to),
        None => called_for(input, to),
    }
}

/// A cast of a text to a number that is no `numeric`, a truth value or a time, as a call of our own function: of what it cannot read
/// Arrow tells in a text. `None` for other casts, and for a literal that Arrow reads.
///
/// # Errors
/// What a literal has in it that is no such value.
pub(crate) fn read_text(input: &Expr, from: &DataType, to: &DataType) -> Result<Option<Expr>, SqlError> {
    if !reads_text(from, to) {
        return Ok(None);
    }
    match input.as_literal() {
        Some(literal) => read_literal(input, literal, to),
        None => called_for(input, to),
    }
}

/// A cast of a float to `numeric` as a call of our own function: the result has the six digits that a `real` keeps, or the fifteen of a
/// `double precision`, where Arrow has all that the binary number has. `None` for other casts.
///
/// # Errors
/// If the type cannot be described: a bug.
pub(crate) fn digits_of_float(
    input: &Expr,
    from: &DataType,
    to: &DataType,
) -> Result<Option<Expr>, SqlError> {
    if from.is_floating() && to.is_decimal() { called_for(input, to) } else { Ok(None) }
}

/// The cast of a literal; its error does not wait for rows. `None` if Arrow reads it.
fn read_literal(input: &Expr, literal: &ScalarValue, to: &DataType) -> Result<Option<Expr>, SqlError> {
    let is_read = literal.cast_to(to).is_ok();
    // Arrow takes a float that is too small for zero, and has other NaNs.
    if (!is_read || to.is_floating())
        && let (Some(text), Some(ty)) = (literal.try_as_str().flatten(), column_type_of_arrow(to))
    {
        // Whether a text can be read depends on no zone.
        let value = parse_value(text, ty, Tz::UTC)?;
        if to.is_floating() {
            return Ok(Some(Expr::Literal(scalar_of(&value, ty)?, None)));
        }
    }
    if is_read { Ok(None) } else { called_for(input, to) }
}

fn called_for(input: &Expr, to: &DataType) -> Result<Option<Expr>, SqlError> {
    column_type_of_arrow(to).map(|to| called(input.clone(), to)).transpose()
}

fn reads_text(from: &DataType, to: &DataType) -> bool {
    let is_read = matches!(
        to,
        DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Boolean
    );
    let is_own_time = || to.is_temporal() && column_type_of_arrow(to).is_some_and(|ty| ty.arrow() == *to);
    from.is_string() && (is_read || is_own_time())
}

fn reads_numbers(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => reads_numbers(from.data_type(), to.data_type()),
        _ => from.is_string() && to.is_decimal(),
    }
}

/// What is cast and to which type, if an expression is a call of that function.
pub(crate) fn call_parts(expression: &Expr) -> Option<(&Expr, ColumnType)> {
    let Expr::ScalarFunction(call) = expression else { return None };
    match &call.args[..] {
        [input, Expr::Literal(ty, _)] if call.func.name() == CAST => Some((input, target(Some(ty)).ok()?)),
        _ => None,
    }
}

fn text_of(literal: &Expr) -> Option<&str> {
    literal.as_literal()?.try_as_str().flatten()
}

/// Whether an expression casts a word for a day, or `now`: in the next transaction it is another value.
pub(crate) fn asks_for_time(expression: &Expr) -> bool {
    call_parts(expression)
        .is_some_and(|(input, to)| text_of(input).is_some_and(|text| is_clock_word(text, to)))
}

/// Refuses such words within an expression that belongs to no transaction.
///
/// # Errors
/// `22007`: without a time they are no dates.
pub(crate) fn refuse_words_for_days(expression: &Expr) -> Result<()> {
    let refused = expression.apply(|part| {
        if asks_for_time(part)
            && let Some((input, to)) = call_parts(part)
        {
            parse_value(text_of(input).unwrap_or_default(), to, Tz::UTC)?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    refused.map(drop)
}

/// What such a word is in the statement that an expression is simplified for; `None` for any other text.
fn meant_now(input: &Expr, to: ColumnType, info: &SimplifyContext) -> Result<Option<Expr>, SqlError> {
    let (Some(text), Some(now)) = (text_of(input), info.query_execution_start_time()) else {
        return Ok(None);
    };
    let zone = session_zone(info.config_options());
    let Some(written) = meant_at(text, to, &now.with_timezone(&zone)) else { return Ok(None) };
    let value = parse_value(&written, to, zone)?;
    Ok(Some(Expr::Literal(scalar_of(&value, to)?, None)))
}

/// The function, for the engine's registry.
pub(crate) fn function() -> ScalarUDF {
    // It depends on the session's time zone.
    ScalarUDF::new_from_impl(CastFunction { signature: Signature::any(2, Volatility::Stable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CastFunction {
    signature: Signature,
}

/// How the function does its work.
enum Way {
    /// A text that is read as a value of a type whose other casts are Arrow's.
    Read,
    /// An array or a row, as text.
    Shown,
    /// The elements of an array, each cast to this type.
    Elements(ColumnType),
    /// One value after the other.
    Each(ColumnType, CastPlan),
    /// The same by way of text: there is no direct cast.
    ByText(ColumnType),
    /// As Arrow does.
    Arrow,
}

fn way(from: &DataType, to: ColumnType) -> Result<Way, SqlError> {
    if *from == DataType::Null {
        return Ok(Way::Arrow);
    }
    if from.is_string() && !is_own(to) {
        return Ok(Way::Read);
    }
    let is_row = || matches!(from, DataType::Struct(_)) && EnumType::of_arrow(from).is_none();
    if matches!(to, ColumnType::Text | ColumnType::Varchar(_))
        && (matches!(from, DataType::List(_)) || is_row())
    {
        return Ok(Way::Shown);
    }
    if let (DataType::List(_), ColumnType::Array(element)) = (from, to) {
        return Ok(Way::Elements(element.column_type()));
    }
    let no_cast = || cannot_cast(&type_in_words(from), &type_name(to));
    let source = column_type_of_arrow(from).ok_or_else(no_cast)?;
    require_cast(source, to)?;
    let plan = cast_plan(source, to, CastContext::Explicit);
    Ok(match plan {
        CastPlan::None => Way::Arrow,
        CastPlan::Do(_) => Way::Each(source, plan),
        CastPlan::Refused if matches!(to, ColumnType::Varchar(_) | ColumnType::Char(_)) => {
            Way::ByText(source)
        }
        CastPlan::Refused if can_cast_types(from, &to.arrow()) => Way::Arrow,
        CastPlan::Refused => return Err(no_cast()),
    })
}

/// Refuses a cast of a document, which Arrow carries as a text, to what no document becomes; numbers and truth values are no types of
/// this function. The same of a `bit varying`, which has Arrow's type of a `bit`.
///
/// # Errors
/// `42846`.
fn refuse_marked(field: &Field, to: ColumnType) -> Result<(), SqlError> {
    let from = column_type_of_field(field);
    let is_refused = match from {
        Some(ColumnType::Json | ColumnType::Jsonb) => is_own(to),
        Some(ColumnType::Varbit(_)) => true,
        _ => false,
    };
    from.filter(|_| is_refused).map_or(Ok(()), |from| require_cast(from, to))
}

fn target(argument: Option<&ScalarValue>) -> Result<ColumnType, SqlError> {
    let text = argument.and_then(|scalar| scalar.try_as_str().flatten());
    text.and_then(|text| serde_json::from_str(text).ok())
        .ok_or_else(|| SqlError::syntax("the second argument of a cast is a type"))
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &str {
        CAST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(SqlError::internal("the type of a cast depends on its second argument").into())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let to = target(arguments.scalar_arguments.get(1).copied().flatten())?;
        if let Some(from) = arguments.arg_fields.first() {
            way(from.data_type(), to)?;
            refuse_marked(from, to)?;
        }
        let is_nullable = arguments.arg_fields.first().is_none_or(|field| field.is_nullable());
        Ok(Arc::new(marked_field(Field::new(CAST, to.arrow(), is_nullable), to)))
    }

    fn simplify(&self, mut arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [input, Expr::Literal(ty, _)] = &arguments[..] else {
            return Ok(ExprSimplifyResult::Original(arguments));
        };
        let to = target(Some(ty))?;
        if let Some(value) = meant_now(input, to, info)? {
            return Ok(ExprSimplifyResult::Simplified(value));
        }
        let is_bounded = to.is_bits()
            || matches!(
                to,
                ColumnType::Varchar(_) | ColumnType::Char(_) | ColumnType::Json | ColumnType::Jsonb
            );
        // A text that is marked as one of another type is not kept as that.
        let is_marked = || input.to_field(info.schema()).is_ok_and(|(_, field)| !field.metadata().is_empty());
        if !is_bounded && info.get_data_type(input)? == to.arrow() && !is_marked() {
            return Ok(ExprSimplifyResult::Simplified(arguments.swap_remove(0)));
        }
        Ok(ExprSimplifyResult::Original(arguments))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [input, ColumnarValue::Scalar(ty)] = &arguments.args[..] else {
            return Err(SqlError::internal("a cast without its type").into());
        };
        let to = target(Some(ty))?;
        let zone = session_zone(&arguments.config_options);
        made_of(&arguments.args, arguments.number_rows, |rows| {
            Ok(cast_array(&input.to_array(rows)?, to, zone)?)
        })
    }
}

/// What a cast asks of the statement: its time zone.
struct Zone(Tz);

impl Environment for Zone {
    fn transaction_time(&self) -> i64 {
        0
    }

    fn zone(&self) -> Tz {
        self.0
    }

    fn next_value(&self, _: &SequenceDef) -> Result<i64, SqlError> {
        Err(SqlError::internal("a cast has asked for a sequence"))
    }
}

/// Whether some texts that were read as infinite, or as zero, have digits of another number.
fn may_be_beyond(read: impl Iterator<Item = Option<f64>>, texts: &ArrayRef) -> Result<bool, SqlError> {
    let texts = cast_with_options(texts, &DataType::Utf8View, &CastOptions::default())?;
    let mut both = read.zip(texts.as_string_view());
    Ok(both.any(|(value, text)| match (value, text) {
        (Some(value), Some(text)) if value.is_infinite() || value == 0.0 => {
            text.contains(|letter: char| matches!(letter, '1'..='9'))
        }
        _ => false,
    }))
}

/// What the texts stand for, read by Arrow, which reads many at a time; `None` if it does not read all of them, or some as infinite or
/// as nothing, which may be beyond what a float can be.
fn read_at_once(texts: &ArrayRef, to: &DataType) -> Result<Option<ArrayRef>, SqlError> {
    if !reads_text(texts.data_type(), to) {
        return Ok(None);
    }
    let read = cast_with_options(texts, to, &CastOptions { safe: true, ..CastOptions::default() })?;
    let may_be_beyond = match to {
        DataType::Float32 => {
            let floats = read.as_primitive::<Float32Type>().iter().map(|value| value.map(f64::from));
            may_be_beyond(floats, texts)?
        }
        DataType::Float64 => may_be_beyond(read.as_primitive::<Float64Type>().iter(), texts)?,
        _ => false,
    };
    Ok((read.null_count() == texts.null_count() && !may_be_beyond).then(|| with_one_nan(&read)))
}

/// What the texts stand for.
fn parsed(texts: &ArrayRef, to: ColumnType, zone: Tz) -> Result<ArrayRef, SqlError> {
    if let Some(read) = read_at_once(texts, &to.arrow())? {
        return Ok(read);
    }
    let texts = arrow::compute::cast(texts, &DataType::Utf8View)?;
    let mut builder = ColumnBuilder::new(to, texts.len());
    for text in texts.as_string_view() {
        cancel::check()?;
        match text {
            Some(text) => builder.push(parse_value(text, to, zone)?.borrow()),
            None => builder.push(ValueRef::Null),
        }
    }
    Ok(builder.finish())
}

/// Numbers of any number of digits without zeros at their ends, as arrays have them.
///
/// # Errors
/// That of a cancelled statement.
fn shortest(numbers: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let mut builder = ColumnBuilder::new(ColumnType::AnyNumeric, numbers.len());
    for row in 0..numbers.len() {
        cancel::check()?;
        match value_at(numbers, row) {
            ValueRef::Number(number) => builder.push(ValueRef::Number(number.shortest().borrow())),
            other => builder.push(other),
        }
    }
    Ok(builder.finish())
}

/// The elements of arrays, each cast to this type.
///
/// # Errors
/// As [`cast_array`].
pub(crate) fn cast_members(elements: &ArrayRef, to: ColumnType, zone: Tz) -> Result<ArrayRef, SqlError> {
    let values = cast_array(elements, to, zone)?;
    if to == ColumnType::AnyNumeric { shortest(&values) } else { Ok(values) }
}

/// The arrays with each element cast.
fn cast_elements(lists: &ListArray, to: ColumnType, zone: Tz) -> Result<ArrayRef, SqlError> {
    let values = cast_members(lists.values(), to, zone)?;
    let field = Arc::new(Field::new_list_field(to.arrow(), true));
    Ok(Arc::new(ListArray::try_new(field, lists.offsets().clone(), values, lists.nulls().cloned())?))
}

/// Each value cast to this type, as an explicit cast does it.
///
/// # Errors
/// `42846` if there is no such cast, what it finds wrong with a value; that of a cancelled statement.
pub(crate) fn cast_array(array: &ArrayRef, to: ColumnType, zone: Tz) -> Result<ArrayRef, SqlError> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let (source, steps) = match way(array.data_type(), to)? {
        Way::Read => return parsed(array, to, zone),
        Way::Arrow => return Ok(cast_with_options(array, &to.arrow(), &strict)?),
        Way::Shown => {
            let texts = (0..array.len()).map(|row| format_shown(array, row, zone));
            return Ok(Arc::new(texts.collect::<Result<StringViewArray, SqlError>>()?));
        }
        Way::Elements(ty) => return cast_elements(array.as_list(), ty, zone),
        Way::Each(source, plan) => (source, vec![plan]),
        Way::ByText(source) => {
            let text = ColumnType::Text;
            let step = |from, to| cast_plan(from, to, CastContext::Explicit);
            (source, vec![step(source, text), step(text, to)])
        }
    };
    let plain = cast_with_options(array, &source.arrow(), &strict)?;
    let environment = Zone(zone);
    let mut builder = ColumnBuilder::new(to, plain.len());
    for row in 0..plain.len() {
        // One number of very many digits may take as long as many other values.
        cancel::check()?;
        let value = value_at(&plain, row);
        if value.is_null() {
            builder.push(ValueRef::Null);
            continue;
        }
        let mut datum = Datum::from(value);
        for step in &steps {
            if let CastPlan::Do(cast) = step {
                datum = cast.apply(datum, &environment)?;
            }
        }
        builder.push(datum.value());
    }
    Ok(builder.finish())
}
