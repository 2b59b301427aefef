// SPDX-License-Identifier: Apache-2.0
//! Colours of a line that is being typed: keywords, strings, numbers and comments look different, so that a quote that does not
//! end is seen before the statement is sent.

use super::keywords::is_keyword;
use crate::place::Place;

/// What ends a colour.
const PLAIN_AGAIN: &str = "\x1b[0m";

/// What a piece of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Names, signs, blanks.
    Plain,
    Keyword,
    Text,
    Number,
    Comment,
}

impl Kind {
    /// What begins its colour.
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Keyword => "\x1b[1;34m",
            Self::Text => "\x1b[32m",
            Self::Number => "\x1b[36m",
            Self::Comment => "\x1b[2m",
        }
    }
}

/// The line with a terminal's colours. `place` is where its first character stands: lines before it may have begun a string.
pub(super) fn painted(line: &str, place: &Place) -> String {
    let mut painted = String::with_capacity(2 * line.len());
    let (mut place, mut shown, mut at) = (place.clone(), Kind::Plain, 0);
    while at < line.len() {
        let (length, next) = piece(line, at, &place);
        let text = &line[at..at + length];
        let kind = kind_of(text, &place, &next);
        if kind != shown {
            if shown != Kind::Plain {
                painted.push_str(PLAIN_AGAIN);
            }
            painted.push_str(kind.code());
            shown = kind;
        }
        painted.push_str(text);
        at += length;
        place = next;
    }
    if shown != Kind::Plain {
        painted.push_str(PLAIN_AGAIN);
    }
    painted
}

/// How long the next piece is, and where the text behind it stands. A word is one piece.
fn piece(line: &str, at: usize, place: &Place) -> (usize, Place) {
    let rest = &line[at..];
    let (length, next) = place.next(rest, line[..at].chars().next_back());
    if *place != Place::Plain || next != Place::Plain || !rest.starts_with(in_word) {
        return (length, next);
    }
    (rest.find(|character: char| !in_word(character)).unwrap_or(rest.len()), Place::Plain)
}

fn in_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// What stands between two places is of the one that is no plain text.
fn kind_of(text: &str, place: &Place, next: &Place) -> Kind {
    match if *place == Place::Plain { next } else { place } {
        Place::Text(_) | Place::Dollar(_) => Kind::Text,
        Place::LineComment | Place::BlockComment(_) => Kind::Comment,
        Place::Plain if is_keyword(text) => Kind::Keyword,
        Place::Plain if text.starts_with(|first: char| first.is_ascii_digit()) => Kind::Number,
        Place::Plain | Place::Name => Kind::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Backslash;

    /// The line with marks that can be read.
    fn marked(line: &str, place: &Place) -> String {
        let marks = [
            ("\x1b[1;34m", "<"),
            ("\x1b[32m", "'{"),
            ("\x1b[36m", "#{"),
            ("\x1b[2m", "-{"),
            ("\x1b[0m", "}"),
        ];
        marks.iter().fold(painted(line, place), |text, (code, mark)| text.replace(code, mark))
    }

    #[test]
    fn keywords_strings_numbers_and_comments_have_colours() {
        let plain = |line: &str| marked(line, &Place::Plain);
        assert_eq!(plain("select a1 from t"), "<select} a1 <from} t");
        assert_eq!(plain("x = 'it''s' and 12"), "x = '{'it''s'} <and} #{12}");
        assert_eq!(plain("a -- select 1"), "a -{-- select 1}");
        assert_eq!(plain("/* b */ größe"), "-{/* b */} größe");
        assert_eq!(plain("E'a\\'b' \"select\" $$from$$"), "'{E'a\\'b'} \"select\" '{$$from$$}");
        assert_eq!(plain(""), "");
    }

    #[test]
    fn a_line_goes_on_where_the_one_before_has_ended() {
        let text = Place::Text(Backslash::Plain);
        assert_eq!(marked("from' from", &text), "'{from'} <from}");
        assert_eq!(marked("still */ 1", &Place::BlockComment(1)), "-{still */} #{1}");
    }

    #[test]
    fn nothing_but_colours_is_added() {
        for line in
            ["select 'open", "\\d t", "a$b$c $1 $x$ 'y' $x$", "日本 '本'", "e''", "1e5", "\"a\"\"b\" -"]
        {
            let mut text = painted(line, &Place::Plain);
            for kind in [Kind::Keyword, Kind::Text, Kind::Number, Kind::Comment] {
                text = text.replace(kind.code(), "");
            }
            assert_eq!(text.replace(PLAIN_AGAIN, ""), line);
        }
    }
}
