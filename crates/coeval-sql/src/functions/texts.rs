// SPDX-License-Identifier: Apache-2.0
//! Texts: `format`, `string_to_array`, `parse_ident` ...

use super::bit_strings::{self, BIT, BITS};
use super::call::{Call, TEXTS, invalid, text};
use super::choice::{Form, Takes};
use super::long::{joined, letter_behind, letters};
use super::search::Places;
use super::{Entry, called, strict};
use crate::allowance::{Meter, VALUE_BYTES_MAX, too_large};
use crate::error::{SqlError, SqlState};
use crate::parse::ROW_TEXT;
use crate::quoting::quoted;
use coeval_store::{ColumnType, ListEncoder, Value, ValueRef, bits_length};
use datafusion::common::utils::datafusion_strsim::levenshtein;
use std::borrow::Cow;
use std::collections::HashMap;

const TEXT: Takes = Takes::Type(ColumnType::Text);
const BYTEA: Takes = Takes::Type(ColumnType::Bytea);
const BOOLEAN: Takes = Takes::Type(ColumnType::Boolean);
const INT: Takes = Takes::Type(ColumnType::Int);
const BIGINT: Takes = Takes::Type(ColumnType::BigInt);

pub(super) const ENTRIES: &[Entry] = &[
    called("format", &[Form::new(&[TEXT, Takes::Any], ColumnType::Text, format).optional(1).variadic()])
        .stable(),
    called(FORMAT_ELEMENTS, &[Form::new(&[TEXT, Takes::Any], ColumnType::Text, format_elements)]).stable(),
    called(ROW_TEXT, &[Form::new(&[Takes::Any], ColumnType::Text, row_text).variadic()]).stable(),
    called("string_to_array", &[Form::new(&[TEXT, TEXT, TEXT], TEXTS, divided).optional(1)]),
    strict("parse_ident", &[Form::new(&[TEXT, BOOLEAN], TEXTS, identifiers).optional(1)]),
    strict("repeat", &[Form::new(&[TEXT, BIGINT], ColumnType::Text, repeated)]),
    strict("replace", &[Form::new(&[TEXT, TEXT, TEXT], ColumnType::Text, replaced)]),
    strict("lpad", &[Form::new(&[TEXT, BIGINT, TEXT], ColumnType::Text, padded).optional(1)]),
    strict("rpad", &[Form::new(&[TEXT, BIGINT, TEXT], ColumnType::Text, padded).optional(1)]),
    strict(
        "overlay",
        &[
            Form::new(&[TEXT, TEXT, INT, INT], ColumnType::Text, overlaid).optional(1),
            Form::new(&[BYTEA, BYTEA, INT, INT], ColumnType::Bytea, overlaid_bytes).optional(1),
            Form::new(&[BITS, BITS, INT, INT], BIT, overlaid_bits).optional(1),
        ],
    ),
    strict("split_part", &[Form::new(&[TEXT, TEXT, INT], ColumnType::Text, field)]),
    strict("translate", &[Form::new(&[TEXT, TEXT, TEXT], ColumnType::Text, translated)]),
    strict("initcap", &[Form::new(&[TEXT], ColumnType::Text, with_capitals)]),
    strict(
        "quote_ident",
        &[Form::new(&[TEXT], ColumnType::Text, |call| Ok(text(name(call.text(0), call.meter)?)))],
    ),
    strict(
        "quote_literal",
        &[Form::new(&[Takes::Any], ColumnType::Text, |call| Ok(text(literal(&as_text(call), call.meter)?)))],
    )
    .stable(),
    called(
        "quote_nullable",
        &[Form::new(&[Takes::Any], ColumnType::Text, |call| {
            Ok(text(if call.has(0) { literal(&as_text(call), call.meter)? } else { "NULL".to_owned() }))
        })],
    )
    .stable(),
    strict("levenshtein", &[Form::new(&[TEXT, TEXT], ColumnType::Int, distance)]),
    strict("unistr", &[Form::new(&[TEXT], ColumnType::Text, unescaped)]),
    strict("chr", &[Form::new(&[BIGINT], ColumnType::Text, character)]),
];

