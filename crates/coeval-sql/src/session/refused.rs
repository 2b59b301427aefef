// SPDX-License-Identifier: Apache-2.0
//! Statements of PostgreSQL's that there are not, and that the parser does not know: it would take them for mistakes. They are refused
//! by what they begin with.

use crate::ddl::AlterSessionDefaults;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

/// What cannot be made, changed or dropped.
const KINDS: &[&str] = &[
    "access method",
    "aggregate",
    "cast",
    "conversion",
    "event trigger",
    "foreign table",
    "language",
    "publication",
    "routine",
    "rule",
    "statistics",
    "subscription",
    "tablespace",
    "text search",
    "transform",
];

/// All others.
const STATEMENTS: &[&str] = &[
    "alter database",
    "alter large object",
    "alter materialized view",
    "alter system",
    "cluster",
    "commit prepared",
    "create materialized view",
    "create procedure",
    "create recursive view",
    "do",
    "import foreign schema",
    "prepare transaction",
    "refresh materialized view",
    "rollback prepared",
    "security label",
];

/// How many words are looked at.
const WORDS_MAX: usize = 6;

/// The name of the statement at the parser's place, if it is one of these. The parser stays where it is.
pub(super) fn refused(parser: &Parser<'_>) -> Option<String> {
    let word = |distance: usize| match parser.peek_nth_token(distance).token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        _ => None,
    };
    let mut words: Vec<String> = (0..WORDS_MAX).map_while(word).collect();
    if words.get(1..3).is_some_and(|both| both == ["or", "replace"]) {
        words.drain(1..3);
    }
    let begins_with = |from: usize, name: &str| {
        let mut wanted = name.split(' ').zip(from..);
        wanted.all(|(wanted, place)| words.get(place).is_some_and(|word| word == wanted))
    };
    let verb = words.first()?;
    if ["create", "alter", "drop"].contains(&verb.as_str())
        && let Some(kind) = KINDS.iter().find(|kind| begins_with(1, kind))
    {
        return Some(format!("{verb} {kind}").to_uppercase());
    }
    let is_meant = |name: &str| match name {
        // `PREPARE transaction AS ...` prepares a statement of that name.
        "prepare transaction" => words.len() == 2,
        "alter database" => !AlterSessionDefaults::is_next(parser),
        _ => true,
    };
    let statement = STATEMENTS.iter().find(|name| begins_with(0, name) && is_meant(name))?;
    Some(statement.to_uppercase())
}
