// SPDX-License-Identifier: Apache-2.0
//! Functions of text that DataFusion has in a form for whole columns: fast, but without a look whether the statement is to end, and
//! some in time that grows with the product of two texts. They are called where that is little work. Else each has a form here that
//! looks on its way, in time that grows with the sum. Some of them have forms of bytes and bit strings, too, which DataFusion has not.

use super::bit_strings::{self, BIT, BITS};
use super::call::{Call, text};
use super::choice::{Form, Takes};
use super::search::Places;
use super::{Entry, Function, called, strict};
use crate::allowance::{Meter, VALUE_BYTES_MAX, too_large};
use crate::error::{SqlError, SqlState};
use crate::wrapped::as_wrapped;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use coeval_store::{ColumnType, Value};
use datafusion::common::types::{NativeType, logical_binary, logical_int32, logical_int64};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::{string, unicode};
use datafusion::logical_expr::{
    Coercion, ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature, TypeSignatureClass,
};
use std::collections::HashSet;
use std::sync::Arc;

const TEXT: Takes = Takes::Type(ColumnType::Text);
const BIGINT: Takes = Takes::Type(ColumnType::BigInt);
const BYTEA: Takes = Takes::Type(ColumnType::Bytea);

/// Steps of a function of DataFusion, each of about a nanosecond, that are little work.
pub(crate) const LITTLE_WORK: u64 = 1 << 24;

/// How the work of DataFusion's form grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// With the texts.
    Sum,
    /// In each row with the product of two.
    Product,
}

/// The functions, for the engine's registry.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FORMS.iter().map(|forms| {
        let (usual, own) = ((forms.usual)(), Function::new(&forms.own));
        let signature = with_bytes(usual.signature(), &forms.own);
        ScalarUDF::new_from_impl(Long { usual, own, work: forms.work, signature })
    })
}

/// What DataFusion's form takes, and what ours takes of bytes.
fn with_bytes(usual: &Signature, own: &Entry) -> Signature {
    let is_of_bytes = |form: &&Form| form.takes.first().is_some_and(|takes| [BYTEA, BITS].contains(takes));
    let taken = own.forms.iter().filter(is_of_bytes);
    let taken = taken.flat_map(|form| form.counts().map(move |count| &form.takes[..count]));
    let of_bytes = taken.map(|takes| TypeSignature::Coercible(takes.iter().map(coercion).collect()));
    let mut signatures = match &usual.type_signature {
        TypeSignature::OneOf(signatures) => signatures.clone(),
        signature => vec![signature.clone()],
    };
    let count = signatures.len();
    signatures.extend(of_bytes);
    if signatures.len() == count {
        return usual.clone();
    }
    Signature { type_signature: TypeSignature::OneOf(signatures), ..usual.clone() }
}

/// How DataFusion finds an argument of a form of bytes: bytes themselves, which bit strings are to it, or a whole number.
fn coercion(takes: &Takes) -> Coercion {
    match takes {
        Takes::Type(ColumnType::BigInt) => Coercion::new_implicit(
            TypeSignatureClass::Native(logical_int64()),
            vec![TypeSignatureClass::Native(logical_int32())],
            NativeType::Int64,
        ),
        _ => Coercion::new_exact(TypeSignatureClass::Native(logical_binary())),
    }
}

/// A function twice.
struct Forms {
    /// DataFusion's.
    usual: fn() -> Arc<ScalarUDF>,
    work: Work,
    own: Entry,
}

const fn forms(usual: fn() -> Arc<ScalarUDF>, work: Work, own: Entry) -> Forms {
    Forms { usual, work, own }
}

