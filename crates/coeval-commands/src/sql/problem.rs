// SPDX-License-Identifier: Apache-2.0
//! Prints the error of a statement: SQLSTATE, message, the place in the statement, detail and hint.

use crate::grid::{Colours, shown};
use coeval::{Error, SqlError};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Where a statement was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// The file; `None` for what was typed.
    pub(crate) file: Option<&'a str>,
    /// The line that the statement begins on.
    pub(crate) line: usize,
}

/// How much of a long line is shown before and behind the place.
const SHOWN_BEFORE: usize = 50;
const SHOWN_BEHIND: usize = 25;

/// What an error begins with, without colours and with them.
const ERROR: &str = "ERROR";
const RED_ERROR: &str = "\x1b[1;31mERROR\x1b[0m";

/// The text to print, with a line end.
pub(crate) fn describe(error: &Error, statement: &str, origin: Origin<'_>, colours: Colours) -> String {
    let mut text = String::new();
    let place = |error: &SqlError| error.position.and_then(|position| Place::find(statement, position));
    let found = if let Error::Sql(error) = error { place(error) } else { None };
    if let Some(file) = origin.file {
        let line = origin.line + found.as_ref().map_or(0, |place| place.line);
        let _ = write!(text, "{file}:{line}: ");
    }
    text.push_str(match colours {
        Colours::On => RED_ERROR,
        Colours::Off => ERROR,
    });
    match error {
        Error::Sql(error) => describe_sql(error, found.as_ref(), &mut text),
        other => {
            let _ = writeln!(text, " {}: {}", other.state().code(), harmless(&other.to_string()));
        }
    }
    text
}

/// A text that may repeat what rows hold, without what a terminal would obey.
fn harmless(text: &str) -> String {
    shown(text).join("\n")
}

// Writing to a String cannot fail, so that results of `write!` are dropped here.
fn describe_sql(error: &SqlError, place: Option<&Place>, text: &mut String) {
    let _ = writeln!(text, " {}: {}", error.state.code(), harmless(&error.message));
    if let Some(place) = place {
        place.point(text);
    }
    if let Some(detail) = &error.detail {
        let _ = writeln!(text, "DETAIL: {}", harmless(detail));
    }
    if let Some(context) = &error.context {
        let _ = writeln!(text, "CONTEXT: {}", harmless(context));
    }
    if let Some(hint) = &error.hint {
        let _ = writeln!(text, "HINT: {}", harmless(hint));
    }
}

/// A place in a statement.
struct Place {
    /// Lines before it.
    line: usize,
    /// What stands before it in its line.
    before: String,
    /// What stands behind.
    behind: String,
}

impl Place {
    /// The place of a character, counted from 1; `None` if the statement is shorter.
    fn find(statement: &str, position: usize) -> Option<Self> {
        let characters = statement.chars().count();
        if position == 0 || position > characters + 1 {
            return None;
        }
        let byte = statement.char_indices().nth(position - 1).map_or(statement.len(), |(byte, _)| byte);
        let (before, behind) = statement.split_at(byte);
        let line = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let end = behind.find('\n').unwrap_or(behind.len());
        let plain = |text: &str| -> String {
            text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
        };
        Some(Self { line, before: plain(&before[start..]), behind: plain(&behind[..end]) })
    }

    /// The line, and a caret below the place.
    fn point(&self, text: &mut String) {
        let count = self.before.chars().count();
        let before = match count.checked_sub(SHOWN_BEFORE) {
            Some(cut @ 1..) => format!("...{}", self.before.chars().skip(cut).collect::<String>()),
            Some(0) | None => self.before.clone(),
        };
        let behind: String = self.behind.chars().take(SHOWN_BEHIND).collect();
        let dots = if behind.len() < self.behind.len() { "..." } else { "" };
        let label = format!("LINE {}: ", self.line + 1);
        let _ = writeln!(text, "{label}{before}{behind}{dots}");
        let _ = writeln!(text, "{:width$}^", "", width = label.width() + before.width());
    }
}

#[cfg(test)]
mod tests {
    use super::{Colours, Error, Origin, SqlError};
    use coeval::SqlState;

    const TYPED: Origin<'static> = Origin { file: None, line: 1 };

    fn describe(error: &Error, statement: &str, origin: Origin<'_>) -> String {
        super::describe(error, statement, origin, Colours::Off)
    }

    fn error(position: usize) -> Error {
        Error::Sql(
            SqlError::new(SqlState::UndefinedTable, "table \"x\" does not exist").with_position(position),
        )
    }

    #[test]
    fn the_caret_stands_below_the_place() {
        let text = describe(&error(15), "select * from x", TYPED);
        let expected = "ERROR 42P01: table \"x\" does not exist\n\
                        LINE 1: select * from x\n\
                        \x20                     ^\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_and_wide_characters_are_counted() {
        let text = describe(&error(24), "select '日本', b -- two\nfrom x", TYPED);
        assert!(text.contains("LINE 2: from x\n"), "{text}");
        let text = describe(&error(14), "select '日本', x", TYPED);
        assert!(text.ends_with("LINE 1: select '日本', x\n                       ^\n"), "{text}");
    }

    #[test]
    fn a_place_outside_of_the_statement_is_not_shown() {
        assert_eq!(describe(&error(99), "select", TYPED).lines().count(), 1);
        assert_eq!(describe(&error(7), "select", TYPED).lines().count(), 3);
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let statement = format!("select {} from x where {}", "a, ".repeat(100), "b".repeat(100));
        let position = statement.find("from x").unwrap() + 6;
        let text = describe(&error(position), &statement, TYPED);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].len() < 100 && lines[1].starts_with("LINE 1: ...") && lines[1].ends_with("..."));
        assert_eq!(lines[1].as_bytes()[lines[2].len() - 1], b'x');
    }

    #[test]
    fn a_script_says_its_line_and_details_follow() {
        let error = SqlError::new(SqlState::UniqueViolation, "duplicate key")
            .with_detail("Key (id)=(1) already exists.")
            .with_hint("Use another one.");
        let text = describe(&Error::Sql(error), "insert", Origin { file: Some("a.sql"), line: 7 });
        let expected = "a.sql:7: ERROR 23505: duplicate key\n\
                        DETAIL: Key (id)=(1) already exists.\n\
                        HINT: Use another one.\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_a_row_holds_is_not_obeyed() {
        let error = SqlError::new(SqlState::UniqueViolation, "two\nlines")
            .with_detail("Key (name)=(\u{1b}[2J) already exists.");
        let text = describe(&Error::Sql(error), "insert", TYPED);
        assert_eq!(text, "ERROR 23505: two\nlines\nDETAIL: Key (name)=(\\x1B[2J) already exists.\n");
    }

    #[test]
    fn an_error_is_red_where_there_are_colours() {
        let text =
            super::describe(&error(99), "select", Origin { file: Some("ERROR.sql"), line: 3 }, Colours::On);
        assert_eq!(text, "ERROR.sql:3: \x1b[1;31mERROR\x1b[0m 42P01: table \"x\" does not exist\n");
    }
}