/// The character of a number.
fn character(call: &Call<'_>) -> Result<Value, SqlError> {
    let Ok(number) = u32::try_from(call.int(0)) else {
        return Err(invalid("character number must be positive"));
    };
    let message = match char::from_u32(number) {
        // No text has one: clients take it for the end.
        Some('\0') => "null character not permitted".to_owned(),
        Some(character) => return Ok(text(character.to_string())),
        None if number > u32::from(char::MAX) => {
            format!("requested character too large for encoding: {number}")
        }
        None => format!("requested character not valid for encoding: {number}"),
    };
    Err(SqlError::new(SqlState::ProgramLimitExceeded, message))
}

/// The longest text that has a distance, as in PostgreSQL: the time grows with the product of both.
const DISTANT_CHARACTERS_MAX: usize = 255;

/// How many characters are to be changed to make one text of the other.
fn distance(call: &Call<'_>) -> Result<Value, SqlError> {
    let (left, right) = (call.text(0), call.text(1));
    if [left, right].iter().any(|side| side.chars().nth(DISTANT_CHARACTERS_MAX).is_some()) {
        let message =
            format!("levenshtein argument exceeds maximum length of {DISTANT_CHARACTERS_MAX} characters");
        return Err(invalid(message));
    }
    // At most the longer one's characters.
    Ok(Value::Int32(levenshtein(left, right) as i32))
}

/// The function behind `format(x, VARIADIC array)`.
pub(crate) const FORMAT_ELEMENTS: &str = "coeval_format_elements";

/// `format` of the elements of an array, of none if it is NULL.
fn format_elements(call: &Call<'_>) -> Result<Value, SqlError> {
    let (ty, elements) = match call.types.get(1) {
        Some(ColumnType::Array(element)) => (element.column_type(), call.elements(1)),
        _ if !call.has(1) => (ColumnType::Text, Vec::new()),
        _ => {
            let message = "VARIADIC argument must be an array";
            return Err(SqlError::new(SqlState::DatatypeMismatch, message));
        }
    };
    let values: Vec<ValueRef<'_>> =
        call.values.iter().take(1).copied().chain(elements.iter().map(|element| element.borrow())).collect();
    let types: Vec<ColumnType> =
        call.types.iter().take(1).copied().chain(elements.iter().map(|_| ty)).collect();
    format(&Call {
        name: call.name,
        values: &values,
        types: &types,
        zone: call.zone,
        result: call.result,
        meter: call.meter,
    })
}

/// The arguments as the text of a row: `(1,"a b",)`, where NULL is nothing.
fn row_text(call: &Call<'_>) -> Result<Value, SqlError> {
    let is_special =
        |letter: char| letter.is_ascii_whitespace() || matches!(letter, '"' | '\\' | '(' | ')' | ',');
    let mut row = String::from("(");
    for place in 0..call.count() {
        row.push_str(if place == 0 { "" } else { "," });
        if !call.has(place) {
            continue;
        }
        let field = call.shown(place);
        if field.is_empty() || field.contains(is_special) {
            let doubled = field.replace('\\', "\\\\").replace('"', "\"\"");
            row.extend(["\"", doubled.as_str(), "\""]);
        } else {
            row.push_str(&field);
        }
    }
    row.push(')');
    Ok(text(row))
}

/// A field of `format`: `%[place$][-][width]type`.
struct Specifier {
    kind: char,
    width: usize,
    is_left: bool,
}

/// `format('%s %I %L', ...)`.
fn format(call: &Call<'_>) -> Result<Value, SqlError> {
    if !call.has(0) {
        return Ok(Value::Null);
    }
    let mut reader = Reader { rest: call.text(0), next: 1, call };
    let mut written = String::new();
    while let Some(start) = reader.rest.find('%') {
        written.push_str(&reader.rest[..start]);
        reader.rest = &reader.rest[start + 1..];
        if let Some(behind) = reader.rest.strip_prefix('%') {
            written.push('%');
            reader.rest = behind;
            continue;
        }
        let (specifier, place) = reader.specifier()?;
        let value = value(call, place, specifier.kind)?;
        let missing = specifier.width.saturating_sub(value.chars().count());
        call.meter.take(value.len() + missing)?;
        push_padded(&value, missing, &specifier, &mut written);
    }
    written.push_str(reader.rest);
    Ok(text(written))
}