const FORMS: &[Forms] = &[
    forms(
        string::lower,
        Work::Sum,
        strict("lower", &[Form::new(&[TEXT], ColumnType::Text, |call| in_case(call, str::to_lowercase))]),
    ),
    forms(
        string::upper,
        Work::Sum,
        strict("upper", &[Form::new(&[TEXT], ColumnType::Text, |call| in_case(call, str::to_uppercase))]),
    ),
    forms(unicode::reverse, Work::Sum, strict("reverse", &[Form::new(&[TEXT], ColumnType::Text, reversed)])),
    forms(string::btrim, Work::Product, strict("btrim", TRIMMED)),
    forms(string::ltrim, Work::Product, strict("ltrim", TRIMMED)),
    forms(string::rtrim, Work::Product, strict("rtrim", TRIMMED)),
    forms(
        string::concat,
        Work::Sum,
        called("concat", &[Form::new(&[TEXT], ColumnType::Text, concatenated).variadic()]),
    ),
    forms(
        unicode::strpos,
        Work::Product,
        strict(
            "strpos",
            &[
                Form::new(&[TEXT, TEXT], ColumnType::Int, place),
                Form::new(&[BITS, BITS], ColumnType::Int, bit_strings::place),
            ],
        ),
    ),
    forms(unicode::left, Work::Sum, strict("left", &[Form::new(&[TEXT, BIGINT], ColumnType::Text, first)])),
    forms(unicode::right, Work::Sum, strict("right", &[Form::new(&[TEXT, BIGINT], ColumnType::Text, last)])),
    forms(
        unicode::substr,
        Work::Sum,
        strict(
            "substr",
            &[
                Form::new(&[TEXT, BIGINT, BIGINT], ColumnType::Text, part).optional(1),
                Form::new(&[BYTEA, BIGINT, BIGINT], ColumnType::Bytea, part_of_bytes).optional(1),
                Form::new(&[BITS, BIGINT, BIGINT], BIT, part_of_bits).optional(1),
            ],
        ),
    ),
    forms(
        string::octet_length,
        Work::Sum,
        strict(
            "octet_length",
            &[
                Form::new(&[TEXT], ColumnType::Int, |call| Ok(Value::Int32(call.text(0).len() as i32))),
                Form::new(&[BYTEA], ColumnType::Int, |call| Ok(Value::Int32(call.bytes(0).len() as i32))),
                Form::new(&[BITS], ColumnType::Int, bit_strings::octets),
            ],
        ),
    ),
    forms(
        string::bit_length,
        Work::Sum,
        strict(
            "bit_length",
            &[
                Form::new(&[TEXT], ColumnType::Int, |call| bits_of_bytes(call.text(0).len())),
                Form::new(&[BYTEA], ColumnType::Int, |call| bits_of_bytes(call.bytes(0).len())),
                Form::new(&[BITS], ColumnType::Int, bit_strings::length),
            ],
        ),
    ),
];

/// `bit_length` of so many bytes.
fn bits_of_bytes(bytes: usize) -> Result<Value, SqlError> {
    let bits = i32::try_from(bytes.saturating_mul(8));
    bits.map(Value::Int32)
        .map_err(|_| SqlError::new(SqlState::NumericValueOutOfRange, "integer out of range"))
}

/// `concat(any, ...)`, of which NULL is nothing.
fn concatenated(call: &Call<'_>) -> Result<Value, SqlError> {
    let parts: Vec<&str> = (0..call.count()).map(|place| call.text(place)).collect();
    Ok(text(joined(&parts, call.meter)?))
}

/// The texts one behind the other.
pub(super) fn joined(parts: &[&str], meter: &Meter) -> Result<String, SqlError> {
    let bytes = parts.iter().map(|part| part.len()).sum();
    // It is counted when it is there.
    if bytes > VALUE_BYTES_MAX {
        return Err(too_large());
    }
    let mut out = String::with_capacity(bytes);
    for mut rest in parts.iter().copied() {
        while !rest.is_empty() {
            meter.look()?;
            let (piece, behind) = rest.split_at(end_of_piece(rest, Ends::Anywhere));
            out.push_str(piece);
            rest = behind;
        }
    }
    Ok(out)
}

const TRIMMED: &[Form] = &[
    Form::new(&[TEXT, TEXT], ColumnType::Text, trimmed).optional(1),
    Form::new(&[BYTEA, BYTEA], ColumnType::Bytea, trimmed_bytes),
];

/// What is written between two looks.
const PIECE_BYTES: usize = 1 << 20;

/// The only letter whose small form depends on what stands round it.
const SIGMA: char = 'Σ';

