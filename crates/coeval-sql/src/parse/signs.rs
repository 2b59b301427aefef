// SPDX-License-Identifier: Apache-2.0
//! Signs as the parser does not have them: in front of a power, `-2 ^ 2` is `(-2) ^ 2`, as in PostgreSQL, where the parser has it the other
//! way round; and in front of others, `- -x`, which it writes as `--x`, a comment.

use super::is_space;
use crate::walk::change_expressions;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, VisitMut};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

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

/// Whether there may be an operator in front of an operand that begins with one.
pub(super) fn has_operators_in_row(tokens: &[TokenWithSpan]) -> bool {
    let mut is_behind_operator = false;
    tokens.iter().filter(|token| !is_space(token)).any(|token| {
        let is_operator = is_prefix(&token.token);
        let is_second = is_operator && is_behind_operator;
        is_behind_operator = is_operator;
        is_second
    })
}

fn is_prefix(token: &Token) -> bool {
    matches!(
        token,
        Token::Minus | Token::Plus | Token::Tilde | Token::AtSign | Token::PGSquareRoot | Token::PGCubeRoot
    )
}

/// Puts such operands into parentheses. Written as text and parsed again, the syntax means the same.
pub(super) fn enclose_operands<V: VisitMut>(syntax: &mut V) {
    change_expressions(syntax, enclose_operand);
}

fn enclose_operand(expression: &mut Expr) {
    let Expr::UnaryOp { op, expr } = expression else { return };
    if *op != UnaryOperator::Not && matches!(**expr, Expr::UnaryOp { .. }) {
        let operand = std::mem::replace(&mut **expr, Expr::Wildcard(AttachedToken::empty()));
        **expr = Expr::Nested(Box::new(operand));
    }
}