/// The value and so many blanks, which stand behind it if it is to be at the left.
fn push_padded(value: &str, missing: usize, specifier: &Specifier, out: &mut String) {
    let blanks = std::iter::repeat_n(' ', missing);
    if specifier.is_left {
        out.push_str(value);
        out.extend(blanks);
    } else {
        out.extend(blanks);
        out.push_str(value);
    }
}

/// An argument as the letter says; NULL is no text, and no name.
fn value<'a>(call: &'a Call<'_>, place: usize, kind: char) -> Result<Cow<'a, str>, SqlError> {
    match (kind, call.has(place)) {
        ('s', false) => Ok("".into()),
        ('s', true) => Ok(call.shown(place)),
        ('I', true) => Ok(name(&call.shown(place), call.meter)?.into()),
        ('I', false) => {
            let message = "null values cannot be formatted as an SQL identifier";
            Err(SqlError::new(SqlState::NullValueNotAllowed, message))
        }
        ('L', false) => Ok("NULL".into()),
        _ => Ok(literal(&call.shown(place), call.meter)?.into()),
    }
}

struct Reader<'r> {
    rest: &'r str,
    /// The argument that is next if no place is named.
    next: usize,
    call: &'r Call<'r>,
}

impl Reader<'_> {
    fn specifier(&mut self) -> Result<(Specifier, usize), SqlError> {
        let named = self.place()?;
        let mut is_left = false;
        while let Some(behind) = self.rest.strip_prefix('-') {
            (is_left, self.rest) = (true, behind);
        }
        let width = self.width()?;
        let kind = self.rest.chars().next().ok_or_else(unterminated)?;
        if !matches!(kind, 's' | 'I' | 'L') {
            return Err(invalid(format!("unrecognized format() type specifier \"{kind}\""))
                .with_hint("For a single \"%\" use \"%%\"."));
        }
        self.rest = &self.rest[1..];
        let place = self.argument(named)?;
        let specifier = Specifier {
            kind,
            width: usize::try_from(width.unsigned_abs()).unwrap_or(0),
            is_left: is_left || width < 0,
        };
        Ok((specifier, place))
    }

    /// The number in front of `$`.
    fn place(&mut self) -> Result<Option<usize>, SqlError> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || !self.rest[digits..].starts_with('$') {
            return Ok(None);
        }
        let place = number(&self.rest[..digits])?;
        self.rest = &self.rest[digits + 1..];
        match usize::try_from(place) {
            Ok(place) if place > 0 => Ok(Some(place)),
            _ => Err(invalid("format specifies argument 0, but arguments are numbered from 1")),
        }
    }

    /// The width, which may be an argument.
    fn width(&mut self) -> Result<i32, SqlError> {
        if let Some(behind) = self.rest.strip_prefix('*') {
            self.rest = behind;
            let named = self.place()?;
            let place = self.argument(named)?;
            return if self.call.has(place) { number(&self.call.shown(place)) } else { Ok(0) };
        }
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (width, behind) = self.rest.split_at(digits);
        self.rest = behind;
        if width.is_empty() { Ok(0) } else { number(width) }
    }

    fn argument(&mut self, named: Option<usize>) -> Result<usize, SqlError> {
        let place = named.unwrap_or(self.next);
        self.next = place + 1;
        if place < self.call.count() { Ok(place) } else { Err(invalid("too few arguments for format()")) }
    }
}

