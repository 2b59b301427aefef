// SPDX-License-Identifier: Apache-2.0
//! `((SELECT 1) UNION (SELECT 2))` as a value: behind two parentheses the parser expects no query. What stands behind the inner ones tells
//! it from `((SELECT 1) + 2)`.

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Word};

/// Reads such a subquery; `None`, with nothing read, if something else is next.
pub(super) fn prefix(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let [outer, inner] = parser.peek_tokens_ref::<2>().map(|token| &token.token);
    if *outer != Token::LParen || *inner != Token::LParen {
        return None;
    }
    match behind_inner(parser) {
        Some(Token::Word(word)) if goes_on_with_a_query(word) => {}
        _ => return None,
    }
    parser.advance_token();
    Some(subquery(parser))
}

/// What stands behind the inner ones of the next parentheses, which the outer ones begin with; `None` if nothing does. Costs a look at each
/// token up to there.
pub(super) fn behind_inner<'p>(parser: &'p Parser<'_>) -> Option<&'p Token> {
    let tokens = (parser.index()..).map(move |place| &parser.token_at(place).token);
    let mut words = tokens.filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut depth = 0_usize;
    for token in words.by_ref() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen if depth <= 2 => break,
            Token::RParen => depth -= 1,
            Token::EOF => return None,
            _ => {}
        }
    }
    words.next().filter(|token| **token != Token::EOF)
}

/// Whether a query in parentheses goes on with a word.
pub(super) fn goes_on_with_a_query(word: &Word) -> bool {
    matches!(
        word.keyword,
        Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::OFFSET
            | Keyword::FETCH
            | Keyword::FOR
    )
}

fn subquery(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let query = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Subquery(query))
}
