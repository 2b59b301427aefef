// SPDX-License-Identifier: Apache-2.0
//! Where a refusal points to in the application's statement.
//!
//! The engine has seen another statement, so a place that it gives is of no use, and most give none. But engines name what they
//! refuse, and that name stands in the application's statement as well.

use crate::names::folded;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Ident, ObjectName, Select, SelectItem, Statement, Visit, Visitor,
};
use datafusion::sql::sqlparser::tokenizer::Location;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The place in the statement of the name that a message of the engine is about. `None` if the message names nothing of the
/// statement, or a name that may be right in one place and wrong in another. A column that no table has and that the statement
/// does not define is wrong everywhere: its first place is given. Any other name must occur only once.
pub(crate) fn of_named(
    message: &str,
    statement: &Statement,
    is_of_table: impl Fn(&str) -> bool,
) -> Option<Location> {
    let named = named(message);
    let mut names = Names::default();
    let ControlFlow::Continue(()) = Visit::visit(statement, &mut names);
    let text = statement.to_string().to_lowercase();
    let mentions = |name: &str| {
        let given = names.outputs.iter().filter(|output| *output == name).count();
        occurrences(&text, name).saturating_sub(given)
    };
    let is_missing = |name: &&Name| {
        let same = names.list.iter().filter(|same| same.used_as == Use::Column && same.last() == name.last());
        let uses = same.count();
        // A mention that is no use makes it: AS, WITH.
        name.used_as == Use::Column && !is_of_table(name.last()) && uses == mentions(name.last())
    };
    let is_named = |part: &String| {
        let part = part.to_lowercase();
        part.split(|character| !is_of_word(character)).all(|word| named.contains(word))
    };
    // A table that is there is named beside what is refused.
    let may_be_wrong = |name: &&Name| name.used_as == Use::Column || !is_of_table(name.last());
    let refused = names.list.iter().filter(may_be_wrong).filter(|name| name.parts.iter().all(is_named));
    let (missing, others): (Vec<_>, Vec<_>) = refused.partition(is_missing);
    let mut alone = others.iter().filter(|name| mentions(name.last()) == 1);
    match (missing.iter().map(|name| name.start).min(), alone.next(), alone.next()) {
        (None, Some(name), None) => Some(name.start),
        (first, ..) => first,
    }
}

/// How often a name stands in a text of small letters.
fn occurrences(text: &str, name: &str) -> usize {
    let name = name.to_lowercase();
    let places = text.match_indices(&name).filter(|(start, found)| {
        let before = text[..*start].chars().next_back();
        let behind = text[start + found.len()..].chars().next();
        ![before, behind].into_iter().flatten().any(is_of_word)
    });
    places.count()
}

/// What the parser of [`sqlparser`](crate::sqlparser) says, and the place that it puts behind it: `... at Line: 1, Column: 7`.
#[must_use]
pub fn of_parser(message: &str) -> (&str, Option<Location>) {
    let place = message.rsplit_once(" at Line: ").and_then(|(said, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((said, Location::new(line.parse().ok()?, column.parse().ok()?)))
    });
    place.map_or((message, None), |(said, place)| (said, Some(place)))
}

/// Words behind which engines name something without quotes.
const INTRODUCING: [&str; 9] =
    ["aggregate", "column", "field", "function", "identifier", "name", "named", "table", "type"];

const QUOTES: [char; 3] = ['"', '\'', '`'];

/// What stands in a message that is about a value, which it quotes.
const OF_VALUES: [&str; 4] = ["convert", "conversion", "cast ", "input syntax"];

/// The words of a message that are names: in quotes, or introduced as such.
fn named(message: &str) -> BTreeSet<String> {
    let message = message.to_lowercase();
    let line = message.lines().next().unwrap_or_default();
    // Behind that is what could have been meant.
    let line = line.split("did you mean").next().unwrap_or_default();
    let mut named = BTreeSet::new();
    if OF_VALUES.iter().any(|of_values| line.contains(of_values)) {
        return named;
    }
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

/// What a name stands for: a column, or a function, type or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Column,
    Other,
}

/// A name that stands in a statement.
struct Name {
    parts: Vec<String>,
    start: Location,
    used_as: Use,
}

impl Name {
    fn last(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }
}

/// The names of columns, functions, types and tables in a statement.
#[derive(Default)]
struct Names {
    list: Vec<Name>,
    /// Names of outputs that do not come from the application's text: a layer above added them.
    outputs: Vec<String>,
}

impl Names {
    fn push<'a>(&mut self, idents: impl IntoIterator<Item = &'a Ident>, used_as: Use) {
        let mut idents = idents.into_iter().peekable();
        let start = idents.peek().map(|first| first.span.start);
        if let Some(start) = start.filter(|start| start.line > 0) {
            self.list.push(Name { parts: idents.map(folded).collect(), start, used_as });
        }
    }

    fn push_object(&mut self, name: &ObjectName) {
        self.push(name.0.iter().filter_map(|part| part.as_ident()), Use::Other);
    }
}

impl Visitor for Names {
    type Break = std::convert::Infallible;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Identifier(ident) => self.push([ident], Use::Column),
            Expr::CompoundIdentifier(parts) => self.push(parts, Use::Column),
            Expr::Function(function) => self.push_object(&function.name),
            Expr::Cast { data_type: DataType::Custom(name, _), .. } => self.push_object(name),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item
                && alias.span.start.line == 0
            {
                self.outputs.push(folded(alias));
            }
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
