// SPDX-License-Identifier: Apache-2.0
//! Changes of how PostgreSQL lays out a table's rows and how closely it looks at them: `ALTER COLUMN c SET STATISTICS 100`, `SET STORAGE
//! EXTERNAL`, `SET LOGGED`, `RESET (fillfactor)`, `CLUSTER ON index`. `pg_dump` writes them. Here rows have one layout, so nothing
//! changes.

use super::storage_parameters::names_to_reset;
use crate::names::fold;
use crate::parse::{rewind, take_word};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Such a change, and the column that it is about.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(super) column: Option<String>,
}

/// The change at the parser's place, if it is one of these and nothing follows; else the parser is where it was.
///
/// # Errors
/// A syntax error where a name was to follow.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Layout>, ParserError> {
    let start = parser.index();
    let layout = read(parser)?;
    if layout.is_none() || parser.peek_token().token != Token::EOF {
        rewind(parser, start);
        return Ok(None);
    }
    Ok(layout)
}

fn read(parser: &mut Parser<'_>) -> Result<Option<Layout>, ParserError> {
    let of_table = Some(Layout { column: None });
    if take_word(parser, "set") {
        let is_logged = take_word(parser, "logged") || take_word(parser, "unlogged");
        let is_one = is_logged || (take_word(parser, "without") && take_word(parser, "cluster"));
        return Ok(of_table.filter(|_| is_one));
    }
    if take_word(parser, "reset") {
        names_to_reset(parser)?;
        return Ok(of_table);
    }
    if take_word(parser, "cluster") {
        if !take_word(parser, "on") {
            return Ok(None);
        }
        parser.parse_identifier()?;
        return Ok(of_table);
    }
    if !take_word(parser, "alter") {
        return Ok(None);
    }
    take_word(parser, "column");
    let column = fold(&parser.parse_identifier()?);
    if !take_word(parser, "set") {
        return Ok(None);
    }
    if take_word(parser, "statistics") {
        let _ = parser.consume_token(&Token::Minus);
        parser.parse_literal_uint()?;
    } else if take_word(parser, "storage") || take_word(parser, "compression") {
        parser.parse_identifier()?;
    } else {
        return Ok(None);
    }
    Ok(Some(Layout { column: Some(column) }))
}
