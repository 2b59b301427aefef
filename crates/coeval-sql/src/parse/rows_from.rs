// SPDX-License-Identifier: Apache-2.0
//! `ROWS FROM (f(x), g(y))` in FROM, which the parser does not know: it becomes a function of the sets.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The function whose arguments are sets that stand beside each other.
pub(crate) const ROWS_FROM: &str = "coeval_rows_from";

/// Writes each such clause as a call of the function.
pub(super) fn spell_rows_from(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |place: usize| {
        let mut behind = (place + 1..tokens.len()).filter(|&place| !is_space(&tokens[place]));
        let from = behind.next().filter(|&place| is_word(&tokens[place], "from"))?;
        let opens = behind.next().is_some_and(|place| tokens[place].token == Token::LParen);
        opens.then_some(from)
    };
    let rows = (0..tokens.len()).filter(|&place| is_word(&tokens[place], "rows"));
    let clauses: Vec<(usize, usize)> = rows.filter_map(|place| Some((place, begins(place)?))).collect();
    if clauses.is_empty() {
        return tokens;
    }
    let mut spelled = Vec::with_capacity(tokens.len());
    let mut clauses = clauses.into_iter().peekable();
    for (place, mut token) in tokens.into_iter().enumerate() {
        if clauses.peek().is_some_and(|&(rows, _)| rows == place) {
            token.token = Token::make_word(ROWS_FROM, None);
        }
        if clauses.next_if(|&(_, from)| from == place).is_none() {
            spelled.push(token);
        }
    }
    spelled
}
