// SPDX-License-Identifier: Apache-2.0
//! Functions of PostgreSQL that DataFusion has not, or has with other results, as lists of entries.
//!
//! An entry is a name and its forms: which types it takes, what it gives, and a function of one row's arguments. Of
//! several forms the one is called whose types are nearest to those of the arguments, as PostgreSQL chooses; text
//! stands for any type, since literals without one are text here. Arguments are cast to the form's types first.
//!
//! | file | |
//! |---|---|
//! | [`intervals`] | `age`, `justify_days`, `make_interval` ... |
//! | [`numbers`] | `width_bucket`, `div`, `gcd` ... |
//! | [`any_numbers`] | arithmetic of `numeric` without digits |
//! | [`degrees`] | trigonometry in degrees: `sind`, `atan2d` ... |
//! | [`places`] | `pg_wal_lsn_diff`, places in a log moved by bytes |
//! | [`number_pattern`] | `to_char` and `to_number` of numbers |
//! | [`time_pattern`] | `to_char` of times |
//! | [`zoned_times`] | times with a zone, an interval later or on a date |
//! | [`regular`] | the `regexp_` functions, patterns of `SIMILAR TO`, lists of patterns |
//! | [`raised`] | errors of what was computed before it was asked for |
//! | [`row_counts`] | how many rows LIMIT and OFFSET count |
//! | [`sizes`] | `pg_size_bytes` |
//! | [`texts`] | `format`, `string_to_array` ... |
//! | [`arrays`] | arrays with an element changed, shortened, filled |
//! | [`bytes`] | bits and bytes of `bytea` |
//! | [`bit_strings`] | `bitand`, `bitshiftleft` ... of bit strings |
//! | [`sent`] | values as the protocol sends them: `float8send` ... |
//! | [`delimited`] | `string_agg` whose delimiters differ |
//! | [`normal_forms`] | `normalize` |
//! | [`members`] | documents with a value at a subscript |
//! | [`document_casts`] | numbers and truth values that documents are |
//! | [`digests`] | `md5`, `sha256` ... |
//! | [`long`] | `lower`, `btrim`, `strpos` ... of long texts; DataFusion has those of short ones |
//! | [`ordered_sets`] | what `percentile_disc`, `percentile_cont` and `mode` find among all values of a group |
//! | [`domains`] | values on their way into a domain |
//! | [`enums`] | `enum_first`, `enum_last`, `enum_range`, which take any enum and are no entries |

mod aggregate_names;
mod any_numbers;
mod arrays;
mod bit_strings;
mod bytes;
mod call;
mod choice;
mod degrees;
mod delimited;
mod digests;
mod document_casts;
mod domains;
mod enums;
mod intervals;
mod long;
mod members;
mod normal_forms;
mod number_pattern;
mod numbers;
mod ordered_sets;
mod places;
mod raised;
mod regular;
mod row_counts;
mod search;
mod sent;
mod sizes;
mod texts;
mod time_pattern;
mod zoned_times;

use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use crate::scalar::cast_function::cast_array;
use crate::types::session_zone;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use call::Call;
use choice::Form;
use chrono_tz::Tz;
use coeval_store::{ColumnBuilder, ColumnType, Value, ValueRef, value_at};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

pub(crate) use aggregate_names::is_aggregate;
pub(crate) use any_numbers::{
    NUMBER_DIFFERENCE, NUMBER_NEGATED, NUMBER_ORDER, NUMBER_PRODUCT, NUMBER_QUOTIENT, NUMBER_REMAINDER,
    NUMBER_SHORTEST, NUMBER_SUM,
};
pub(crate) use bit_strings::{
    BIGINT_XOR, BITS_AND, BITS_JOINED, BITS_LEFT, BITS_LENGTH, BITS_NOT, BITS_OR, BITS_RIGHT, BITS_XOR,
    BitOperation, INT_XOR, SMALLINT_XOR,
};
pub(crate) use bytes::BYTES_LENGTH;
pub(crate) use delimited::{DELIMITED, JOINED};
pub(crate) use document_casts::{DOCUMENT_NUMBER, DOCUMENT_TRUTH};
pub(crate) use intervals::{INTERVAL_DOWN_TO, TIME_BETWEEN};
pub(crate) use long::{LITTLE_WORK, product_of_texts};
pub(crate) use normal_forms::IS_NORMALIZED;
pub(crate) use numbers::{NULL_ELEMENTS, OTHER_ELEMENTS};
pub(crate) use ordered_sets::{MODE, ORDERED_SET, PERCENTILE_CONT, PERCENTILE_DISC};
pub(crate) use places::{PLACE_AFTER, PLACE_BEFORE, PLACE_DISTANCE};
pub(crate) use raised::RAISED;
pub(crate) use regular::{
    HAS_MATCH, LIKE_FUNCTION, MATCHES_ALL, MATCHES_ANY, Pattern, REGEX_FUNCTION, ROWS_OF_MATCHES,
    compiled_for_operator, escape_letter, initial_for_operator, initial_of_like, initial_of_regular,
    pattern_of_operator, pattern_of_path, similar_pattern,
};
pub(crate) use row_counts::{ROWS_SKIPPED, ROWS_TAKEN};
pub(crate) use texts::FORMAT_ELEMENTS;
pub(crate) use time_pattern::{ExactPattern, ExactTime};
pub(crate) use zoned_times::{ZONED_AFTER, ZONED_BEFORE, ZONED_ON_DATE};

