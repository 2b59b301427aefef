// SPDX-License-Identifier: Apache-2.0
//! `ROWS FROM (f(x), g(y))` in FROM, which the parser does not know: it becomes a function of the sets. A column may have the name, too:
//! `SELECT a, rows FROM (SELECT ...) t`.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The function whose arguments are sets that stand beside each other.
pub(crate) const ROWS_FROM: &str = "coeval_rows_from";

/// Words that tables stand behind.
const BEFORE_TABLES: [&str; 4] = ["from", "join", "lateral", "using"];

/// Words that a query, or a table, begins with, and that may stand in front of a parenthesis like the name of a function.
const NO_FUNCTIONS: [&str; 6] = ["select", "values", "with", "table", "lateral", "only"];

/// Writes each such clause as a call of the function.
pub(super) fn spell_rows_from(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |place: usize| {
        let before = tokens[..place].iter().rfind(|token| !is_space(token));
        if !before.is_some_and(is_before_table) {
            return None;
        }
        let mut behind = (place + 1..tokens.len()).filter(|&place| !is_space(&tokens[place]));
        let from = behind.next().filter(|&place| is_word(&tokens[place], "from"))?;
        let opens = behind.next().is_some_and(|place| tokens[place].token == Token::LParen);
        (opens && is_call(behind.map(|place| &tokens[place]))).then_some(from)
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

fn is_before_table(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Comma | Token::LParen)
        || BEFORE_TABLES.iter().any(|word| is_word(token, word))
}

/// Whether a call of a function is what these words begin with: a name, in a schema maybe, and a parenthesis.
fn is_call<'t>(mut words: impl Iterator<Item = &'t TokenWithSpan>) -> bool {
    loop {
        let is_name = |name: &TokenWithSpan| {
            matches!(name.token, Token::Word(_)) && !NO_FUNCTIONS.iter().any(|word| is_word(name, word))
        };
        if !words.next().is_some_and(is_name) {
            return false;
        }
        match words.next().map(|behind| &behind.token) {
            Some(Token::LParen) => return true,
            Some(Token::Period) => {}
            _ => return false,
        }
    }
}