fn unterminated() -> SqlError {
    invalid("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".")
}

/// The widest field, so that no pattern asks for more memory than there is.
const WIDTH_MAX: i32 = 1 << 26;

fn number(digits: &str) -> Result<i32, SqlError> {
    let number = digits.trim().parse::<i32>().ok().filter(|number| number.abs() <= WIDTH_MAX);
    number.ok_or_else(|| invalid("number is out of range"))
}

/// `string_to_array(text, delimiter [, what is NULL])`: without a delimiter letter by letter.
fn divided(call: &Call<'_>) -> Result<Value, SqlError> {
    if !call.has(0) {
        return Ok(Value::Null);
    }
    let (all, delimiter) = (call.text(0), call.text(1));
    let is_null = |part: &str| call.has(2) && call.text(2) == part;
    let mut list = ListEncoder::default();
    let mut push = |part: &str| {
        call.meter.step()?;
        call.meter.take(part.len() + ELEMENT_BYTES)?;
        list.push(if is_null(part) { ValueRef::Null } else { ValueRef::Text(part) });
        Ok::<_, SqlError>(())
    };
    if !call.has(1) {
        all.char_indices().try_for_each(|(start, letter)| push(&all[start..start + letter.len_utf8()]))?;
    } else if !all.is_empty() {
        let (mut places, mut done) = (Places::of(delimiter, all, call.meter)?, 0);
        while let Some(place) = places.next()? {
            push(&all[done..place])?;
            done = place + delimiter.len();
        }
        push(&all[done..])?;
    }
    Ok(list.value())
}

/// What an element of an array takes beside its text.
const ELEMENT_BYTES: usize = 8;

/// `repeat(text, count)`.
fn repeated(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, count) = (call.text(0), usize::try_from(call.int(1)).unwrap_or(0));
    let length = all.len().saturating_mul(count);
    call.meter.value(length)?;
    if length <= PIECE_BYTES {
        return Ok(text(all.repeat(count)));
    }
    // Memory that is touched for the first time is slow: whether the statement is to end is asked on the way.
    let piece = all.len() * (PIECE_BYTES / all.len()).max(1);
    let mut repeated = String::with_capacity(length);
    repeated.push_str(all);
    while repeated.len() < length {
        call.meter.look()?;
        let more = piece.min(repeated.len()).min(length - repeated.len());
        repeated.extend_from_within(..more);
    }
    Ok(text(repeated))
}

/// What [`repeated`] puts together between looks, as far as one text is not longer.
const PIECE_BYTES: usize = 1 << 20;

/// `replace(text, from, to)`.
fn replaced(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, from, to) = (call.text(0), call.text(1), call.text(2));
    if from.is_empty() {
        return Ok(text(all));
    }
    Ok(text(with_replaced(all, from, to, call.meter)?))
}

/// The text with another one in each place of `from`, which is not empty.
fn with_replaced(all: &str, from: &str, to: &str, meter: &Meter) -> Result<String, SqlError> {
    let mut places = Places::of(from, all, meter)?;
    let (mut out, mut done) = (String::new(), 0);
    while let Some(place) = places.next()? {
        meter.longer(out.len(), place - done + to.len())?;
        out.push_str(&all[done..place]);
        out.push_str(to);
        done = place + from.len();
    }
    meter.longer(out.len(), all.len() - done)?;
    out.push_str(&all[done..]);
    Ok(out)
}

/// The text as a name in SQL: in quotes, if it would be read otherwise.
fn name(all: &str, meter: &Meter) -> Result<String, SqlError> {
    if all.len() <= NAME_BYTES_MAX {
        return Ok(quoted(all));
    }
    Ok(format!("\"{}\"", with_replaced(all, "\"", "\"\"", meter)?))
}

/// Longer ones are no names. They are in quotes, whatever they are.
const NAME_BYTES_MAX: usize = 64 << 10;

/// The first argument as a cast to text gives it.
fn as_text<'a>(call: &'a Call<'_>) -> Cow<'a, str> {
    match call.values.first() {
        Some(ValueRef::Boolean(true)) => "true".into(),
        Some(ValueRef::Boolean(false)) => "false".into(),
        _ => call.shown(0),
    }
}

/// The text as a literal of SQL.
fn literal(all: &str, meter: &Meter) -> Result<String, SqlError> {
    let doubled = with_replaced(all, "'", "''", meter)?;
    if !all.contains('\\') {
        return Ok(format!("'{doubled}'"));
    }
    Ok(format!("E'{}'", with_replaced(&doubled, "\\", "\\\\", meter)?))
}

/// `translate(text, from, to)`: each letter of `from` becomes the one of `to` at its place, or nothing behind the end of that.
fn translated(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, mut to) = (call.text(0), call.text(2).chars());
    let mut letters = HashMap::new();
    for from in call.text(1).chars() {
        call.meter.step()?;
        let becomes = to.next();
        letters.entry(from).or_insert(becomes);
    }
    let mut out = String::new();
    for letter in all.chars() {
        call.meter.step()?;
        if let Some(letter) = letters.get(&letter).copied().unwrap_or(Some(letter)) {
            call.meter.longer(out.len(), letter.len_utf8())?;
            out.push(letter);
        }
    }
    Ok(text(out))
}

