// SPDX-License-Identifier: Apache-2.0
//! The `regexp_` functions, and `SIMILAR TO`.
//!
//! | file | |
//! |---|---|
//! | [`syntax`] | reads PostgreSQL's syntax |
//! | [`pattern`] | a pattern that is ready to be looked for, and who looks for it |
//! | [`written`], [`settled`] | the syntax of the `regex` crate, and whether that finds the same |
//! | [`outline`] | what the crate can say of patterns that it does not know |
//! | [`automaton`] | whether there is a match in a long text, and where one may end |
//! | [`machine`], [`search`] | the match that PostgreSQL finds, where the crate finds another one or none |
//! | [`initial`] | what texts begin with that a pattern matches |
//! | [`similar`] | patterns of `SIMILAR TO` |
//! | [`lists`] | lists of patterns |

mod automaton;
mod found;
mod initial;
mod letters;
mod lists;
mod machine;
mod outline;
mod pattern;
mod search;
mod settled;
mod similar;
mod syntax;
mod written;

use super::call::{Call, TEXTS, invalid, text, texts};
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::allowance::Meter;
use crate::error::SqlError;
use coeval_store::{ColumnType, Value};
use found::{Found, Span};
pub(crate) use initial::{initial_for_operator, initial_of_like, initial_of_regular};
pub(super) use lists::ENTRIES as LIST_ENTRIES;
pub(crate) use lists::{MATCHES_ALL, MATCHES_ANY};
use pattern::{Options, compiled};
pub(crate) use pattern::{Pattern, compiled_for_operator, pattern_of_operator, pattern_of_path};
pub(crate) use similar::{as_regular as similar_pattern, escape_letter};
use std::rc::Rc;

const TEXT: Takes = Takes::Type(ColumnType::Text);
const INT: Takes = Takes::Type(ColumnType::Int);

/// The function whose array has a text for each row of `regexp_matches`, which is the array of that row.
pub(crate) const ROWS_OF_MATCHES: &str = "coeval_regexp_matches";

/// The function that stands for `~` where DataFusion's operator does not: of a `char(n)` it sees the blanks, which `regexp_like` does not.
pub(crate) const HAS_MATCH: &str = "coeval_has_match";

/// The function that LIKE becomes when a plan is complete.
pub(crate) const LIKE_FUNCTION: &str = "coeval_like";

/// The one that DataFusion's `~` becomes then.
pub(crate) const REGEX_FUNCTION: &str = "coeval_matches";

pub(super) const ENTRIES: &[Entry] = &[
    strict("regexp_count", &[Form::new(&[TEXT, TEXT, INT, TEXT], ColumnType::Int, counted).optional(2)]),
    strict(
        "regexp_instr",
        &[Form::new(&[TEXT, TEXT, INT, INT, INT, TEXT, INT], ColumnType::Int, position).optional(5)],
    ),
    strict("regexp_like", &[Form::new(&[TEXT, TEXT, TEXT], ColumnType::Boolean, has_match).optional(1)]),
    strict(HAS_MATCH, &[Form::new(&[TEXT, TEXT, TEXT], ColumnType::Boolean, has_match).optional(1)]),
    strict("regexp_match", &[Form::new(&[TEXT, TEXT, TEXT], TEXTS, first_match).optional(1)]),
    strict(ROWS_OF_MATCHES, &[Form::new(&[TEXT, TEXT, TEXT], TEXTS, all_matches).optional(1)]),
    strict(
        "regexp_replace",
        &[
            Form::new(&[TEXT, TEXT, TEXT, TEXT], ColumnType::Text, replaced).optional(1),
            Form::new(&[TEXT, TEXT, TEXT, INT, INT, TEXT], ColumnType::Text, replaced_from).optional(2),
        ],
    ),
    strict("regexp_split_to_array", &[Form::new(&[TEXT, TEXT, TEXT], TEXTS, split).optional(1)]),
    strict(
        "regexp_substr",
        &[Form::new(&[TEXT, TEXT, INT, INT, TEXT, INT], ColumnType::Text, part).optional(4)],
    ),
    strict(
        "coeval_similar_pattern",
        &[Form::new(&[TEXT, TEXT], ColumnType::Text, |call| {
            similar::as_regular(call.text(0), call.text(1)).map(text)
        })],
    ),
    strict(
        "coeval_similar_part",
        &[Form::new(&[TEXT, TEXT], ColumnType::Text, |call| {
            similar::as_part(call.text(0), call.text(1)).map(text)
        })],
    ),
];