/// A function: its forms, whether it is NULL when an argument is, and what its result depends on.
struct Entry {
    name: &'static str,
    forms: &'static [Form],
    is_strict: bool,
    volatility: Volatility,
}

impl Entry {
    /// The same as a function whose result depends on the session's settings, its time zone above all, so that neither
    /// generated columns nor indexes may call it. PostgreSQL says so of the same functions.
    const fn stable(self) -> Self {
        Self { volatility: Volatility::Stable, ..self }
    }

    /// The same as a function that is called where its value is asked for, and never before.
    const fn volatile(self) -> Self {
        Self { volatility: Volatility::Volatile, ..self }
    }
}

const fn strict(name: &'static str, forms: &'static [Form]) -> Entry {
    Entry { name, forms, is_strict: true, volatility: Volatility::Immutable }
}

const fn called(name: &'static str, forms: &'static [Form]) -> Entry {
    Entry { name, forms, is_strict: false, volatility: Volatility::Immutable }
}

/// The function of this name.
///
/// # Errors
/// If there is none: a bug.
pub(crate) fn function(name: &str) -> Result<Arc<ScalarUDF>, SqlError> {
    static FUNCTIONS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
        functions().map(|function| (function.name().to_owned(), Arc::new(function))).collect()
    });
    FUNCTIONS.get(name).cloned().ok_or_else(|| SqlError::internal(format!("there is no function {name}")))
}

/// All of them, for the engine's registry.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let lists: [&[Entry]; 23] = [
        any_numbers::ENTRIES,
        arrays::ENTRIES,
        bit_strings::ENTRIES,
        bytes::ENTRIES,
        degrees::ENTRIES,
        delimited::ENTRIES,
        digests::ENTRIES,
        document_casts::ENTRIES,
        domains::ENTRIES,
        intervals::ENTRIES,
        normal_forms::ENTRIES,
        number_pattern::ENTRIES,
        numbers::ENTRIES,
        places::ENTRIES,
        raised::ENTRIES,
        regular::ENTRIES,
        regular::LIST_ENTRIES,
        row_counts::ENTRIES,
        sent::ENTRIES,
        sizes::ENTRIES,
        texts::ENTRIES,
        time_pattern::ENTRIES,
        zoned_times::ENTRIES,
    ];
    let listed = lists.into_iter().flatten().map(|entry| ScalarUDF::from(Function::new(entry)));
    listed.chain(enums::functions()).chain(long::functions()).chain(ordered_sets::functions())
}

struct Function {
    entry: &'static Entry,
    signature: Signature,
}

impl Function {
    fn new(entry: &'static Entry) -> Self {
        let mut counts: Vec<usize> = entry.forms.iter().flat_map(Form::counts).collect();
        counts.sort_unstable();
        counts.dedup();
        let signatures = counts.into_iter().map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(count),
        });
        let signature = Signature::one_of(signatures.collect(), entry.volatility);
        Self { entry, signature }
    }

    fn form(&self, types: &[DataType]) -> Result<&'static Form, SqlError> {
        choice::nearest(self.entry.name, self.entry.forms, types)
    }
}