/// Where pieces may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Anywhere,
    /// Between two letters of ASCII: no sigma looks beyond them.
    BetweenLetters,
}

/// The text in pieces that have the same small and large letters alone as together.
fn in_case(call: &Call<'_>, convert: fn(&str) -> String) -> Result<Value, SqlError> {
    let mut rest = call.text(0);
    let ends = if rest.contains(SIGMA) { Ends::BetweenLetters } else { Ends::Anywhere };
    let mut out = String::new();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(end_of_piece(rest, ends));
        let converted = convert(piece);
        call.meter.longer(out.len(), converted.len())?;
        call.meter.look()?;
        out.push_str(&converted);
        rest = behind;
    }
    Ok(text(out))
}

/// Where the first piece ends: at the end of the text if there is no such place.
fn end_of_piece(rest: &str, ends: Ends) -> usize {
    let bytes = rest.as_bytes();
    let is_end = |end: &usize| match ends {
        Ends::Anywhere => rest.is_char_boundary(*end),
        Ends::BetweenLetters => bytes[*end - 1].is_ascii_alphabetic() && bytes[*end].is_ascii_alphabetic(),
    };
    (PIECE_BYTES..rest.len()).find(is_end).unwrap_or(rest.len())
}

fn reversed(call: &Call<'_>) -> Result<Value, SqlError> {
    let all = call.text(0);
    call.meter.value(all.len())?;
    let mut out = String::with_capacity(all.len());
    for letter in all.chars().rev() {
        call.meter.step()?;
        out.push(letter);
    }
    Ok(text(out))
}

/// `btrim(text [, letters])`, `ltrim` and `rtrim`: without those of the letters that stand at the ends, or at one.
fn trimmed(call: &Call<'_>) -> Result<Value, SqlError> {
    let mut letters = HashSet::new();
    for letter in if call.count() == 2 { call.text(1) } else { " " }.chars() {
        call.meter.step()?;
        letters.insert(letter);
    }
    let mut rest = call.text(0);
    if call.name != "rtrim" {
        while let Some(letter) = rest.chars().next().filter(|letter| letters.contains(letter)) {
            call.meter.step()?;
            rest = &rest[letter.len_utf8()..];
        }
    }
    if call.name != "ltrim" {
        while let Some(letter) = rest.chars().next_back().filter(|letter| letters.contains(letter)) {
            call.meter.step()?;
            rest = &rest[..rest.len() - letter.len_utf8()];
        }
    }
    Ok(text(rest))
}

/// `strpos(text, part)`, which letter of the text the part begins at: from 1 on, 0 if it is not in it.
fn place(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, part) = (call.text(0), call.text(1));
    if part.is_empty() {
        return Ok(Value::Int32(1));
    }
    let Some(place) = Places::of(part, all, call.meter)?.next()? else { return Ok(Value::Int32(0)) };
    // A text has at most 2^30 letters.
    Ok(Value::Int32(letters(&all.as_bytes()[..place], call.meter)? as i32 + 1))
}

