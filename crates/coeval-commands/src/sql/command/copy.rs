// SPDX-License-Identifier: Apache-2.0
//! `\copy`: COPY with a file, a program, or the standard streams of the shell, whatever the session's role may do with files.

use crate::place::Place;

/// A `\copy` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyCommand {
    /// The table with its columns, or the query in parentheses, as they stand there.
    subject: String,
    pub(crate) direction: CopyDirection,
    pub(crate) end: CopyEnd,
    /// What stands behind, as it stands there.
    options: String,
}

/// Which way rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyDirection {
    /// Into the table.
    From,
    /// Out of it.
    To,
}

/// Where the bytes of a COPY come from, or go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyEnd {
    File(String),
    Program(String),
    /// The lines behind the command, and where results are printed.
    Inline,
    /// The standard input or output of the shell.
    Process,
}

impl CopyCommand {
    /// Reads what stands behind `\copy`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().trim_end_matches(';');
        let ends_early = || "\\copy: parse error at end of line".to_owned();
        let (at, direction) = match direction(text) {
            Some(found) => found,
            None if text.is_empty() => return Err("\\copy: arguments required".to_owned()),
            None => return Err(ends_early()),
        };
        let (_, behind) = word(&text[at..]);
        let (first, options) = word(behind);
        let (end, options) = match first.to_ascii_lowercase().as_str() {
            "" => return Err(ends_early()),
            "stdin" | "stdout" => (CopyEnd::Inline, options),
            "pstdin" | "pstdout" => (CopyEnd::Process, options),
            "program" => {
                let (program, options) = word(options);
                let program =
                    unquoted(program).ok_or_else(|| format!("\\copy: parse error at \"{program}\""))?;
                (CopyEnd::Program(program), options)
            }
            _ => (CopyEnd::File(unquoted(first).unwrap_or_else(|| first.to_owned())), options),
        };
        let subject = text[..at].trim().to_owned();
        Ok(Self { subject, direction, end, options: options.trim().to_owned() })
    }

    /// The statement. Its bytes are exchanged with the shell, except that Parquet is read from its file, whose end comes first.
    pub(crate) fn statement(&self) -> String {
        let Self { subject, options, .. } = self;
        match (self.direction, &self.end) {
            (CopyDirection::From, CopyEnd::File(file))
                if options.to_ascii_lowercase().contains("parquet") =>
            {
                format!("COPY {subject} FROM '{}' {options}", file.replace('\'', "''"))
            }
            (CopyDirection::From, _) => format!("COPY {subject} FROM STDIN {options}"),
            (CopyDirection::To, _) => format!("COPY {subject} TO STDOUT {options}"),
        }
    }
}

/// Where FROM or TO stands, outside of parentheses and quotes and behind something.
fn direction(text: &str) -> Option<(usize, CopyDirection)> {
    let (mut place, mut depth, mut at) = (Place::Plain, 0_usize, 0);
    let mut word_start = 0;
    while at < text.len() {
        let rest = &text[at..];
        let (length, next) = place.next(rest, text[..at].chars().next_back());
        if place == Place::Plain {
            match rest.as_bytes()[0] {
                b'(' => depth += 1,
                b')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            let ends_word = rest.starts_with(char::is_whitespace);
            if ends_word && depth == 0 && word_start > 0 {
                match text[word_start..at].to_ascii_lowercase().as_str() {
                    "from" => return Some((word_start, CopyDirection::From)),
                    "to" => return Some((word_start, CopyDirection::To)),
                    _ => {}
                }
            }
            if ends_word || rest.starts_with(')') {
                word_start = at + length;
            }
        }
        at += length;
        place = next;
    }
    None
}

/// The first word of a text, which may be a text in single quotes, and what stands behind it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let mut is_quoted = false;
    for (at, character) in text.char_indices() {
        match character {
            '\'' => is_quoted = !is_quoted,
            _ if character.is_whitespace() && !is_quoted => return text.split_at(at),
            _ => {}
        }
    }
    (text, "")
}

/// What stands in single quotes; `None` of another word.
fn unquoted(word: &str) -> Option<String> {
    let inner = word.strip_prefix('\'')?.strip_suffix('\'')?;
    Some(inner.replace("''", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, CopyEnd) {
        let copy = CopyCommand::parse(text).unwrap();
        (copy.statement().trim_end().to_owned(), copy.end)
    }

    #[test]
    fn what_is_copied_where_is_read() {
        let file = |name: &str| CopyEnd::File(name.to_owned());
        assert_eq!(read("t from 'a b.csv' csv;"), ("COPY t FROM STDIN csv".to_owned(), file("a b.csv")));
        assert_eq!(read("t (a, b) TO /tmp/x"), ("COPY t (a, b) TO STDOUT".to_owned(), file("/tmp/x")));
        assert_eq!(
            read("s.\"to x\"(a) from stdin"),
            ("COPY s.\"to x\"(a) FROM STDIN".to_owned(), CopyEnd::Inline)
        );
        assert_eq!(
            read("(select ' to ' from t where a > 1) to program 'gzip > ''x''' (format csv, header)"),
            (
                "COPY (select ' to ' from t where a > 1) TO STDOUT (format csv, header)".to_owned(),
                CopyEnd::Program("gzip > 'x'".to_owned())
            )
        );
        assert_eq!(read("t to pstdout").1, CopyEnd::Process);
        assert_eq!(read("t from 'o''x' (format parquet)").0, "COPY t FROM 'o''x' (format parquet)");
        assert_eq!(read("t to 'x' (format parquet)").0, "COPY t TO STDOUT (format parquet)");
    }

    #[test]
    fn what_is_missing_is_said() {
        let refused = |text: &str| CopyCommand::parse(text).unwrap_err();
        assert_eq!(refused(""), "\\copy: arguments required");
        assert_eq!(refused("t"), "\\copy: parse error at end of line");
        assert_eq!(refused("from x"), "\\copy: parse error at end of line");
        assert_eq!(refused("t from "), "\\copy: parse error at end of line");
        assert_eq!(refused("t to program gzip"), "\\copy: parse error at \"gzip\"");
    }
}