/// `initcap(text)`: the first letter of each word is a capital, and no other one.
fn with_capitals(call: &Call<'_>) -> Result<Value, SqlError> {
    let (mut out, mut is_inside) = (String::new(), false);
    for letter in call.text(0).chars() {
        call.meter.step()?;
        let before = out.len();
        if is_inside {
            out.extend(letter.to_lowercase());
        } else {
            out.extend(letter.to_uppercase());
        }
        call.meter.longer(before, out.len() - before)?;
        is_inside = letter.is_alphanumeric();
    }
    Ok(text(out))
}

/// `lpad(text, length [, fill])` and `rpad`: letters are counted, and a longer text is cut behind the length.
fn padded(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, fill) = (call.text(0), if call.count() == 3 { call.text(2) } else { " " });
    let length = usize::try_from(call.int(1)).unwrap_or(0);
    if length > VALUE_BYTES_MAX {
        return Err(too_large());
    }
    let letters = all.chars().count();
    if letters >= length || fill.is_empty() {
        let end = all.char_indices().nth(length).map_or(all.len(), |(end, _)| end);
        return Ok(text(&all[..end]));
    }
    let missing = length - letters;
    let widest = fill.chars().map(char::len_utf8).max().unwrap_or(1);
    call.meter.value(missing.saturating_mul(widest).saturating_add(all.len()))?;
    let mut padding = String::new();
    for letter in fill.chars().cycle().take(missing) {
        call.meter.step()?;
        padding.push(letter);
    }
    if call.name == "lpad" {
        padding.push_str(all);
        return Ok(text(padding));
    }
    Ok(text(format!("{all}{padding}")))
}

/// `overlay(text placing other from start [for count])`: the other one in the place of so many letters, of as many as it has if that is
/// not said.
fn overlaid(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, other) = (call.text(0), call.text(1));
    let (start, end) = replaced_part(call, || letters(other.as_bytes(), call.meter))?;
    let place = |letter: i64| letter_behind(all, usize::try_from(letter - 1).unwrap_or(0), call.meter);
    let (before, behind) = (&all[..place(start)?], &all[place(end)?..]);
    Ok(text(joined(&[before, other, behind], call.meter)?))
}

/// `overlay(bytea placing other from start [for count])`: as of a text, of bytes in the place of letters.
fn overlaid_bytes(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, other) = (call.bytes(0), call.bytes(1));
    let (start, end) = replaced_part(call, || Ok(other.len()))?;
    let place = |byte: i64| usize::try_from(byte - 1).unwrap_or(0).min(all.len());
    Ok(Value::Bytes([&all[..place(start)], other, &all[place(end)..]].concat().into()))
}

/// `overlay(bits placing other from start [for count])`: as of a text, of bits in the place of letters.
fn overlaid_bits(call: &Call<'_>) -> Result<Value, SqlError> {
    let (start, end) = replaced_part(call, || Ok(bits_length(call.bytes(1))))?;
    let before = |place: i64| usize::try_from(place - 1).unwrap_or(0);
    bit_strings::overlaid(call, before(start), before(end))
}

/// Where the part begins that is replaced, and what is behind it. It is as long as the other one if nothing is said.
///
/// # Errors
/// `22011` for a start in front of the first, `22003` beyond 32 bits; those of `length`.
fn replaced_part(
    call: &Call<'_>,
    length: impl FnOnce() -> Result<usize, SqlError>,
) -> Result<(i64, i64), SqlError> {
    let start = call.int(2);
    if start <= 0 {
        return Err(SqlError::new(SqlState::SubstringError, "negative substring length not allowed"));
    }
    let count = if call.count() == 4 { call.int(3) } else { length()? as i64 };
    // Both are integers of 32 bits, or the length of a value.
    let end = start + count;
    if i32::try_from(end).is_err() {
        return Err(SqlError::new(SqlState::NumericValueOutOfRange, "integer out of range"));
    }
    Ok((start, end))
}