/// The options at this place; none if there is no such argument.
fn options(call: &Call<'_>, place: usize) -> Result<Options, SqlError> {
    if place < call.count() { Options::parse(call.text(place)) } else { Ok(Options::default()) }
}

/// The pattern of a function that looks for one match, or counts on its own.
fn single(call: &Call<'_>, place: usize) -> Result<Rc<Pattern>, SqlError> {
    let options = options(call, place)?;
    if options.is_global {
        return Err(invalid(format!("{}() does not support the \"global\" option", call.name)));
    }
    compiled(call.text(1), options)
}

/// A number that counts from one.
fn positive(call: &Call<'_>, place: usize, name: &str) -> Result<usize, SqlError> {
    if place >= call.count() {
        return Ok(1);
    }
    let number = call.int(place);
    usize::try_from(number)
        .ok()
        .filter(|&number| number > 0)
        .ok_or_else(|| invalid(format!("invalid value for parameter \"{name}\": {number}")))
}

/// A number that counts from zero.
fn natural(call: &Call<'_>, place: usize, name: &str) -> Result<usize, SqlError> {
    let number = if place < call.count() { call.int(place) } else { 0 };
    usize::try_from(number).map_err(|_| invalid(format!("invalid value for parameter \"{name}\": {number}")))
}

/// The byte at which the letter of this number begins; `None` behind the last one.
fn offset(text: &str, letter: usize) -> Option<usize> {
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    places.nth(letter - 1)
}

/// All matches from a byte on; behind an empty one the search goes on a letter later. The last may be an error.
fn matches<'t>(
    regex: &Pattern,
    text: &'t str,
    from: usize,
    meter: &Meter,
) -> impl Iterator<Item = Result<Found<'t>, SqlError>> {
    let mut next = Some(from);
    std::iter::from_fn(move || {
        let from = next.take()?;
        let found = match meter.step().and_then(|()| regex.found_at(text, from, meter)) {
            Ok(found) => found?,
            Err(error) => return Some(Err(error)),
        };
        let whole = found.whole();
        next = match whole.is_empty() {
            true => text[whole.end..].chars().next().map(|letter| whole.end + letter.len_utf8()),
            false => Some(whole.end),
        };
        Some(Ok(found))
    })
}

fn has_match(call: &Call<'_>) -> Result<Value, SqlError> {
    let regex = single(call, 2)?;
    regex.is_match(call.text(0), call.meter).map(Value::Boolean)
}

fn counted(call: &Call<'_>) -> Result<Value, SqlError> {
    let start = positive(call, 2, "start")?;
    let regex = single(call, 3)?;
    let mut count = 0;
    if let Some(from) = offset(call.text(0), start) {
        for found in matches(&regex, call.text(0), from, call.meter) {
            found?;
            count += 1;
        }
    }
    Ok(Value::Int32(count))
}

/// The part of the match with this number, from a letter on: the whole of it, or one of its groups.
fn found<'t>(
    meter: &Meter,
    (regex, text): (&Pattern, &'t str),
    start: usize,
    number: usize,
    group: usize,
) -> Result<Option<Span<'t>>, SqlError> {
    let Some(from) = offset(text, start) else { return Ok(None) };
    for (place, found) in matches(regex, text, from, meter).enumerate() {
        let found = found?;
        if place + 1 == number {
            // Of a pattern without groups the first one is the whole match.
            let group = if found.has_groups() { group } else { group.saturating_sub(1) };
            return Ok(found.get(group));
        }
    }
    Ok(None)
}

fn position(call: &Call<'_>) -> Result<Value, SqlError> {
    let (start, number) = (positive(call, 2, "start")?, positive(call, 3, "n")?);
    let is_end = match natural(call, 4, "endoption")? {
        0 => false,
        1 => true,
        other => return Err(invalid(format!("invalid value for parameter \"endoption\": {other}"))),
    };
    let regex = single(call, 5)?;
    let group = natural(call, 6, "subexpr")?;
    let text = call.text(0);
    let place = found(call.meter, (&regex, text), start, number, group)?.map_or(0, |part| {
        let end = if is_end { part.end } else { part.start };
        text[..end].chars().count() + 1
    });
    Ok(Value::Int32(i32::try_from(place).unwrap_or(i32::MAX)))
}

fn part(call: &Call<'_>) -> Result<Value, SqlError> {
    let (start, number) = (positive(call, 2, "start")?, positive(call, 3, "n")?);
    let regex = single(call, 4)?;
    let group = natural(call, 5, "subexpr")?;
    let part = found(call.meter, (&regex, call.text(0)), start, number, group)?;
    Ok(part.map_or(Value::Null, |part| text(part.as_str())))
}

