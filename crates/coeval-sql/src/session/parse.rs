// SPDX-License-Identifier: Apache-2.0
//! From text to statements, with the few forms of PostgreSQL that the parser does not know.

mod balance;
mod bricks;
mod conflict_targets;
mod copy_options;
mod depth;
mod distinct;
mod element_targets;
mod fetch_counts;
mod identity;
mod merge_actions;
mod operators;
mod overriding;
mod postgres;
mod servers;
mod whole_tables;

use super::deferrable::{DeferrableModes, take_deferrable};
use super::utility::Utility;
use crate::cancel;
use crate::ddl::{BrickClause, Extended};
use crate::error::{SqlError, SqlState, syntax_error};
use crate::row_locking::spell_out;
use crate::settings::Deferrable;
use bricks::take_bricks;
use conflict_targets::spell_targets;
use copy_options::spell_copy_options;
use datafusion::sql::sqlparser::ast::{Expr, Query, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};
pub(crate) use depth::STACK_BYTES;
use distinct::compares_distinct;
pub(crate) use distinct::regroup_distinct;
use element_targets::{put_elements, spell_elements};
use fetch_counts::spell_fetch;
use identity::order_identity_options;
use merge_actions::spell_merge;
use operators::{spell_operators, split_signs};
use overriding::{put_overriding, take_overriding};
use postgres::Postgres;
use servers::take_server;
use whole_tables::spell_tables;

/// How deep a statement may be nested.
const DEPTH_MAX: usize = 200;

/// How much deeper a text is read that was read before, and written with more parentheses.
const DEPTH_BEYOND: usize = 50;

/// One statement, parsed.
#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    /// A statement that the parser knows.
    Statement(Box<Statement>),
    /// A statement about definitions that the parser does not know.
    Definition(Box<Extended>),
    /// A statement about neither rows nor definitions that the parser does not know.
    Utility(Box<Utility>),
    /// `CHECKPOINT`.
    Checkpoint,
}

/// Whether a text holds other statements beside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Neighbours {
    /// It is all of its text.
    None,
    /// There are others, or nobody looked.
    Some,
}

/// Whether the session runs the statement itself, outside any transaction's data.
pub(super) fn is_session_statement(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. }
            | Statement::Set(_)
            | Statement::Reset(_)
            | Statement::ShowVariable { .. }
            | Statement::Discard { .. }
            | Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::Deallocate { .. }
    )
}

/// The statements of a text, in order.
///
/// # Errors
/// `42601` with the position, `54001` for one nested too deeply.
pub(crate) fn parse(sql: &str) -> Result<Vec<Parsed>, SqlError> {
    let tokens = Tokenizer::new(&Postgres::for_text(sql), sql)
        .tokenize_with_location()
        .map_err(|error| syntax_error(error.into(), sql))?;
    cancel::check()?;
    let mut parsed = Vec::new();
    for piece in tokens.split(|token| token.token == Token::SemiColon) {
        let words = piece.iter().filter(|token| !is_space(token));
        match words.clone().next() {
            None => continue,
            Some(first) if is_word(first, "checkpoint") && words.count() == 1 => {
                parsed.push(Parsed::Checkpoint);
                continue;
            }
            Some(_) => {}
        }
        // Each step below goes over all words, which may be millions.
        cancel::check()?;
        depth::check(piece, sql)?;
        let mut tokens = piece.to_vec();
        let deferrable = take_deferrable(&mut tokens);
        order_identity_options(&mut tokens);
        spell_copy_options(&mut tokens);
        cancel::check()?;
        tokens = spell_targets(spell_merge(spell_operators(split_signs(spell_tables(spell_fetch(
            spell_out(tokens),
        ))))));
        let (spelled, has_elements) = spell_elements(tokens);
        tokens = spelled;
        let overriding = take_overriding(&mut tokens);
        let bricks = take_bricks(&mut tokens)?;
        let server = take_server(&mut tokens)?;
        cancel::check()?;
        let has_long_chain = balance::has_long_chain(&tokens);
        let compares_distinct = compares_distinct(&tokens);
        let mut statement = parse_piece(tokens, sql)?;
        cancel::check()?;
        if let (true, Parsed::Statement(statement)) = (has_long_chain, &mut statement) {
            balance::balance(statement);
        }
        if let (true, Parsed::Statement(statement)) = (compares_distinct, &mut statement) {
            regroup_distinct(statement);
        }
        if let (true, Parsed::Statement(statement)) = (has_elements, &mut statement) {
            put_elements(statement)?;
        }
        if let Some(deferrable) = deferrable {
            statement = with_deferrable(statement, deferrable)?;
        }
        if let (Some(whose), Parsed::Statement(statement)) = (overriding, &mut statement) {
            put_overriding(statement, whose);
        }
        if let Some(bricks) = bricks {
            statement = in_bricks(statement, bricks)?;
        }
        if let Some(server) = server {
            statement = on_server(statement, server)?;
        }
        parsed.push(statement);
    }
    Ok(parsed)
}

