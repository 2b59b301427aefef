// SPDX-License-Identifier: Apache-2.0
//! How tightly operators bind where the parser has it otherwise than PostgreSQL, and what is read behind operands for that.
//!
//! In PostgreSQL all operators that have no place of their own bind alike: `~` and `~~` too, which the parser has among the
//! comparisons, and `OPERATOR(...)`, which it has beside BETWEEN. So `x ~ 'a' || 'b'` is `(x ~ 'a') || 'b'`. What
//! `IS DISTINCT FROM` compares with ends in front of AND and OR, where the parser reads on. And a collation may stand behind
//! a cast, where the parser does not expect it.

use super::{is_keyword, parentheses, values_subquery};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// What is no operator binds no operands.
const NO_OPERATOR: u8 = 0;

/// How tightly an operator binds that has no place of its own.
pub(super) fn of_others() -> u8 {
    PostgreSqlDialect {}.prec_value(Precedence::PgOther)
}

/// How tightly the next operator binds; `None` if the parser has that as PostgreSQL.
pub(super) fn of_next(parser: &Parser<'_>) -> Option<u8> {
    let [next, behind] = parser.peek_tokens_ref::<2>().map(|token| &token.token);
    match next {
        Token::Word(word) => match word.keyword {
            Keyword::OPERATOR if *behind == Token::LParen => Some(of_others()),
            // Operators of others than PostgreSQL, where they name an output.
            Keyword::OPERATOR
            | Keyword::DIV
            | Keyword::MATCH
            | Keyword::MEMBER
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::XOR => Some(NO_OPERATOR),
            _ => None,
        },
        token => pattern_operator(token).map(|_| of_others()),
    }
}

/// Reads on behind an operand; `None`, with nothing read, if the parser reads on as PostgreSQL does.
pub(super) fn infix(parser: &mut Parser<'_>, value: &Expr) -> Option<Result<Expr, ParserError>> {
    collated(parser, value).or_else(|| distinct(parser, value)).or_else(|| quantified(parser, value))
}

/// A collation. One behind another is the one that holds.
fn collated(parser: &mut Parser<'_>, value: &Expr) -> Option<Result<Expr, ParserError>> {
    if !is_keyword(&parser.peek_token_ref().token, Keyword::COLLATE) {
        return None;
    }
    parser.advance_token();
    let collated = if let Expr::Collate { expr, .. } = value { expr.as_ref() } else { value };
    let expr = Box::new(collated.clone());
    Some(parser.parse_object_name(false).map(|collation| Expr::Collate { expr, collation }))
}

/// `IS DISTINCT FROM` and what is compared with. A second one behind it is a mistake in PostgreSQL as well.
fn distinct(parser: &mut Parser<'_>, value: &Expr) -> Option<Result<Expr, ParserError>> {
    let [first, second, third, fourth] = parser.peek_tokens_ref::<4>().map(|token| &token.token);
    let negated = is_keyword(second, Keyword::NOT);
    let [word, from] = if negated { [third, fourth] } else { [second, third] };
    let words = [(first, Keyword::IS), (word, Keyword::DISTINCT), (from, Keyword::FROM)];
    if !words.iter().all(|&(token, keyword)| is_keyword(token, keyword)) {
        return None;
    }
    if matches!(value, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..)) {
        return Some(parser.expected_ref("end of expression", parser.peek_token_ref()));
    }
    for _ in 0..3 + usize::from(negated) {
        parser.advance_token();
    }
    let other = parser.parse_subexpr(PostgreSqlDialect {}.prec_value(Precedence::Is));
    let value = Box::new(value.clone());
    Some(other.map(|other| match negated {
        true => Expr::IsNotDistinctFrom(value, Box::new(other)),
        false => Expr::IsDistinctFrom(value, Box::new(other)),
    }))
}

/// A comparison with ANY, ALL or SOME of a subquery or an array, which is any expression.
fn quantified(parser: &mut Parser<'_>, value: &Expr) -> Option<Result<Expr, ParserError>> {
    let [operator, word, open] = parser.peek_tokens_ref::<3>().map(|token| &token.token);
    let compare_op = comparison(operator).or_else(|| pattern_operator(operator))?;
    let Token::Word(quantifier) = word else { return None };
    let quantifier = quantifier.keyword;
    if !matches!(quantifier, Keyword::ANY | Keyword::ALL | Keyword::SOME) || *open != Token::LParen {
        return None;
    }
    for _ in 0..2 {
        parser.advance_token();
    }
    let left = Box::new(value.clone());
    Some(in_parentheses(parser).map(|right| {
        let right = Box::new(right);
        match quantifier {
            Keyword::ALL => Expr::AllOp { left, compare_op, right },
            _ => Expr::AnyOp { left, compare_op, right, is_some: quantifier == Keyword::SOME },
        }
    }))
}

