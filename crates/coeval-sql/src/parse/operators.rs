// SPDX-License-Identifier: Apache-2.0
//! Operators as the parser does not know them: in front of a sign (`x>=-1` is `x >= -1`, where the tokenizer sees an operator
//! `>=-`), by their full names in front of ANY and ALL (`x OPERATOR(pg_catalog.=) ANY (list)`), and `:=` behind the name of an
//! argument, which is `=>` and which it takes for an assignment.

use super::element_targets::skip_space;
use super::is_word;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Spells `f(name := value)` as `f(name => value)`. There is no other `:=` in a statement.
pub(super) fn spell_named(tokens: &mut [TokenWithSpan]) {
    for token in tokens.iter_mut().filter(|token| token.token == Token::Assignment) {
        token.token = Token::RArrow;
    }
}

/// Takes signs off operators that end in some: `x>=-1` is `x >= -1`.
pub(super) fn split_signs(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| parted(&token.token).is_some()) {
        return tokens;
    }
    let mut split = Vec::with_capacity(tokens.len() + 1);
    for token in tokens {
        match parted(&token.token) {
            Some(parts) => split.extend(parts.into_iter().map(|part| TokenWithSpan::new(part, token.span))),
            None => split.push(token),
        }
    }
    split
}

/// An operator, if there is one, and the signs that its characters end in; `None` of other tokens. In PostgreSQL no operator of the
/// characters of comparisons and arithmetic alone ends in a sign. Two dashes begin a comment there.
fn parted(token: &Token) -> Option<Vec<Token>> {
    let Token::CustomBinaryOperator(text) = token else { return None };
    let operator = text.trim_end_matches(['+', '-']);
    let signs = &text[operator.len()..];
    if signs.is_empty() || signs.contains("--") {
        return None;
    }
    let operator = match operator {
        "" => None,
        "<" => Some(Token::Lt),
        "<=" => Some(Token::LtEq),
        "<>" => Some(Token::Neq),
        ">" => Some(Token::Gt),
        ">=" => Some(Token::GtEq),
        "<<" => Some(Token::ShiftLeft),
        ">>" => Some(Token::ShiftRight),
        "->" => Some(Token::Arrow),
        "->>" => Some(Token::LongArrow),
        _ => return None,
    };
    let signs = signs.chars().map(|sign| if sign == '-' { Token::Minus } else { Token::Plus });
    Some(operator.into_iter().chain(signs).collect())
}

/// Spells operators by themselves that stand by their full names in front of ANY, ALL or SOME, which the parser knows
/// behind the former only. All operators are of the schema `pg_catalog`.
pub(super) fn spell_operators(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "operator")) {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((token, behind)) = rest.split_first() {
        let (written, behind) = quantified(rest).unwrap_or((token, behind));
        out.push(written.clone());
        rest = behind;
    }
    out
}

/// The operator of `OPERATOR(pg_catalog.=)` in front of ANY, ALL or SOME, and what begins with that word.
fn quantified(tokens: &[TokenWithSpan]) -> Option<(&TokenWithSpan, &[TokenWithSpan])> {
    let next = |tokens| match skip_space(tokens) {
        [first, rest @ ..] => Some((first, rest)),
        [] => None,
    };
    let (_, rest) = tokens.split_first().filter(|(first, _)| is_word(first, "operator"))?;
    let (_, rest) = next(rest).filter(|(open, _)| open.token == Token::LParen)?;
    let (mut operator, mut rest) = next(rest)?;
    if is_word(operator, "pg_catalog") {
        let (_, behind) = next(rest).filter(|(point, _)| point.token == Token::Period)?;
        (operator, rest) = next(behind)?;
    }
    let (_, rest) = next(rest).filter(|(close, _)| close.token == Token::RParen)?;
    let is_quantifier =
        |token: &TokenWithSpan| ["any", "all", "some"].iter().any(|word| is_word(token, word));
    skip_space(rest).first().is_some_and(is_quantifier).then_some((operator, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn spelled(sql: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        spell_operators(tokens).iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn a_sign_behind_an_operator_is_no_part_of_it() {
        let split = |sql: &str| {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
            let parts = split_signs(tokens).into_iter().map(|token| token.token.to_string());
            parts.collect::<Vec<_>>().join(" ")
        };
        for operator in ["<", "<=", "<>", "=", ">", ">=", "<<", ">>", "->", "->>"] {
            assert_eq!(split(&format!("a{operator}-1")), format!("a {operator} - 1"));
            assert_eq!(split(&format!("a{operator}+1")), format!("a {operator} + 1"));
            assert_eq!(split(&format!("a{operator}-+b")), format!("a {operator} - + b"));
        }
        // These are operators in PostgreSQL as well, if unknown ones.
        for unknown in ["%-", "||-"] {
            assert_eq!(split(&format!("a{unknown}b")), format!("a {unknown} b"));
        }
    }

    #[test]
    fn an_operator_by_its_full_name_in_front_of_a_quantifier_is_that_operator() {
        assert_eq!(spelled("a OPERATOR(pg_catalog.=) ANY (b)"), "a = ANY (b)");
        assert_eq!(spelled("a operator ( <> )\n all (b)"), "a <>\n all (b)");
        assert_eq!(spelled("a OPERATOR(pg_catalog.~~)SOME (b)"), "a ~~SOME (b)");
        for other in [
            "a OPERATOR(pg_catalog.=) b",
            "a OPERATOR(mine.=) ANY (b)",
            "operator",
            "operator(",
            "f(operator) ANY",
        ] {
            assert_eq!(spelled(other), other);
        }
    }
}
