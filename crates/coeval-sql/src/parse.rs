// SPDX-License-Identifier: Apache-2.0
//! From text to statements of the parser, with the few forms of PostgreSQL that it does not know.
//!
//! Before the parser reads a statement, such a form is rewritten in words that it knows, or its clause is taken out of the
//! tokens. The names that stand for such forms in a parsed statement are defined here, for the code that runs it. A statement that
//! the parser does not know at all is read by the code that runs it ([`ReadOwn`]).

mod balance;
mod between;
mod bricks;
mod check_options;
mod clock_words;
mod compression;
mod conflict_targets;
mod continued_texts;
mod copy_options;
mod current_rows;
mod cycles;
mod deferrable;
mod depth;
mod descendants;
mod element_targets;
mod empty_lists;
mod fetch_counts;
mod frame_exclusions;
mod frame_offsets;
mod given_forms;
mod grouping_sets;
mod identity;
mod in_lists;
mod join_names;
mod like_columns;
mod locks_last;
mod merge_actions;
mod merge_sources;
mod nested_joins;
mod operators;
mod order_operators;
mod overriding;
mod parentheses;
mod postgres;
mod precedence;
mod prefix_operators;
mod rows_from;
mod schema_elements;
mod searches;
mod select_into;
mod servers;
mod short_forms;
mod synonyms;
mod unlogged;
mod untyped_columns;
mod values_subquery;
mod variadic;
mod whole_tables;
mod with_data;

pub(crate) use bricks::{BrickClause, DimensionClause};
pub(crate) use check_options::CHECK_OPTION;
pub(crate) use clock_words::{fix_in_default, fix_in_definition, given_to_column, is_clock_word, meant_at};
pub(crate) use conflict_targets::{TARGET_EXPRESSION, TARGET_PREDICATE};
pub(crate) use copy_options::{ALL_COLUMNS, HEADER_MATCH_MARK, MAX_REJECTED_MARK};
pub(crate) use current_rows::CURRENT_OF;
pub(crate) use cycles::ROW_TEXT;
pub(crate) use depth::STACK_BYTES;
pub(crate) use element_targets::ARRAY_WITH;
pub(crate) use fetch_counts::WITH_TIES;
pub(crate) use frame_exclusions::Exclusion;
pub(crate) use frame_offsets::FRAME_OFFSET;
pub use given_forms::as_given;
pub(crate) use grouping_sets::DISTINCT_SETS;
pub(crate) use join_names::join_name;
pub(crate) use like_columns::LIKE_COLUMNS;
pub(crate) use merge_actions::{MERGE_DEFAULTS, MERGE_NOTHING};
pub(crate) use overriding::OVERRIDING;
pub(crate) use rows_from::ROWS_FROM;
pub(crate) use untyped_columns::UNTYPED;
pub(crate) use variadic::VARIADIC;

use crate::cancel;
use crate::error::{SqlError, SqlState, character_position, syntax_error};
use crate::row_locking::spell_out;
use crate::settings::Deferrable;
use bricks::take_bricks;
use check_options::{put_check_option, take_check_option};
use clock_words::{ask_for_time, has_clock_words};
use compression::take_compression;
use conflict_targets::spell_targets;
use continued_texts::join_texts;
use copy_options::spell_copy_options;
use current_rows::spell_current_rows;
use cycles::{spell_cycles, write_cycles};
use datafusion::sql::sqlparser::ast::{Expr, Query, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};
use deferrable::take_deferrable;
use descendants::take_stars;
use element_targets::{put_elements, spell_elements};
use empty_lists::spell_empty_lists;
use fetch_counts::spell_fetch;
use frame_exclusions::take_exclusions;
use frame_offsets::enclose_offsets;
use grouping_sets::spell_group_quantifiers;
use identity::order_identity_options;
use join_names::spell_join_names;
use like_columns::spell_like;
use locks_last::put_locks_last;
use merge_actions::spell_merge;
use merge_sources::enclose_source;
use nested_joins::enclose_joins;
use operators::{spell_named, spell_operators, split_signs};
use order_operators::spell_orders;
use overriding::{put_overriding, take_overriding};
use postgres::Postgres;
use rows_from::spell_rows_from;
use schema_elements::split_elements;
use select_into::as_definition;
use servers::take_server;
use short_forms::spell_short_forms;
use synonyms::spell_synonyms;
use unlogged::take_unlogged;
use untyped_columns::spell_untyped;
use variadic::spell_variadic;
use whole_tables::spell_tables;
use with_data::take_with_data;

/// How deep a statement may be nested.
const DEPTH_MAX: usize = 200;

/// How much deeper a text is read that was read before, and written with more parentheses.
const DEPTH_BEYOND: usize = 50;

