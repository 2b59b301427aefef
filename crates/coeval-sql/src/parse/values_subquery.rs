// SPDX-License-Identifier: Apache-2.0
//! `(VALUES (1))` as a value: the parser takes VALUES for the name of a function.

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Reads such a subquery; `None`, with nothing read, if something else is next. A column may be called `values`, a function may
/// not.
pub(super) fn prefix(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let [open, word, row] = parser.peek_tokens_ref::<3>().map(|token| &token.token);
    if *open != Token::LParen || !begins_rows(word, row) {
        return None;
    }
    parser.advance_token();
    Some(subquery(parser))
}

fn begins_rows(word: &Token, row: &Token) -> bool {
    matches!(word, Token::Word(word) if word.keyword == Keyword::VALUES) && *row == Token::LParen
}

fn subquery(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let query = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Subquery(query))
}
