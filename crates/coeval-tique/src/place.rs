// SPDX-License-Identifier: Apache-2.0
//! Where a refusal points to in the application's statement.
//!
//! The engine has seen another statement, so a place that it gives is of no use, and most give none. But engines name what they
//! refuse, and that name stands in the application's statement as well.

use crate::schema::folded;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, ObjectName, Statement, Visit, Visitor};
use datafusion::sql::sqlparser::tokenizer::Location;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Where the name stands that a message of the engine's is about; nothing if it has no name of the statement's. One that no table
/// has is what is missing, wherever it stands, so the place is its first. One that a table has may be right in one place and
/// wrong in another: it has to stand in one alone.
pub(crate) fn of_named(
    message: &str,
    statement: &Statement,
    is_of_table: impl Fn(&str) -> bool,
) -> Option<Location> {
    let named = named(message);
    let mut names = Names::default();
    let ControlFlow::Continue(()) = Visit::visit(statement, &mut names);
    let is_named = |part: &String| part.split(|c| !is_of_word(c)).all(|word| named.contains(word));
    let refused = names.list.into_iter().filter(|name| name.parts.iter().all(is_named));
    let (known, unknown): (Vec<_>, Vec<_>) =
        refused.partition(|name| name.parts.last().is_some_and(|last| is_of_table(last)));
    match (unknown.iter().map(|name| name.start).min(), known.as_slice()) {
        (None, [name]) => Some(name.start),
        (first, _) => first,
    }
}

/// The place at the end of what the parser says, and what stands before it.
pub(crate) fn of_parser(message: &str) -> (&str, Option<Location>) {
    let place = message.rsplit_once(" at Line: ").and_then(|(said, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((said, Location::new(line.parse().ok()?, column.parse().ok()?)))
    });
    place.map_or((message, None), |(said, place)| (said, Some(place)))
}

/// Words behind which engines name something without quotes.
const INTRODUCING: [&str; 8] =
    ["aggregate", "column", "field", "function", "identifier", "name", "named", "type"];

const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The words in the first line of a message that are names: in quotes, or introduced as such. What could have been meant
/// instead stands in other lines.
fn named(message: &str) -> BTreeSet<String> {
    let line = message.lines().next().unwrap_or_default().to_lowercase();
    let mut named = BTreeSet::new();
    let (mut quote, mut is_introduced) = (None, false);
    // A qualified name is one word.
    let is_between = |character: char| !is_of_word(character) && character != '.';
    for piece in line.split_inclusive(is_between) {
        let end = piece.chars().next_back().filter(|end| QUOTES.contains(end));
        let word = piece.trim_end_matches(is_between).trim_matches('.');
        if !word.is_empty() {
            let introduces = quote.is_none() && INTRODUCING.contains(&word);
            if quote.is_some() || (is_introduced && !introduces) {
                named.extend(word.split('.').map(str::to_owned));
            }
            is_introduced = introduces;
        }
        match end {
            Some(end) if quote == Some(end) => quote = None,
            // Behind a letter it is an apostrophe.
            Some(end) if quote.is_none() && word.is_empty() => quote = Some(end),
            _ => {}
        }
    }
    named
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// A name that stands in a statement.
struct Name {
    /// As they are compared.
    parts: Vec<String>,
    start: Location,
}

/// The names of columns, functions, types and tables in a statement.
#[derive(Default)]
struct Names {
    list: Vec<Name>,
}

impl Names {
    fn push<'a>(&mut self, idents: impl IntoIterator<Item = &'a Ident>) {
        let mut idents = idents.into_iter().peekable();
        let start = idents.peek().map(|first| first.span.start);
        if let Some(start) = start.filter(|start| start.line > 0) {
            self.list.push(Name { parts: idents.map(|ident| folded(ident).to_lowercase()).collect(), start });
        }
    }

    fn push_object(&mut self, name: &ObjectName) {
        self.push(name.0.iter().filter_map(|part| part.as_ident()));
    }
}

impl Visitor for Names {
    type Break = std::convert::Infallible;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Identifier(ident) => self.push([ident]),
            Expr::CompoundIdentifier(parts) => self.push(parts),
            Expr::Function(function) => self.push_object(&function.name),
            Expr::Cast { data_type: DataType::Custom(name, _), .. } => self.push_object(name),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Self::Break> {
        self.push_object(relation);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests;
