// SPDX-License-Identifier: Apache-2.0
//! A sign in front of a power: `-2 ^ 2` is `(-2) ^ 2`, as in PostgreSQL. The parser has it the other way round.

use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Reads a sign and its operand; `None`, with nothing read, if something else is next.
pub(super) fn prefix(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let sign = match parser.peek_token_ref().token {
        Token::Minus => UnaryOperator::Minus,
        Token::Plus => UnaryOperator::Plus,
        _ => return None,
    };
    parser.advance_token();
    Some(signed(parser, sign))
}

/// The operand with its sign. Casts and subscripts belong to the operand; a power is one of both, which parentheses say where the text
/// of this is parsed again.
fn signed(parser: &mut Parser<'_>, sign: UnaryOperator) -> Result<Expr, ParserError> {
    let closer = PostgreSqlDialect {}.prec_value(Precedence::AtTz);
    let operand = parser.parse_subexpr(closer)?;
    let signed = Expr::UnaryOp { op: sign, expr: Box::new(operand) };
    let is_base = parser.peek_token_ref().token == Token::Caret;
    Ok(if is_base { Expr::Nested(Box::new(signed)) } else { signed })
}
