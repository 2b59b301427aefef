// SPDX-License-Identifier: Apache-2.0
//! Operators as the parser does not know them: in front of a sign (`x->-1` is `x -> -1`, where the tokenizer sees an operator
//! `->-`), by their full names in front of ANY and ALL (`x OPERATOR(pg_catalog.=) ANY (list)`), and `:=` behind the name of an
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

/// Takes the sign off operators that end in one. In PostgreSQL no operator of these characters does.
pub(super) fn split_signs(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let operator = |token: &Token| match token {
        Token::CustomBinaryOperator(text) if text == "->-" => Some(Token::Arrow),
        Token::CustomBinaryOperator(text) if text == "->>-" => Some(Token::LongArrow),
        _ => None,
    };
    if !tokens.iter().any(|token| operator(&token.token).is_some()) {
        return tokens;
    }
    let mut split = Vec::with_capacity(tokens.len() + 1);
    for token in tokens {
        match operator(&token.token) {
            Some(operator) => {
                split.push(TokenWithSpan { token: operator, span: token.span });
                split.push(TokenWithSpan { token: Token::Minus, span: token.span });
            }
            None => split.push(token),
        }
    }
    split
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