/// Whether a letter begins with this byte.
fn is_first(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// How many letters a text has.
pub(super) fn letters(all: &[u8], meter: &Meter) -> Result<usize, SqlError> {
    let pieces = all.chunks(PIECE_BYTES);
    pieces.map(|piece| meter.look().map(|()| piece.iter().filter(|&&byte| is_first(byte)).count())).sum()
}

/// Where the letter behind so many others begins; the end of the text if there is none.
pub(super) fn letter_behind(all: &str, mut others: usize, meter: &Meter) -> Result<usize, SqlError> {
    for (number, piece) in all.as_bytes().chunks(PIECE_BYTES).enumerate() {
        let count = letters(piece, meter)?;
        if count > others {
            let mut firsts = piece.iter().enumerate().filter(|(_, byte)| is_first(**byte));
            return Ok(firsts.nth(others).map_or(all.len(), |(place, _)| number * PIECE_BYTES + place));
        }
        others -= count;
    }
    Ok(all.len())
}

/// Where the first letters end, of a text that is longer; of a negative number how many are left behind them.
fn end_of_first(all: &str, number: i64, meter: &Meter) -> Result<usize, SqlError> {
    let count = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    let first = if number < 0 { letters(all.as_bytes(), meter)?.saturating_sub(count) } else { count };
    letter_behind(all, first, meter)
}

/// `left(text, number)`.
fn first(call: &Call<'_>) -> Result<Value, SqlError> {
    let all = call.text(0);
    Ok(text(&all[..end_of_first(all, call.int(1), call.meter)?]))
}

/// `right(text, number)`: what stands behind the first ones that are left out.
fn last(call: &Call<'_>) -> Result<Value, SqlError> {
    let all = call.text(0);
    let number = call.int(1);
    let left_out = match number {
        0 => return Ok(text("")),
        // All but so many. Nobody has the letters of the least number.
        1.. => -number,
        _ => number.checked_neg().unwrap_or(i64::MAX),
    };
    Ok(text(&all[end_of_first(all, left_out, call.meter)?..]))
}

/// `substr(text, start [, count])`; places before the first letter count, too.
fn part(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, start, end) = (call.text(0), call.int(1), end_of_part(call)?);
    let before = |place: i64| usize::try_from(place.saturating_sub(1)).unwrap_or(0);
    let begin = letter_behind(all, before(start), call.meter)?;
    let rest = &all[begin..];
    let count = before(end).saturating_sub(before(start));
    Ok(text(&rest[..letter_behind(rest, count, call.meter)?]))
}

/// `substr(bytea, start [, count])`: as of a text, of bytes in the place of letters.
fn part_of_bytes(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, start, end) = (call.bytes(0), call.int(1), end_of_part(call)?);
    let before = |place: i64| usize::try_from(place.saturating_sub(1)).unwrap_or(0).min(all.len());
    Ok(Value::Bytes(all[before(start)..before(end)].into()))
}

/// `substring(bits, start [, count])`: as of a text, of bits in the place of letters.
fn part_of_bits(call: &Call<'_>) -> Result<Value, SqlError> {
    let end = end_of_part(call)?;
    let before = |place: i64| usize::try_from(place.saturating_sub(1)).unwrap_or(0);
    Ok(bit_strings::part(call, before(call.int(1)), before(end)))
}

/// The place behind a part, which is not in front of its start.
fn end_of_part(call: &Call<'_>) -> Result<i64, SqlError> {
    match call.count() {
        3 if call.int(2) < 0 => {
            Err(SqlError::new(SqlState::SubstringError, "negative substring length not allowed"))
        }
        3 => Ok(call.int(1).saturating_add(call.int(2))),
        _ => Ok(i64::MAX),
    }
}

/// `btrim(bytea, bytes)`, `ltrim` and `rtrim`: as of a text, of bytes in the place of letters.
fn trimmed_bytes(call: &Call<'_>) -> Result<Value, SqlError> {
    let mut is_taken = [false; 1 << u8::BITS];
    for byte in call.bytes(1) {
        is_taken[usize::from(*byte)] = true;
    }
    let stays = |byte: &u8| !is_taken[usize::from(*byte)];
    let all = call.bytes(0);
    let first = all.iter().position(stays).unwrap_or(all.len());
    let behind = all.iter().rposition(stays).map_or(0, |last| last + 1);
    let start = if call.name == "rtrim" { 0 } else { first };
    let end = if call.name == "ltrim" { all.len() } else { behind };
    Ok(Value::Bytes(all.get(start..end).unwrap_or_default().into()))
}

/// Whether a function is called with bytes or a bit string.
fn is_of_bytes(first: Option<&DataType>) -> bool {
    matches!(first, Some(DataType::Binary | DataType::BinaryView))
}

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Long {
    usual: Arc<ScalarUDF>,
    own: Function,
    work: Work,
    signature: Signature,
}

impl Long {
    /// Whether DataFusion's form has more to do than a little.
    fn is_long(&self, arguments: &ScalarFunctionArgs) -> bool {
        let (texts, rows) = (&arguments.args, arguments.number_rows);
        let steps = match self.work {
            Work::Sum => texts.iter().map(|text| Size::of(text, rows).all).sum(),
            Work::Product => product_of_texts(texts, rows),
        };
        steps > LITTLE_WORK
    }
}