/// The subquery or the array in the parentheses that are next.
fn in_parentheses(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let [_, first] = parser.peek_tokens_ref::<2>().map(|token| &token.token);
    if is_keyword(first, Keyword::SELECT) || is_keyword(first, Keyword::WITH) {
        return parser.parse_prefix();
    }
    if let Some(query) = values_subquery::prefix(parser).or_else(|| parentheses::prefix(parser)) {
        return query;
    }
    parser.expect_token(&Token::LParen)?;
    let array = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(array)
}

fn comparison(token: &Token) -> Option<BinaryOperator> {
    Some(match token {
        Token::Eq => BinaryOperator::Eq,
        Token::Neq => BinaryOperator::NotEq,
        Token::Lt => BinaryOperator::Lt,
        Token::LtEq => BinaryOperator::LtEq,
        Token::Gt => BinaryOperator::Gt,
        Token::GtEq => BinaryOperator::GtEq,
        _ => return None,
    })
}

fn pattern_operator(token: &Token) -> Option<BinaryOperator> {
    Some(match token {
        Token::Tilde => BinaryOperator::PGRegexMatch,
        Token::TildeAsterisk => BinaryOperator::PGRegexIMatch,
        Token::ExclamationMarkTilde => BinaryOperator::PGRegexNotMatch,
        Token::ExclamationMarkTildeAsterisk => BinaryOperator::PGRegexNotIMatch,
        Token::DoubleTilde => BinaryOperator::PGLikeMatch,
        Token::DoubleTildeAsterisk => BinaryOperator::PGILikeMatch,
        Token::ExclamationMarkDoubleTilde => BinaryOperator::PGNotLikeMatch,
        Token::ExclamationMarkDoubleTildeAsterisk => BinaryOperator::PGNotILikeMatch,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::parse::{Syntax, parse_known, pieces};
    use crate::walk::change_expressions;
    use datafusion::sql::sqlparser::ast::{Expr, Statement};

    fn parsed(condition: &str) -> Statement {
        let sql = format!("SELECT {condition}");
        match pieces::<(), _>(&sql, |_| Ok(None), |piece| Ok(piece.syntax)).unwrap().pop() {
            Some(Syntax::Statement(statement)) => *statement,
            other => panic!("{other:?}"),
        }
    }

    /// Every operation in parentheses, those that were written left out.
    fn shape(mut statement: Statement) -> String {
        change_expressions(&mut statement, |expression| {
            if let Expr::Nested(inner) = expression {
                *expression = inner.as_ref().clone();
            } else if !matches!(expression, Expr::Identifier(_) | Expr::Value(_)) {
                *expression = Expr::Nested(Box::new(expression.clone()));
            }
        });
        statement.to_string()
    }

    #[test]
    fn operators_bind_as_in_postgresql() {
        for (written, grouped) in [
            ("a IS DISTINCT FROM b OR c", "((a IS DISTINCT FROM b) OR c)"),
            ("a IS NOT DISTINCT FROM b AND c OR d", "(((a IS NOT DISTINCT FROM b) AND c) OR d)"),
            ("x AND a IS DISTINCT FROM b OR c", "((x AND (a IS DISTINCT FROM b)) OR c)"),
            ("NOT a IS DISTINCT FROM b AND c", "((NOT (a IS DISTINCT FROM b)) AND c)"),
            (
                "a IS DISTINCT FROM b OR c IS DISTINCT FROM d AND e",
                "((a IS DISTINCT FROM b) OR ((c IS DISTINCT FROM d) AND e))",
            ),
            ("a IS DISTINCT FROM b + 1 OR c", "((a IS DISTINCT FROM (b + 1)) OR c)"),
            ("a IS DISTINCT FROM b = c", "(a IS DISTINCT FROM (b = c))"),
            ("a IS DISTINCT FROM (b OR c)", "(a IS DISTINCT FROM (b OR c))"),
            ("~ a + b", "(~(a + b))"),
            ("a * ~ b + c || d", "((a * (~(b + c))) || d)"),
            ("@ -a * b = c", "((@((-a) * b)) = c)"),
            ("|/ a + b || c", "((|/(a + b)) || c)"),
            ("- a ^ b", "((-a) ^ b)"),
            ("- - a", "(-(-a))"),
            ("- ~ a + b", "(-(~(a + b)))"),
            ("a ~ b || c", "((a ~ b) || c)"),
            ("a || b !~~* c = d", "(((a || b) !~~* c) = d)"),
            ("a ~ ANY (b || c) AND d", "((a ~ ANY((b || c))) AND d)"),
            ("a = ALL (b OR c) + d", "((a = ALL((b OR c))) + d)"),
            ("a OPERATOR(pg_catalog.+) b || c", "((a OPERATOR(pg_catalog.+) b) || c)"),
            ("a::text COLLATE \"C\" || b", "(((a::TEXT) COLLATE \"C\") || b)"),
        ] {
            let statement = parsed(written);
            let again = parse_known(&statement.to_string()).unwrap().remove(0);
            assert_eq!(shape(statement), format!("SELECT {grouped}"), "{written}");
            assert_eq!(shape(again), format!("SELECT {grouped}"), "{written}, read again");
        }
    }
}
