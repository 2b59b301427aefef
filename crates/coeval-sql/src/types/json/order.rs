// SPDX-License-Identifier: Apache-2.0
//! The order of `jsonb`: texts that compare as PostgreSQL compares documents.
//!
//! | | is above |
//! |---|---|
//! | an object | an array |
//! | an array | a boolean |
//! | `true` | `false`, and both a number |
//! | a number | a string |
//! | a string | `null` |
//! | more members, more elements | fewer |
//!
//! With as many members, objects compare key by key and value by value, in the order in which they keep their keys;
//! arrays element by element. Strings compare by bytes. An empty array that is all of a document is below everything
//! else: PostgreSQL has it so since its first release, and orders indexes by it. `1` and `1.0` are equal.

use super::document::{Kind, Part};

/// What an array or an object as a whole begins with; other documents are between the first two.
const EMPTY_ARRAY: u8 = 0;
const SCALAR: u8 = 1;
const ARRAY: u8 = 2;
const OBJECT: u8 = 3;

/// The text of a document: a character for each byte of its key, since characters are in the order of their numbers. Of
/// texts DataFusion makes windows, of bytes it does not.
pub(crate) fn order_key(document: Part<'_>) -> String {
    let mut key = Vec::with_capacity(document.text().len() + 8);
    match document.kind() {
        Kind::Array if document.elements().next().is_none() => key.push(EMPTY_ARRAY),
        Kind::Array => key.push(ARRAY),
        Kind::Object => key.push(OBJECT),
        _ => key.push(SCALAR),
    }
    push_value(document, &mut key);
    key.into_iter().map(char::from).collect()
}

fn push_value(part: Part<'_>, key: &mut Vec<u8>) {
    match part.kind() {
        Kind::Null => key.push(0),
        Kind::String => {
            key.push(1);
            push_string(part, key);
        }
        Kind::Number => {
            key.push(2);
            push_number(part.text(), key);
        }
        Kind::Boolean => key.extend([3, u8::from(part.text() == "true")]),
        Kind::Array => {
            key.push(4);
            push_count(part.elements().count(), key);
            part.elements().for_each(|element| push_value(element, key));
        }
        Kind::Object => {
            key.push(5);
            push_count(part.members().count(), key);
            for (name, value) in part.members() {
                push_string(name, key);
                push_value(value, key);
            }
        }
    }
}

fn push_count(count: usize, key: &mut Vec<u8>) {
    key.extend((count as u64).to_be_bytes());
}

/// A zero byte ends it, so a zero within is followed by a mark that is above the end.
fn push_string(part: Part<'_>, key: &mut Vec<u8>) {
    for byte in part.string().unwrap_or_default().bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(1);
        }
    }
    key.extend([0, 0]);
}

/// The sign, how many digits stand before the point, and the digits; of a negative number turned round.
fn push_number(text: &str, key: &mut Vec<u8>) {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: Vec<u8> = whole.bytes().chain(part.bytes()).collect();
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    let significant =
        digits.iter().rposition(|&digit| digit != b'0').map_or(&[][..], |last| &digits[zeros..=last]);
    if significant.is_empty() {
        return key.push(1);
    }
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let before_point = exponent.saturating_add(whole.len() as i64).saturating_sub(zeros as i64);
    let mut number = before_point.wrapping_sub(i64::MIN).to_be_bytes().to_vec();
    number.extend(significant);
    number.push(0);
    key.push(if is_negative { 0 } else { 2 });
    key.extend(number.into_iter().map(|byte| if is_negative { !byte } else { byte }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_in_the_order_of_postgresql() {
        let ascending = [
            "[]",
            "null",
            "\"\"",
            "\"\\u0000\"",
            "\"A\"",
            "\"a\"",
            "\"ab\"",
            "\"b\"",
            "-1e400",
            "-20",
            "-3.5",
            "-3",
            "-0.5",
            "-1e-7",
            "0",
            "1e-7",
            "0.5",
            "2",
            "2.5",
            "14",
            "1e400",
            "false",
            "true",
            "[null]",
            "[2]",
            "[14]",
            "[[]]",
            "[{}]",
            "[0, 0]",
            "{}",
            "{\"a\": null}",
            "{\"a\": 1}",
            "{\"b\": 0}",
            "{\"a\": 0, \"b\": 1}",
        ];
        let keys: Vec<_> = ascending.iter().map(|text| order_key(Part::of(text))).collect();
        for (place, pair) in keys.windows(2).enumerate() {
            assert!(pair[0] < pair[1], "{} {}", ascending[place], ascending[place + 1]);
        }
        for (left, right) in [("1", "1.0"), ("100", "1e2"), ("0", "-0.00"), ("[1]", "[1.00]")] {
            assert_eq!(order_key(Part::of(left)), order_key(Part::of(right)), "{left} {right}");
        }
    }
}