/// The bytes of the first text of each row, or one if it has none, times those of the longest of the others.
pub(crate) fn product_of_texts(texts: &[ColumnarValue], rows: usize) -> u64 {
    let mut sizes = texts.iter().map(|text| Size::of(text, rows));
    let all = sizes.next().map_or(0, |size| size.all.max(rows as u64));
    sizes.map(|size| size.longest.max(1)).fold(all, u64::saturating_mul)
}

/// How many bytes the texts of an argument have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    all: u64,
    longest: u64,
}

impl Size {
    fn of(argument: &ColumnarValue, rows: usize) -> Self {
        match argument {
            ColumnarValue::Scalar(value) => {
                let length = value.try_as_str().flatten().map_or(0, |text| text.len() as u64);
                Self { all: length.saturating_mul(rows as u64), longest: length }
            }
            ColumnarValue::Array(array) => Self::of_array(array),
        }
    }

    fn of_array(array: &ArrayRef) -> Self {
        let of_lengths = |lengths: &mut dyn Iterator<Item = u64>| {
            lengths.fold(Self::default(), |size, length| Self {
                all: size.all.saturating_add(length),
                longest: size.longest.max(length),
            })
        };
        match array.data_type() {
            DataType::Utf8View => of_lengths(&mut array.as_string_view().lengths().map(u64::from)),
            DataType::Utf8 => {
                of_lengths(&mut array.as_string::<i32>().offsets().lengths().map(|length| length as u64))
            }
            DataType::LargeUtf8 => {
                of_lengths(&mut array.as_string::<i64>().offsets().lengths().map(|length| length as u64))
            }
            DataType::Dictionary(..) => {
                let values = Self::of_array(array.as_any_dictionary().values());
                Self { all: values.longest.saturating_mul(array.len() as u64), ..values }
            }
            _ => Self::default(),
        }
    }
}

impl ScalarUDFImpl for Long {
    as_wrapped!(usual: name, aliases, coerce_types, evaluate_bounds, output_ordering);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if is_of_bytes(types.first()) { self.own.return_type(types) } else { self.usual.return_type(types) }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if is_of_bytes(arguments.arg_fields.first().map(|field| field.data_type())) {
            return self.own.return_field_from_args(arguments);
        }
        self.usual.return_field_from_args(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.usual.documentation()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let first = arguments.args.first().map(ColumnarValue::data_type);
        // What is wrong our own form says.
        if !is_of_bytes(first.as_ref())
            && !self.is_long(&arguments)
            && let Ok(done) = self.usual.invoke_with_args(arguments.clone())
        {
            return Ok(done);
        }
        let ty = arguments.return_field.data_type().clone();
        Ok(match self.own.invoke_with_args(arguments)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(cast(&array, &ty)?),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(as_type(value, &ty)?),
        })
    }
}

