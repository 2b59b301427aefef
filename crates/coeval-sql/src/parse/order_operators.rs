// SPDX-License-Identifier: Apache-2.0
//! `ORDER BY x USING <`, which is `ORDER BY x ASC`: the parser does not know the clause.

use super::{is_space, is_word};
use crate::error::{SqlError, SqlState, character_position};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Writes each `USING` in front of an operator as the direction that it stands for. Behind other USINGs stands no operator.
///
/// # Errors
/// `42809` for an operator that orders nothing.
pub(super) fn spell_orders(tokens: Vec<TokenWithSpan>, sql: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    if !tokens.iter().any(|token| is_word(token, "using")) {
        return Ok(tokens);
    }
    let mut spelled = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let operator = if is_word(token, "using") { operator(&tokens, at + 1) } else { None };
        match operator {
            Some((operator, end)) => {
                spelled.push(TokenWithSpan { token: direction(operator, sql)?, span: token.span });
                at = end;
            }
            None => {
                spelled.push(token.clone());
                at += 1;
            }
        }
    }
    Ok(spelled)
}

/// The operator at this place, also as `OPERATOR(pg_catalog.<)`, and where it ends.
fn operator(tokens: &[TokenWithSpan], from: usize) -> Option<(&TokenWithSpan, usize)> {
    let mut places = (from..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    let first = places.next()?;
    if is_operator(&tokens[first].token) {
        return Some((&tokens[first], first + 1));
    }
    let open = places.next()?;
    if !is_word(&tokens[first], "operator") || tokens[open].token != Token::LParen {
        return None;
    }
    let mut named = places.next()?;
    if is_word(&tokens[named], "pg_catalog") {
        places.next().filter(|&point| tokens[point].token == Token::Period)?;
        named = places.next()?;
    }
    let close = places.next().filter(|&close| tokens[close].token == Token::RParen)?;
    is_operator(&tokens[named].token).then_some((&tokens[named], close + 1))
}

fn is_operator(token: &Token) -> bool {
    matches!(
        token,
        Token::Lt
            | Token::Gt
            | Token::LtEq
            | Token::GtEq
            | Token::Eq
            | Token::Neq
            | Token::CustomBinaryOperator(_)
    )
}

/// The word for the order of an operator. Those of texts by bytes (`~<~`) are the order that texts have here.
fn direction(operator: &TokenWithSpan, sql: &str) -> Result<Token, SqlError> {
    let name = operator.token.to_string();
    match name.as_str() {
        "<" | "~<~" => Ok(Token::make_keyword("ASC")),
        ">" | "~>~" => Ok(Token::make_keyword("DESC")),
        _ => {
            let message = format!("operator {name} is not a valid ordering operator");
            let error = SqlError::new(SqlState::WrongObjectType, message)
                .with_hint("Ordering operators must be \"<\" or \">\" members of btree operator families.");
            let start = operator.span.start;
            Err(match character_position(sql, start.line, start.column) {
                Some(position) => error.with_position(position),
                None => error,
            })
        }
    }
}
