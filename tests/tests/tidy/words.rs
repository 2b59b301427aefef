// SPDX-License-Identifier: Apache-2.0
//! Texts of errors that other libraries have made: one file of the SQL crate reads them, and is to read fewer.

use crate::rules::Violation;
use crate::sources::{SourceFile, Sources};

/// The file that may.
const TEXTS: &str = "crates/coeval-sql/src/error/texts.rs";

/// Where errors of other libraries come in.
const FOLDERS: [&str; 2] = ["crates/coeval-sql/src/", "crates/coeval-server/src/"];

/// What looks for words in a text.
const LOOKS: [&str; 8] = [
    ".contains(\"",
    ".starts_with(\"",
    ".ends_with(\"",
    ".strip_prefix(\"",
    ".strip_suffix(\"",
    ".split_once(\"",
    ".rsplit_once(\"",
    ".find(\"",
];

/// What an error's text is called, or made by.
const TEXTS_OF_ERRORS: [&str; 3] = ["message", "to_string()", "strip_backtrace()"];

/// Words that are looked for in the text of an error anywhere but in the file that may.
pub(crate) fn matched_elsewhere(file: &SourceFile) -> Vec<Violation> {
    let is_in = FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    if !is_in || file.is_test() || file.path == TEXTS {
        return vec![];
    }
    let is_of_errors = file.path.starts_with("crates/coeval-sql/src/error/");
    let looks = |line: &str| {
        LOOKS.iter().any(|look| {
            line.match_indices(look).any(|(place, _)| {
                is_of_errors || TEXTS_OF_ERRORS.iter().any(|text| line[..place].ends_with(text))
            })
        })
    };
    chains(file.production())
        .into_iter()
        .filter(|(_, line)| looks(line))
        .map(|(number, _)| {
            Violation::new(
                file,
                number,
                "raise the error where the mistake is known, or match its text in error/texts.rs",
            )
        })
        .collect()
}

/// How often the file that may looks for words: by calls, and by the lines of its tables.
pub(crate) fn matches_of_texts(sources: &Sources) -> usize {
    let Some(file) = sources.get(TEXTS) else { return 0 };
    let in_line = |line: &str| {
        let calls: usize = LOOKS.iter().map(|look| line.matches(look).count()).sum();
        calls + usize::from(line.starts_with("(\""))
    };
    chains(file.production()).iter().map(|(_, line)| in_line(line)).sum()
}

/// The lines of a text with their numbers, chains of calls as one line each.
fn chains(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        match lines.last_mut() {
            Some((_, chain)) if line.starts_with('.') => chain.push_str(line),
            _ => lines.push((number + 1, line.to_owned())),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_on_the_text_of_an_error_is_found_wherever_it_is_broken() {
        let count = |path: &str, text: &str| matched_elsewhere(&SourceFile::new(path, text)).len();
        let chain = "let is_so = error\n    .to_string()\n    .contains(\"divide\");\n";
        assert_eq!(count("crates/coeval-sql/src/a.rs", chain), 1);
        assert_eq!(count("crates/coeval-server/src/a.rs", "if error.message.starts_with(\"x\") {}\n"), 1);
        assert_eq!(count("crates/coeval-sql/src/a.rs", "if name.starts_with(\"x\") {}\n"), 0);
        assert_eq!(count("crates/coeval-sql/src/error/a.rs", "if line.starts_with(\"x\") {}\n"), 1);
        assert_eq!(count(TEXTS, chain), 0);
        assert_eq!(count("crates/coeval-sql/src/a/tests.rs", chain), 0);
        assert_eq!(count("crates/coeval-store/src/a.rs", chain), 0);
    }

    #[test]
    fn matches_are_counted_by_calls_and_by_lines_of_tables() {
        let text = "const A: &[(&str, u8)] = &[\n    (\"a\", 1),\n    (\"b\", 2),\n];\nx.contains(\"c\") || y.find(\"d\");\n";
        let sources = Sources::new(vec![SourceFile::new(TEXTS, text)]);
        assert_eq!(matches_of_texts(&sources), 4);
    }
}
