// SPDX-License-Identifier: Apache-2.0
//! Walking over a text that is known to be JSON.

use std::borrow::Cow;

/// A value in a document: the part of the text that writes it, without blanks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a>(&'a str);

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    Boolean,
    Null,
}

impl Kind {
    /// As `json_typeof` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Null => "null",
        }
    }
}

impl<'a> Part<'a> {
    /// The value that a text is. The text has been looked at when it became a value of its type.
    pub(crate) fn of(text: &'a str) -> Self {
        Self(text.trim_ascii())
    }

    /// As it is written.
    pub(crate) fn text(self) -> &'a str {
        self.0
    }

    pub(crate) fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// A string without its quotes and escapes; `None` if it is none, or writes half a character.
    pub(crate) fn string(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if inner.contains('\\') {
            serde_json::from_str(self.0).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(inner))
        }
    }

    /// As `->>` gives it: strings without quotes, nothing for null.
    pub(crate) fn plain(self) -> Option<Cow<'a, str>> {
        match self.kind() {
            Kind::Null => None,
            Kind::String => self.string(),
            _ => Some(Cow::Borrowed(self.0)),
        }
    }

    /// The elements of an array, in order; none of anything else.
    pub(crate) fn elements(self) -> impl Iterator<Item = Part<'a>> {
        let mut walk = Walk { text: self.0, at: 1 };
        let is_array = self.kind() == Kind::Array;
        std::iter::from_fn(move || if is_array { walk.next_value() } else { None })
    }

    /// The members of an object, in order; none of anything else.
    pub(crate) fn members(self) -> impl Iterator<Item = (Part<'a>, Part<'a>)> {
        let mut walk = Walk { text: self.0, at: 1 };
        let is_object = self.kind() == Kind::Object;
        std::iter::from_fn(
            move || if is_object { Some((walk.next_value()?, walk.next_value()?)) } else { None },
        )
    }

    /// The member of this name; the last one of several.
    pub(crate) fn member(self, name: &str) -> Option<Part<'a>> {
        let named = self.members().filter(|(key, _)| key.string().is_some_and(|key| key == name));
        named.last().map(|(_, value)| value)
    }

    /// The element at this place, counted from the end if it is negative.
    pub(crate) fn element(self, place: i64) -> Option<Part<'a>> {
        match usize::try_from(place) {
            Ok(place) => self.elements().nth(place),
            Err(_) => {
                let elements: Vec<_> = self.elements().collect();
                let from_end = usize::try_from(place.unsigned_abs()).ok()?;
                elements.len().checked_sub(from_end).map(|place| elements[place])
            }
        }
    }

    pub(crate) fn tokens(self) -> Tokens<'a> {
        Tokens { text: self.0, at: 0 }
    }

    /// What a step of a path leads to: a member, or an element by its number.
    pub(crate) fn step(self, step: &str) -> Option<Part<'a>> {
        match self.kind() {
            Kind::Object => self.member(step),
            Kind::Array => self.element(step.trim().parse().ok()?),
            _ => None,
        }
    }
}

/// The words and marks of a document, in their order: strings with their quotes, numbers, literals, and each of `{}[],:`.
pub(crate) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let is_mark = |byte: &u8| matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':');
        while bytes.get(self.at).is_some_and(is_blank) {
            self.at += 1;
        }
        let start = self.at;
        self.at = match bytes.get(start)? {
            b'"' => string_end(bytes, start),
            byte if is_mark(byte) => start + 1,
            _ => {
                let ends = |byte: &u8| is_blank(byte) || is_mark(byte);
                bytes[start..].iter().position(ends).map_or(bytes.len(), |length| start + length)
            }
        };
        self.text.get(start..self.at)
    }
}

/// A place behind the opening of an array or an object.
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    /// The next value, be it a key, a member or an element; `None` at the end.
    fn next_value(&mut self) -> Option<Part<'a>> {
        let bytes = self.text.as_bytes();
        let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':');
        while bytes.get(self.at).is_some_and(is_between) {
            self.at += 1;
        }
        let start = self.at;
        match bytes.get(start)? {
            b'}' | b']' => return None,
            b'"' => self.at = string_end(bytes, start),
            b'{' | b'[' => self.at = nested_end(bytes, start),
            _ => {
                let ends = |byte: &u8| is_between(byte) || matches!(byte, b'}' | b']');
                let length = bytes[start..].iter().position(ends).unwrap_or(bytes.len() - start);
                self.at = start + length;
            }
        }
        self.text.get(start..self.at).map(Part)
    }
}

/// The place behind the string that begins here.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The place behind the array or object that begins here.
fn nested_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_as_they_are_written() {
        let text = r#" {"a" : [1, {"b]}": "x\"}"}, -2.50e1 ], "a": null ,"ключ":{}, "": true} "#;
        let part = Part::of(text);
        let members: Vec<_> =
            part.members().map(|(key, value)| (key.string().unwrap(), value.text())).collect();
        let wanted =
            [("a", r#"[1, {"b]}": "x\"}"}, -2.50e1 ]"#), ("a", "null"), ("ключ", "{}"), ("", "true")];
        assert_eq!(members.iter().map(|(key, value)| (&**key, *value)).collect::<Vec<_>>(), wanted);
        assert_eq!(part.member("a").unwrap().kind(), Kind::Null);
        let array = Part::of(wanted[0].1);
        assert_eq!(
            array.elements().map(Part::text).collect::<Vec<_>>(),
            ["1", r#"{"b]}": "x\"}"}"#, "-2.50e1"]
        );
        assert_eq!(array.element(-1).unwrap().text(), "-2.50e1");
        assert_eq!(array.element(1).unwrap().step("b]}").unwrap().plain().unwrap(), "x\"}");
        assert!(array.element(3).is_none() && array.element(-4).is_none() && array.member("a").is_none());
        assert_eq!(Part::of("[]").elements().count() + Part::of("{ }").members().count(), 0);
    }
}
