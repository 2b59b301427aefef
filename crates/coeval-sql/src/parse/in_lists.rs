// SPDX-License-Identifier: Apache-2.0
//! `x IN ((SELECT max(y) FROM u), 9)`, a list that begins with a subquery: the parser takes what begins like a query for one, and
//! expects nothing behind it.

use super::is_keyword;
use super::parentheses::{behind_inner, goes_on_with_a_query};
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Reads on behind an expression that such a list follows; `None`, with nothing read, if none does.
pub(super) fn infix(parser: &mut Parser<'_>, value: &Expr) -> Option<Result<Expr, ParserError>> {
    let [first, second, third, fourth] = parser.peek_tokens_ref::<4>().map(|token| &token.token);
    let negated = is_keyword(first, Keyword::NOT);
    let [word, open, member] = if negated { [second, third, fourth] } else { [first, second, third] };
    let opens = |token: &Token| *token == Token::LParen;
    if !is_keyword(word, Keyword::IN) || !opens(open) || !opens(member) || !is_list(parser) {
        return None;
    }
    for _ in 0..2 + usize::from(negated) {
        parser.advance_token();
    }
    Some(list(parser).map(|list| Expr::InList { expr: Box::new(value.clone()), list, negated }))
}

/// Whether the parentheses within the next ones, which they begin with, hold a member of a list: something stands behind them that
/// does not go on with a query.
fn is_list(parser: &Parser<'_>) -> bool {
    match behind_inner(parser) {
        Some(Token::Word(word)) => !goes_on_with_a_query(word),
        Some(Token::RParen) | None => false,
        Some(_) => true,
    }
}

/// The members, up to the parenthesis behind them.
fn list(parser: &mut Parser<'_>) -> Result<Vec<Expr>, ParserError> {
    let list = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(list)
}
