// SPDX-License-Identifier: Apache-2.0
//! `(VALUES (1))` as a value, and behind ANY and ALL: the parser takes VALUES for the name of a function.

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Reads such a subquery; `None`, with nothing read, if something else is next. A column may be called `values`, a function may
/// not.
pub(super) fn prefix(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    if is_quantified(parser) {
        // The parser has read the parenthesis in front, and reads the one behind.
        return Some(parser.parse_query().map(Expr::Subquery));
    }
    let [open, word, row] = parser.peek_tokens_ref::<3>().map(|token| &token.token);
    if *open != Token::LParen || !begins_rows(word, row) {
        return None;
    }
    parser.advance_token();
    Some(subquery(parser))
}

/// Whether `VALUES (` is next, right behind `ANY (` or its like.
fn is_quantified(parser: &Parser<'_>) -> bool {
    let [word, row] = parser.peek_tokens_ref::<2>().map(|token| &token.token);
    if !begins_rows(word, row) || parser.get_current_token().token != Token::LParen {
        return false;
    }
    let mut before = (0..parser.get_current_index()).rev().map(|place| &parser.token_at(place).token);
    let quantifier = before.find(|token| !matches!(token, Token::Whitespace(_)));
    matches!(quantifier, Some(Token::Word(word))
        if matches!(word.keyword, Keyword::ANY | Keyword::ALL | Keyword::SOME))
}

fn begins_rows(word: &Token, row: &Token) -> bool {
    matches!(word, Token::Word(word) if word.keyword == Keyword::VALUES) && *row == Token::LParen
}

fn subquery(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let query = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Subquery(query))
}
