// SPDX-License-Identifier: Apache-2.0
//! `CREATE TABLE t (a, b) AS query`: the parser wants a type behind each name, so it gets one that nobody else gives.

use super::like_columns::creates_table;
use super::{is_space, is_word, quoted_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The type of a column that is declared without one.
pub(crate) const UNTYPED: &str = "\u{1}untyped";

/// Writes a type behind each name in the list of columns, if there are only names and a query follows.
pub(super) fn spell_untyped(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !creates_table(&tokens) {
        return tokens;
    }
    let names = names_of_list(&tokens);
    if names.is_empty() {
        return tokens;
    }
    let mut spelled = Vec::with_capacity(tokens.len() + names.len());
    let mut names = names.into_iter().peekable();
    for (place, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        spelled.push(token);
        if names.next_if_eq(&place).is_some() {
            spelled.push(TokenWithSpan { token: quoted_word(UNTYPED), span });
        }
    }
    spelled
}

/// The places of the names in the list of columns of CREATE TABLE AS; none if it has no list, or one of other things.
fn names_of_list(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let places = || (0..tokens.len()).filter(move |&place| !is_space(&tokens[place]));
    let head = places().take_while(|&place| tokens[place].token != Token::LParen);
    if head.clone().any(|place| is_word(&tokens[place], "as")) {
        return Vec::new();
    }
    let mut rest = places().skip(head.count() + 1);
    let mut names = Vec::new();
    loop {
        match (rest.next(), rest.next()) {
            (Some(name), Some(end)) if matches!(tokens[name].token, Token::Word(_)) => {
                names.push(name);
                match tokens[end].token {
                    Token::Comma => {}
                    Token::RParen => break,
                    _ => return Vec::new(),
                }
            }
            _ => return Vec::new(),
        }
    }
    if rest.any(|place| is_word(&tokens[place], "as")) { names } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn spelled(sql: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        spell_untyped(tokens).iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn only_names_in_front_of_a_query_get_a_type() {
        assert_eq!(
            spelled("CREATE TEMP TABLE t (a, \"B\" ) WITH (fillfactor = 70) AS SELECT 1, 2"),
            format!(
                "CREATE TEMP TABLE t (a\"{UNTYPED}\", \"B\"\"{UNTYPED}\" ) WITH (fillfactor = 70) AS SELECT 1, 2"
            )
        );
        for sql in [
            "CREATE TABLE t (a int, b text)",
            "CREATE TABLE t (a, b)",
            "CREATE TABLE t (a int) AS SELECT 1",
            "CREATE TABLE t AS SELECT a FROM (SELECT 1 AS a) s",
            "CREATE TABLE t (a int GENERATED ALWAYS AS (b) STORED, b int)",
            "CREATE TABLE t",
        ] {
            assert_eq!(spelled(sql), sql);
        }
    }
}