fn first_match(call: &Call<'_>) -> Result<Value, SqlError> {
    let options = options(call, 2)?;
    if options.is_global {
        return Err(invalid("regexp_match() does not support the \"global\" option")
            .with_hint("Use the regexp_matches function instead."));
    }
    let regex = compiled(call.text(1), options)?;
    let found = regex.found_at(call.text(0), 0, call.meter)?;
    Ok(found.map_or(Value::Null, |found| texts(found.texts())))
}

fn all_matches(call: &Call<'_>) -> Result<Value, SqlError> {
    let options = options(call, 2)?;
    let regex = compiled(call.text(1), options)?;
    let most = if options.is_global { usize::MAX } else { 1 };
    let mut rows = Vec::new();
    for found in matches(&regex, call.text(0), 0, call.meter).take(most) {
        let mut row = String::new();
        let value = texts(found?.texts());
        crate::types::format_value(value.borrow(), TEXTS, call.zone, &mut row);
        call.meter.take(row.len() + size_of::<Option<String>>())?;
        rows.push(Some(row));
    }
    Ok(texts(rows))
}

fn replaced(call: &Call<'_>) -> Result<Value, SqlError> {
    if call.count() > 3 && call.text(3).starts_with(|letter: char| letter.is_ascii_digit()) {
        return Err(invalid(format!("invalid regular expression option: \"{}\"", &call.text(3)[..1])).with_hint(
            "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.",
        ));
    }
    let options = options(call, 3)?;
    let regex = compiled(call.text(1), options)?;
    let number = if options.is_global { None } else { Some(1) };
    with_replacement(call.meter, (&regex, call.text(0)), 0, number, call.text(2)).map(text)
}

/// `regexp_replace(text, pattern, replacement, start, number [, flags])`; number zero stands for all of them.
fn replaced_from(call: &Call<'_>) -> Result<Value, SqlError> {
    let start = positive(call, 3, "start")?;
    let options = options(call, 5)?;
    let number = match (call.count(), natural(call, 4, "n")?) {
        (4, _) if !options.is_global => Some(1),
        (4, _) | (_, 0) => None,
        (_, number) => Some(number),
    };
    let regex = compiled(call.text(1), options)?;
    let all = call.text(0);
    let Some(from) = offset(all, start) else {
        call.meter.take(all.len())?;
        return Ok(text(all));
    };
    with_replacement(call.meter, (&regex, all), from, number, call.text(2)).map(text)
}

/// The text with the match of this number replaced, or all of them.
fn with_replacement(
    meter: &Meter,
    (regex, text): (&Pattern, &str),
    from: usize,
    number: Option<usize>,
    replacement: &str,
) -> Result<String, SqlError> {
    meter.take(text.len())?;
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for (place, found) in matches(regex, text, from, meter).enumerate() {
        let found = found?;
        let wanted = number.unwrap_or(place + 1);
        if place + 1 == wanted {
            let whole = found.whole();
            out.push_str(&text[copied..whole.start]);
            push_replacement(meter, &found, replacement, &mut out)?;
            copied = whole.end;
        }
        if number.is_some() && place + 1 == wanted {
            break;
        }
    }
    out.push_str(&text[copied..]);
    Ok(out)
}

/// Appends what stands for a match: `\1` is a group, `\&` all of it.
fn push_replacement(
    meter: &Meter,
    found: &Found<'_>,
    replacement: &str,
    out: &mut String,
) -> Result<(), SqlError> {
    meter.longer(out.len(), replacement.len())?;
    let push = |part: &str, out: &mut String| {
        meter.step()?;
        meter.longer(out.len(), part.len())?;
        out.push_str(part);
        Ok::<_, SqlError>(())
    };
    let mut letters = replacement.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('&') => push(found.whole().as_str(), out)?,
            Some(digit @ '1'..='9') => {
                let group = found.get(digit as usize - '0' as usize);
                push(group.map_or("", |part| part.as_str()), out)?;
            }
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
    Ok(())
}

/// What stands between the matches. Empty ones at the ends, and right behind another, are none.
fn split(call: &Call<'_>) -> Result<Value, SqlError> {
    let regex = single(call, 2)?;
    let text = call.text(0);
    let (mut parts, mut copied) = (Vec::new(), 0);
    for found in matches(&regex, text, 0, call.meter) {
        let found = found?;
        let whole = found.whole();
        if whole.start < text.len() && whole.end > copied {
            call.meter.take(whole.start - copied + 2 * size_of::<&str>())?;
            parts.push(Some(&text[copied..whole.start]));
            copied = whole.end;
        }
    }
    parts.push(Some(&text[copied..]));
    Ok(texts(parts))
}
