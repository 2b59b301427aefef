// SPDX-License-Identifier: Apache-2.0
//! What the line editor asks for: words that the tab key completes (keywords, tables, columns), and the line in colours.

use super::colour::painted;
use super::keywords::keywords;
use crate::grid::Colours;
use crate::place::Place;
use coeval::Definitions;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The names that can be completed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    names: BTreeSet<String>,
}

impl Words {
    /// The names of tables, views, sequences, indexes, columns and schemas.
    pub(crate) fn of(definitions: &Definitions) -> Self {
        let mut names: BTreeSet<String> = definitions.names().map(|(name, _)| name.name.clone()).collect();
        names.extend(definitions.catalog().schemas().map(str::to_owned));
        for table in definitions.tables() {
            names.extend(table.live_columns().map(|(_, column)| column.name.clone()));
        }
        Self { names }
    }

    /// Everything that begins with this; keywords in the case that was begun in.
    fn beginning_with(&self, begun: &str) -> Vec<String> {
        let lower = begun.to_lowercase();
        let names = self.names.iter().filter(|name| name.starts_with(&lower)).cloned();
        let is_lower = begun.chars().all(|character| !character.is_uppercase());
        let upper = begun.to_uppercase();
        let keywords = keywords().filter(|keyword| keyword.starts_with(&upper));
        let keywords = keywords.map(|word| if is_lower { word.to_lowercase() } else { word.to_owned() });
        names.chain(keywords).collect()
    }
}

/// Completes the word before the cursor, and gives the line its colours.
#[derive(Default)]
pub(crate) struct WordCompleter {
    words: Words,
    /// Where the line begins that is being typed; `None` if it is to have no colours.
    begins_in: Option<Place>,
}

impl WordCompleter {
    /// From now on completes with these.
    pub(crate) fn learn(&mut self, words: Words) {
        self.words = words;
    }

    /// The next line begins here, and has colours or not.
    pub(crate) fn paint(&mut self, colours: Colours, place: &Place) {
        self.begins_in = match colours {
            Colours::On => Some(place.clone()),
            Colours::Off => None,
        };
    }
}

/// Where the word that ends here begins.
fn word_start(line: &str, end: usize) -> usize {
    let is_inside = |character: char| character.is_alphanumeric() || character == '_';
    line[..end]
        .char_indices()
        .rev()
        .take_while(|(_, character)| is_inside(*character))
        .last()
        .map_or(end, |(at, _)| at)
}

impl Completer for WordCompleter {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let start = word_start(line, pos);
        if start == pos {
            return Ok((pos, Vec::new()));
        }
        let words = self.words.beginning_with(&line[start..pos]);
        Ok((start, words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()))
    }
}

impl Hinter for WordCompleter {
    type Hint = String;
}

impl Highlighter for WordCompleter {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        match &self.begins_in {
            Some(place) => Cow::Owned(painted(line, place)),
            None => Cow::Borrowed(line),
        }
    }

    /// A character more may end a string, or make a word a keyword.
    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.begins_in.is_some() && kind != CmdKind::MoveCursor
    }
}

impl Validator for WordCompleter {}

impl Helper for WordCompleter {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_before_the_cursor_is_completed() {
        assert_eq!(word_start("select o_ent", 12), 7);
        assert_eq!(word_start("select größe", "select größe".len()), 7);
        assert_eq!(word_start("t.col", 5), 2);
        assert_eq!(word_start("a = ", 4), 4);
    }

    #[test]
    fn keywords_follow_the_case_of_what_was_begun() {
        let words = Words { names: BTreeSet::from(["selection".to_owned()]) };
        assert_eq!(words.beginning_with("sel"), ["selection", "select"]);
        assert_eq!(words.beginning_with("SEL"), ["selection", "SELECT"]);
        assert!(words.beginning_with("zzz").is_empty());
    }
}