/// The one statement of these tokens.
///
/// # Errors
/// `42601` with the position, `54001` for one that the parser does not go into as deep as it is.
fn parse_piece(tokens: Vec<TokenWithSpan>, sql: &str) -> Result<Parsed, SqlError> {
    // Where the parser has several readings, as of CASE, it takes its limit for the end of one, and says that it did not expect
    // what was right.
    let is_nested = depth::is_nested(&tokens);
    parse_within(DEPTH_MAX, tokens, sql).map_err(|failed| match failed.state {
        SqlState::SyntaxError if is_nested => depth::too_deep(),
        _ => failed,
    })
}

/// The same with a parser that goes so deep.
fn parse_within(depth_max: usize, tokens: Vec<TokenWithSpan>, sql: &str) -> Result<Parsed, SqlError> {
    let dialect = Postgres::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_recursion_limit(depth_max).with_tokens_with_locations(tokens);
    let statement = parse_one(&mut parser).map_err(|error| dialect.error(error, sql))?;
    let rest = parser.peek_token();
    if rest.token == Token::EOF {
        return Ok(statement);
    }
    let place = crate::error::character_position(sql, rest.span.start.line, rest.span.start.column);
    let error = SqlError::syntax(format!("syntax error at or near \"{}\"", rest.token));
    Err(match place {
        Some(position) => error.with_position(position),
        None => error,
    })
}

/// The statements of a text that was parsed before, or is our own.
///
/// # Errors
/// What the parser says of a text that is neither.
pub(crate) fn parse_known(sql: &str) -> Result<Vec<Statement>, SqlError> {
    let dialect = Postgres::for_text(sql);
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX + DEPTH_BEYOND).try_with_sql(sql);
    parser.and_then(|mut parser| parser.parse_statements()).map_err(|error| dialect.error(error, sql))
}

/// The statement about transaction modes with the word that was taken out of its tokens.
fn with_deferrable(statement: Parsed, deferrable: Deferrable) -> Result<Parsed, SqlError> {
    let modes = match statement {
        Parsed::Statement(rest) => DeferrableModes::of(*rest, deferrable),
        Parsed::Definition(_) | Parsed::Utility(_) | Parsed::Checkpoint => None,
    };
    let modes = modes.ok_or_else(|| SqlError::syntax("syntax error at or near \"deferrable\""))?;
    Ok(Parsed::Utility(Box::new(Utility::DeferrableModes(Box::new(modes)))))
}

/// The CREATE TABLE with the server whose clause was taken out of its tokens.
fn on_server(statement: Parsed, server: String) -> Result<Parsed, SqlError> {
    let misplaced = || SqlError::syntax("USING tique belongs to CREATE TABLE with a list of columns");
    let Parsed::Statement(statement) = statement else { return Err(misplaced()) };
    let Statement::CreateTable(create) = *statement else { return Err(misplaced()) };
    Ok(Parsed::Definition(Box::new(Extended::CreateOnServer { create: Box::new(create), server })))
}

/// The CREATE TABLE with the clause that was taken out of its tokens.
fn in_bricks(statement: Parsed, bricks: BrickClause) -> Result<Parsed, SqlError> {
    match statement {
        Parsed::Statement(statement) => match *statement {
            Statement::CreateTable(create) => {
                let create = Box::new(create);
                Ok(Parsed::Definition(Box::new(Extended::CreateBricks { create, bricks })))
            }
            _ => Err(SqlError::syntax("USING brick belongs to CREATE TABLE")),
        },
        _ => Err(SqlError::syntax("USING brick belongs to CREATE TABLE")),
    }
}

/// Passes over blanks: who goes back from further on then stops here, and not before them.
pub(crate) fn to_next_word(parser: &mut Parser<'_>) {
    parser.next_token();
    parser.prev_token();
}

/// The statement at the parser's place.
fn parse_one(parser: &mut Parser<'_>) -> Result<Parsed, ParserError> {
    to_next_word(parser);
    if let Some(utility) = Utility::parse(parser)? {
        return Ok(Parsed::Utility(Box::new(utility)));
    }
    Ok(match Extended::parse(parser)? {
        Some(extended) => Parsed::Definition(Box::new(extended)),
        None => Parsed::Statement(Box::new(parser.parse_statement()?)),
    })
}

/// The query in a text that holds nothing else, such as a view's body.
///
/// # Errors
/// `42601` if it is anything else.
pub(crate) fn parse_query(sql: &str) -> Result<Query, SqlError> {
    match parse(sql)?.pop() {
        Some(Parsed::Statement(statement)) => match *statement {
            Statement::Query(query) => Ok(*query),
            _ => Err(SqlError::syntax("a query was expected")),
        },
        Some(Parsed::Checkpoint | Parsed::Definition(_) | Parsed::Utility(_)) | None => {
            Err(SqlError::syntax("a query was expected"))
        }
    }
}

/// The expression in a text, such as one that a definition holds.
///
/// # Errors
/// If it is no expression.
pub(crate) fn parse_expression(text: &str) -> Result<Expr, ParserError> {
    let dialect = Postgres::for_text(text);
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX + DEPTH_BEYOND);
    let mut expression = parser.try_with_sql(text)?.parse_expr()?;
    regroup_distinct(&mut expression);
    Ok(expression)
}

/// Whether a token is a blank or a comment.
pub(super) fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// A name in quotes.
fn quoted_word(name: impl Into<String>) -> Token {
    Token::Word(Word { value: name.into(), quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

/// Whether a token is this word, whatever its case, and not in quotes.
pub(super) fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests;