/// Whether it is one of these functions: what it gives depends on its arguments and on the session's settings alone.
pub(crate) fn is_of_settings(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<Function>().is_some()
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.entry.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entry.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.entry.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.form(types)?.result(types, &[])?.arrow())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let ty = self.form(&types)?.result(&types, arguments.scalar_arguments)?;
        Ok(crate::types::marked_field(Field::new(self.entry.name, ty.arrow(), true), ty).into())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = arguments.args.iter().map(ColumnarValue::data_type).collect();
        let zone = session_zone(&arguments.config_options);
        let is_scalar = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let form = self.form(&types)?;
        let result = crate::types::column_type_of_field(&arguments.return_field)
            .ok_or_else(|| SqlError::internal("a function gives what SQL has no type for"))?;
        if is_scalar {
            let mut answer = Value::Null;
            self.each_row(form, result, &arguments, (1, zone), |value| answer = value)?;
            return Ok(ColumnarValue::Scalar(scalar_from(answer, result)?));
        }
        let mut builder = ColumnBuilder::new(result, rows);
        self.each_row(form, result, &arguments, (rows, zone), |value| builder.push(value.borrow()))?;
        Ok(ColumnarValue::Array(builder.finish()))
    }
}

impl Function {
    /// Gives the answer of each row to `take`.
    fn each_row(
        &self,
        form: &Form,
        result: ColumnType,
        arguments: &ScalarFunctionArgs,
        (rows, zone): (usize, Tz),
        mut take: impl FnMut(Value),
    ) -> Result<(), SqlError> {
        let meter = Meter::begin(&arguments.config_options, self.entry.name);
        let inputs = arguments.args.iter().enumerate().map(|(place, argument)| {
            // Each may be copied.
            meter.look()?;
            Input::new(form, place, argument, zone)
        });
        let inputs = inputs.collect::<Result<Vec<_>, SqlError>>()?;
        let types: Vec<_> = inputs.iter().map(|input| input.ty).collect();
        // One number of very many digits may take as long as many other values.
        let is_slow = result == ColumnType::AnyNumeric || types.contains(&ColumnType::AnyNumeric);
        for row in 0..rows {
            if is_slow {
                meter.look()?;
            } else {
                meter.step()?;
            }
            let values: Vec<ValueRef<'_>> = inputs.iter().map(|input| input.value(row)).collect();
            if self.entry.is_strict && values.iter().any(|value| value.is_null()) {
                take(Value::Null);
                continue;
            }
            let call =
                Call { name: self.entry.name, values: &values, types: &types, zone, result, meter: &meter };
            let value: Value = (form.body)(&call)?;
            let bytes = heap_bytes(&value);
            meter.value(bytes)?;
            take(value);
            if bytes >= LONG_BYTES {
                // It may have been copied meanwhile.
                meter.look()?;
            }
        }
        Ok(())
    }
}

/// The value as a scalar of this type; a text is not copied.
fn scalar_from(value: Value, ty: ColumnType) -> Result<ScalarValue> {
    match (value, ty.arrow()) {
        (Value::Text(text), DataType::Utf8View) => Ok(ScalarValue::Utf8View(Some(text.into()))),
        (Value::Bytes(bytes), DataType::BinaryView) => Ok(ScalarValue::BinaryView(Some(bytes.into()))),
        (Value::Bytes(bits), DataType::Binary) => Ok(ScalarValue::Binary(Some(bits.into()))),
        (value, _) => {
            let mut builder = ColumnBuilder::new(ty, 1);
            builder.push(value.borrow());
            ScalarValue::try_from_array(&builder.finish(), 0)
        }
    }
}

/// A value of this size takes a while to copy.
const LONG_BYTES: usize = 1 << 20;

/// The longest pattern of `to_char` and its like: each of its letters is read and written by itself.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// `54000` for a pattern that is too long.
fn require_short(pattern: &str) -> Result<(), SqlError> {
    if pattern.len() <= PATTERN_BYTES_MAX {
        return Ok(());
    }
    let error = SqlError::new(SqlState::ProgramLimitExceeded, "format pattern is too long");
    Err(error.with_detail(format!("It has {} bytes, {PATTERN_BYTES_MAX} are allowed.", pattern.len())))
}

/// What a value takes beside itself.
fn heap_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) | Value::List(bytes) => bytes.len(),
        Value::Number(number) => number.borrow().as_bytes().len(),
        _ => 0,
    }
}

/// One argument, cast to the type that is taken: a value for each row, or one for all.
struct Input {
    values: ArrayRef,
    ty: coeval_store::ColumnType,
    is_constant: bool,
}

impl Input {
    fn new(form: &Form, place: usize, argument: &ColumnarValue, zone: Tz) -> Result<Self, SqlError> {
        let values = argument.to_array(1)?;
        let ty = form.argument(place, values.data_type())?;
        let is_constant = matches!(argument, ColumnarValue::Scalar(_));
        Ok(Self { values: cast_array(&values, ty, zone)?, ty, is_constant })
    }

    fn value(&self, row: usize) -> ValueRef<'_> {
        value_at(&self.values, if self.is_constant { 0 } else { row })
    }
}