/// A statement, and the clauses that were taken out of its tokens because the parser does not know them.
#[derive(Clone, Debug)]
pub(crate) struct Piece<O> {
    pub(crate) syntax: Syntax<O>,
    /// `[NOT] DEFERRABLE`.
    pub(crate) deferrable: Option<Deferrable>,
    /// `USING brick`, or the dimensions of a cube.
    pub(crate) bricks: Option<BrickClause>,
    /// The server of `USING tique`.
    pub(crate) server: Option<String>,
    /// What CREATE SCHEMA holds.
    pub(crate) elements: Vec<Self>,
}

/// A statement without such clauses.
#[derive(Clone, Debug)]
pub(crate) enum Syntax<O> {
    /// One that the parser knows.
    Statement(Box<Statement>),
    /// One that a [`ReadOwn`] knows.
    Own(O),
    /// `CHECKPOINT`.
    Checkpoint,
}

/// Reads the statement at the parser's place if it is one that the parser does not know; else the parser is where it was.
pub(crate) type ReadOwn<O> = fn(&mut Parser<'_>) -> Result<Option<O>, ParserError>;

/// The statements of a text, in order, each as `finish` has it.
///
/// # Errors
/// `42601` with the position, `54001` for one nested too deeply; that of `finish`, before what is behind is parsed.
pub(crate) fn pieces<O, P>(
    sql: &str,
    own: ReadOwn<O>,
    mut finish: impl FnMut(Piece<O>) -> Result<P, SqlError>,
) -> Result<Vec<P>, SqlError> {
    let tokens = Tokenizer::new(&Postgres::for_text(sql), sql)
        .tokenize_with_location()
        .map_err(|error| syntax_error(error.into(), sql))?;
    cancel::check()?;
    let mut finished = Vec::new();
    for tokens in tokens.split(|token| token.token == Token::SemiColon) {
        let words = tokens.iter().filter(|token| !is_space(token));
        let piece = match words.clone().next() {
            None => continue,
            Some(first) if is_word(first, "checkpoint") && words.count() == 1 => {
                let (syntax, elements) = (Syntax::Checkpoint, Vec::new());
                Piece { syntax, deferrable: None, bricks: None, server: None, elements }
            }
            Some(_) => {
                // Each step goes over all words, which may be millions.
                cancel::check()?;
                depth::check(tokens, sql)?;
                whole_piece_of(tokens, sql, own)?
            }
        };
        finished.push(finish(piece)?);
    }
    Ok(finished)
}

/// The statement of these tokens, with those that it holds.
///
/// # Errors
/// As [`pieces`].
fn whole_piece_of<O>(tokens: &[TokenWithSpan], sql: &str, own: ReadOwn<O>) -> Result<Piece<O>, SqlError> {
    let mut parts = split_elements(tokens).into_iter();
    let mut piece = piece_of(parts.next().unwrap_or_default().to_vec(), sql, own)?;
    for element in parts {
        piece.elements.push(piece_of(element.to_vec(), sql, own)?);
    }
    Ok(piece)
}

/// The one statement of these tokens.
///
/// # Errors
/// As [`pieces`].
fn piece_of<O>(tokens: Vec<TokenWithSpan>, sql: &str, own: ReadOwn<O>) -> Result<Piece<O>, SqlError> {
    let mut tokens = spell_empty_lists(join_texts(tokens, sql)?);
    spell_synonyms(&mut tokens);
    spell_named(&mut tokens);
    let deferrable = take_deferrable(&mut tokens);
    take_unlogged(&mut tokens);
    take_compression(&mut tokens);
    take_with_data(&mut tokens);
    let check_option = take_check_option(&mut tokens);
    order_identity_options(&mut tokens);
    tokens = spell_current_rows(tokens);
    let has_cycles = spell_cycles(&mut tokens);
    take_exclusions(&mut tokens);
    take_stars(&mut tokens);
    spell_join_names(&mut tokens);
    spell_copy_options(&mut tokens);
    cancel::check()?;
    tokens = enclose_joins(tokens);
    tokens = spell_orders(enclose_offsets(spell_group_quantifiers(tokens)), sql)?;
    tokens = spell_fetch(spell_out(put_locks_last(spell_variadic(spell_rows_from(tokens)))));
    tokens = spell_targets(spell_merge(enclose_source(spell_operators(split_signs(spell_tables(tokens))))));
    let (mut tokens, has_elements) = spell_elements(spell_short_forms(spell_untyped(spell_like(tokens))));
    let overriding = take_overriding(&mut tokens);
    let bricks = take_bricks(&mut tokens)?;
    let server = take_server(&mut tokens)?;
    cancel::check()?;
    let has_long_chain = balance::has_long_chain(&tokens);
    let has_into = tokens.iter().any(|token| is_word(token, "into"));
    let has_clock_words = has_clock_words(&tokens);
    let mut syntax = parse_tokens(tokens, sql, own)?;
    cancel::check()?;
    if let Syntax::Statement(statement) = &mut syntax {
        if has_long_chain {
            balance::balance(statement);
        }
        if has_elements {
            put_elements(statement)?;
        }
        if let Some(whose) = overriding {
            put_overriding(statement, whose);
        }
        if has_into {
            as_definition(statement)?;
        }
        if has_cycles {
            write_cycles(statement)?;
        }
        if has_clock_words {
            ask_for_time(statement);
        }
        if let Some(which) = check_option {
            put_check_option(statement, which);
        }
    }
    Ok(Piece { syntax, deferrable, bricks, server, elements: Vec::new() })
}

/// What the parser makes of the tokens of a statement.
///
/// # Errors
/// `42601` with the position, `54001` for one that the parser does not go into as deep as it is.
fn parse_tokens<O>(tokens: Vec<TokenWithSpan>, sql: &str, own: ReadOwn<O>) -> Result<Syntax<O>, SqlError> {
    // Where the parser has several readings, as of CASE, it takes its limit for the end of one, and says that it did not expect
    // what was right.
    let is_nested = depth::is_nested(&tokens);
    let dialect = Postgres::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
    parse_one(&mut parser, &dialect, sql, own).map_err(|failed| match failed.state {
        SqlState::SyntaxError if is_nested => depth::too_deep(),
        _ => failed,
    })
}

/// The statement at the parser's place, which is to be all there is.
fn parse_one<O>(
    parser: &mut Parser<'_>,
    dialect: &Postgres,
    sql: &str,
    own: ReadOwn<O>,
) -> Result<Syntax<O>, SqlError> {
    to_next_word(parser);
    let syntax = match own(parser).map_err(|error| dialect.error(error, sql))? {
        Some(own) => Syntax::Own(own),
        None => {
            let statement = parser.parse_statement().map_err(|error| dialect.error(error, sql))?;
            Syntax::Statement(Box::new(statement))
        }
    };
    let rest = parser.peek_token();
    if rest.token == Token::EOF {
        return Ok(syntax);
    }
    let place = character_position(sql, rest.span.start.line, rest.span.start.column);
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

/// The query in a text that holds nothing else, such as a view's body.
///
/// # Errors
/// `42601` if it is anything else.
pub(crate) fn parse_query(sql: &str) -> Result<Query, SqlError> {
    let no_query = || SqlError::syntax("a query was expected");
    match pieces::<(), _>(sql, |_| Ok(None), |piece| Ok(piece.syntax))?.pop() {
        Some(Syntax::Statement(statement)) => match *statement {
            Statement::Query(query) => Ok(*query),
            _ => Err(no_query()),
        },
        Some(Syntax::Own(()) | Syntax::Checkpoint) | None => Err(no_query()),
    }
}

/// The expression in a text, such as one that a definition holds.
///
/// # Errors
/// If it is no expression.
pub(crate) fn parse_expression(text: &str) -> Result<Expr, ParserError> {
    let dialect = Postgres::for_text(text);
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX + DEPTH_BEYOND);
    parser.try_with_sql(text)?.parse_expr()
}

/// Whether the expression is the keyword DEFAULT, which the parser takes for a name.
pub(crate) fn is_default(expression: &Expr) -> bool {
    matches!(expression, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// Passes over blanks: who goes back from further on then stops here, and not before them.
pub(crate) fn to_next_word(parser: &mut Parser<'_>) {
    parser.next_token();
    parser.prev_token();
}

/// Goes back to a place that the parser was at.
pub(crate) fn rewind(parser: &mut Parser<'_>, start: usize) {
    while parser.index() > start {
        parser.prev_token();
    }
    // The parser goes back over white space as well, and where that is what comes next here, over the token before it.
    if parser.index() < start {
        parser.next_token();
    }
}

/// Takes the word, if it is the next one.
pub(crate) fn take_word(parser: &mut Parser<'_>, wanted: &str) -> bool {
    let is_next = matches!(&parser.peek_token().token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted));
    if is_next {
        parser.next_token();
    }
    is_next
}

/// Whether a token is a blank or a comment.
fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// A name in quotes.
fn quoted_word(name: impl Into<String>) -> Token {
    Token::Word(Word { value: name.into(), quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

/// Words that begin a statement's clauses but for FROM: behind them, and in front of the next FROM, no table is named.
const OTHER_CLAUSES: [&str; 14] = [
    "select",
    "where",
    "set",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "fetch",
    "window",
    "union",
    "except",
    "intersect",
    "returning",
];

/// Whether a token is this word, whatever its case, and not in quotes.
fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Whether a token is this word of the parser's, and not in quotes.
fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword)
}