/// `split_part(text, delimiter, number)`; negative numbers count from the end.
fn field(call: &Call<'_>) -> Result<Value, SqlError> {
    let (all, delimiter, number) = (call.text(0), call.text(1), call.int(2));
    if number == 0 {
        return Err(invalid("field position must not be zero"));
    }
    let place = usize::try_from(number.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let found = match delimiter.is_empty() {
        // There is one field.
        true => (place == 0).then_some(all),
        false if number > 0 => field_from_start(call, place)?,
        false => all.rsplit(delimiter).nth(place),
    };
    Ok(text(if all.is_empty() { "" } else { found.unwrap_or_default() }))
}

/// The field behind so many others.
fn field_from_start<'a>(call: &'a Call<'_>, before: usize) -> Result<Option<&'a str>, SqlError> {
    let (all, delimiter) = (call.text(0), call.text(1));
    let mut places = Places::of(delimiter, all, call.meter)?;
    let (mut start, mut passed) = (0, 0);
    while let Some(end) = places.next()? {
        if passed == before {
            return Ok(Some(&all[start..end]));
        }
        (start, passed) = (end + delimiter.len(), passed + 1);
    }
    Ok((passed == before).then(|| &all[start..]))
}

/// The parts of a qualified name, folded unless they are quoted.
fn identifiers(call: &Call<'_>) -> Result<Value, SqlError> {
    let name = call.text(0);
    let wrong =
        |detail: &str| invalid(format!("string is not a valid identifier: \"{name}\"")).with_detail(detail);
    let is_strict = call.count() < 2 || !matches!(call.values[1], coeval_store::ValueRef::Boolean(false));
    let mut parts = ListEncoder::default();
    let mut is_first = true;
    let mut rest = name.trim_start();
    loop {
        call.meter.step()?;
        call.meter.take(size_of::<Option<String>>())?;
        if let Some(inside) = rest.strip_prefix('"') {
            let (part, behind) =
                quoted_part(inside).ok_or_else(|| wrong("String has unclosed double quotes."))?;
            if part.is_empty() {
                return Err(wrong("Quoted identifier must not be empty."));
            }
            parts.push(ValueRef::Text(&part));
            rest = behind;
        } else {
            let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
            let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            if end == 0 || rest.starts_with(|letter: char| letter.is_ascii_digit() || letter == '$') {
                return Err(wrong(match (is_first, rest.starts_with('.')) {
                    (_, true) => "No valid identifier before \".\".",
                    (false, false) => "No valid identifier after \".\".",
                    (true, false) => "The name has no letters.",
                }));
            }
            parts.push(ValueRef::Text(&rest[..end].to_lowercase()));
            rest = &rest[end..];
        }
        is_first = false;
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(behind) => rest = behind.trim_start(),
            None if rest.is_empty() || !is_strict => return Ok(parts.value()),
            None => return Err(invalid(format!("string is not a valid identifier: \"{name}\""))),
        }
    }
}

/// What stands up to the closing quote, and what follows that.
fn quoted_part(inside: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = inside;
    loop {
        let (before, behind) = rest.split_once('"')?;
        part.push_str(before);
        match behind.strip_prefix('"') {
            Some(more) => {
                part.push('"');
                rest = more;
            }
            None => return Some((part, behind)),
        }
    }
}

/// `\0041`, `\+000041`, `\u0041`, `\U00000041` as the letters they stand for.
fn unescaped(call: &Call<'_>) -> Result<Value, SqlError> {
    let wrong = || {
        SqlError::syntax("invalid Unicode escape")
            .with_hint("Four hexadecimal digits stand behind \\ or \\u, six behind \\+, eight behind \\U.")
    };
    let mut out = String::new();
    let mut rest = call.text(0);
    while let Some((before, behind)) = rest.split_once('\\') {
        call.meter.step()?;
        call.meter.longer(out.len(), before.len() + 1)?;
        out.push_str(before);
        let (skipped, digits) = match behind.as_bytes().first() {
            Some(b'\\') => {
                out.push('\\');
                rest = &behind[1..];
                continue;
            }
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let code = behind.get(skipped..skipped + digits).ok_or_else(wrong)?;
        let letter = u32::from_str_radix(code, 16).ok().and_then(char::from_u32).ok_or_else(wrong)?;
        out.push(letter);
        rest = &behind[skipped + digits..];
    }
    out.push_str(rest);
    Ok(text(out))
}