/// The value as one of this type; a text is not copied.
fn as_type(value: ScalarValue, ty: &DataType) -> Result<ScalarValue> {
    use ScalarValue::{LargeUtf8, Utf8, Utf8View};
    Ok(match (value, ty) {
        (Utf8(text) | LargeUtf8(text) | Utf8View(text), DataType::Utf8) => Utf8(text),
        (Utf8(text) | LargeUtf8(text) | Utf8View(text), DataType::LargeUtf8) => LargeUtf8(text),
        (Utf8(text) | LargeUtf8(text) | Utf8View(text), DataType::Utf8View) => Utf8View(text),
        (other, ty) => other.cast_to(ty)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray, StringViewArray};
    use arrow::datatypes::Field;
    use datafusion::common::config::ConfigOptions;

    /// Both forms, of texts that are short.
    fn assert_same(name: &str, texts: &[&[&str]], numbers: &[i64]) {
        let function = functions().find(|function| function.name() == name).unwrap();
        let long: &Long = (function.inner().as_ref() as &dyn std::any::Any).downcast_ref().unwrap();
        let rows = texts[0].len();
        let texts =
            texts.iter().map(|texts| Arc::new(StringViewArray::from_iter_values(texts.iter())) as ArrayRef);
        let numbers =
            numbers.iter().map(|number| Arc::new(Int64Array::from(vec![*number; rows])) as ArrayRef);
        let columns: Vec<ArrayRef> = texts.chain(numbers).collect();
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
        let fields: Vec<FieldRef> =
            types.iter().map(|ty| Arc::new(Field::new("a", ty.clone(), true)) as FieldRef).collect();
        let scalars = vec![None; fields.len()];
        let given = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &scalars };
        let return_field = long.usual.return_field_from_args(given).unwrap();
        let call = |udf: &dyn Fn(ScalarFunctionArgs) -> Result<ColumnarValue>| {
            let found = udf(ScalarFunctionArgs {
                args: columns.iter().map(|column| ColumnarValue::Array(Arc::clone(column))).collect(),
                arg_fields: fields.clone(),
                number_rows: rows,
                return_field: Arc::clone(&return_field),
                config_options: Arc::new(ConfigOptions::new()),
            });
            let found = found.unwrap().into_array(rows).unwrap();
            let shown = cast(&found, &DataType::Utf8).unwrap();
            shown.as_any().downcast_ref::<StringArray>().unwrap().clone()
        };
        assert_eq!(
            call(&|arguments| long.own.invoke_with_args(arguments)),
            call(&|arguments| long.usual.invoke_with_args(arguments)),
            "{name}"
        );
    }

    const TEXTS: &[&str] = &["", " ", "aΣ b", "Straße", "ΑΣ.Σας ÀÉ", "xxyxx", "🎵x🎵", "x", "  two words  "];

    #[test]
    fn both_forms_give_the_same() {
        for name in ["lower", "upper", "reverse", "btrim", "ltrim", "rtrim"] {
            assert_same(name, &[TEXTS], &[]);
        }
        let parts = &["", "", "Σ", "ße", "Σ", "x", "🎵", "xx", " s"];
        for name in ["btrim", "ltrim", "rtrim", "strpos"] {
            assert_same(name, &[TEXTS, parts], &[]);
        }
        for number in [0, 1, 2, 5, 100, i64::MAX, -1, -2, -100, i64::MIN + 1] {
            for name in ["left", "right", "substr"] {
                assert_same(name, &[TEXTS], &[number]);
            }
            for count in [0, 1, 3, 100] {
                assert_same("substr", &[TEXTS], &[number, count]);
            }
        }
    }

    #[test]
    fn letters_are_counted_across_pieces() {
        let meter = Meter::begin(&ConfigOptions::new(), "test");
        let all = "aé🎵".repeat(PIECE_BYTES / 3);
        assert_eq!(letters(all.as_bytes(), &meter).unwrap(), all.chars().count());
        for others in [0, 1, 2, PIECE_BYTES / 7, PIECE_BYTES / 7 * 3, PIECE_BYTES - 3, PIECE_BYTES * 2] {
            let expected = all.char_indices().nth(others).map_or(all.len(), |(place, _)| place);
            assert_eq!(letter_behind(&all, others, &meter).unwrap(), expected, "{others}");
        }
    }

    #[test]
    fn pieces_end_where_a_sigma_does_not_look() {
        let piece = "a".repeat(PIECE_BYTES);
        assert_eq!(end_of_piece(&format!("{piece}Σ"), Ends::Anywhere), PIECE_BYTES);
        assert_eq!(end_of_piece(&format!("{piece}Σ"), Ends::BetweenLetters), PIECE_BYTES + 2);
        assert_eq!(end_of_piece(&format!("{piece}.Σ ab"), Ends::BetweenLetters), PIECE_BYTES + 5);
        assert_eq!(end_of_piece("Σ", Ends::BetweenLetters), 2);
        assert_eq!(end_of_piece(&"é".repeat(PIECE_BYTES), Ends::Anywhere), PIECE_BYTES);
        assert_eq!(end_of_piece(&format!("a{}", "é".repeat(PIECE_BYTES)), Ends::Anywhere), PIECE_BYTES + 1);
    }
}
