// SPDX-License-Identifier: Apache-2.0
//! `a JOIN b JOIN c ON x ON y`, whose inner join is the right side of the outer one: written with the parentheses that it stands for,
//! `a JOIN (b JOIN c ON x) ON y`, since the parser goes on at the first condition.

use super::{OTHER_CLAUSES, is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// A join that waits for its condition.
struct Waiting {
    /// Where its right side begins.
    right: usize,
    /// Whether that has joins of its own.
    has_joins: bool,
}

/// Writes each such right side in parentheses.
pub(super) fn enclose_joins(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "join")) {
        return tokens;
    }
    let mut parentheses = parentheses(&tokens);
    if parentheses.is_empty() {
        return tokens;
    }
    parentheses.sort_by_key(|&(place, _)| place);
    let mut enclosed = Vec::with_capacity(tokens.len() + parentheses.len());
    let mut parentheses = parentheses.into_iter().peekable();
    for (place, token) in tokens.into_iter().enumerate() {
        while let Some((_, parenthesis)) = parentheses.next_if(|&(before, _)| before == place) {
            enclosed.push(TokenWithSpan { token: parenthesis, span: token.span });
        }
        enclosed.push(token);
    }
    enclosed
}

/// The parentheses that are missing, each with the place of the token that it stands in front of.
fn parentheses(tokens: &[TokenWithSpan]) -> Vec<(usize, Token)> {
    let mut missing = Vec::new();
    let (mut around, mut waiting): (Vec<Vec<Waiting>>, Vec<Waiting>) = (Vec::new(), Vec::new());
    let (mut is_unconditional, mut is_behind_join) = (false, false);
    for (place, token) in tokens.iter().enumerate().filter(|(_, token)| !is_space(token)) {
        if std::mem::take(&mut is_behind_join) {
            waiting.push(Waiting { right: place, has_joins: false });
        }
        match &token.token {
            Token::LParen | Token::LBracket => around.push(std::mem::take(&mut waiting)),
            Token::RParen | Token::RBracket => waiting = around.pop().unwrap_or_default(),
            Token::Comma => waiting.clear(),
            _ if is_word(token, "cross") || is_word(token, "natural") => is_unconditional = true,
            _ if is_word(token, "join") => {
                if let Some(outer) = waiting.last_mut() {
                    outer.has_joins = true;
                }
                is_behind_join = !std::mem::take(&mut is_unconditional);
            }
            _ if is_word(token, "on") || is_word(token, "using") => {
                if let Some(Waiting { right, has_joins: true }) = waiting.pop() {
                    missing.extend([(right, Token::LParen), (place, Token::RParen)]);
                }
            }
            _ if OTHER_CLAUSES.iter().any(|word| is_word(token, word)) => waiting.clear(),
            _ => {}
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn spelled(sql: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        enclose_joins(tokens).iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn a_right_side_with_joins_gets_parentheses() {
        for (sql, enclosed) in [
            ("a JOIN b JOIN c ON x ON y", "a JOIN (b JOIN c ON x )ON y"),
            ("a JOIN b JOIN c JOIN d ON x ON y ON z", "a JOIN (b JOIN (c JOIN d ON x )ON y )ON z"),
            ("a JOIN b CROSS JOIN (SELECT 1) c ON x", "a JOIN (b CROSS JOIN (SELECT 1) c )ON x"),
            (
                "a LEFT JOIN b JOIN c USING (i) USING (k) JOIN d ON z",
                "a LEFT JOIN (b JOIN c USING (i) )USING (k) JOIN d ON z",
            ),
            (
                "a JOIN b JOIN c ON CASE WHEN x THEN y END ON c.k = ARRAY[1, 2]",
                "a JOIN (b JOIN c ON CASE WHEN x THEN y END )ON c.k = ARRAY[1, 2]",
            ),
            ("a JOIN b JOIN c ON c.k = ARRAY[1, 2] ON x", "a JOIN (b JOIN c ON c.k = ARRAY[1, 2] )ON x"),
        ] {
            assert_eq!(spelled(sql), enclosed);
        }
    }

    #[test]
    fn joins_one_behind_the_other_stay() {
        for sql in [
            "SELECT DISTINCT ON (a) a FROM a JOIN b ON x LEFT JOIN c USING (i) CROSS JOIN d NATURAL JOIN e JOIN f ON y",
            "SELECT 1 FROM a JOIN (b JOIN c ON x) ON y, d JOIN e ON EXISTS (SELECT 1 FROM f JOIN g ON z)",
            "MERGE INTO t USING a JOIN b ON x ON y WHEN MATCHED THEN DELETE",
        ] {
            assert_eq!(spelled(sql), sql);
        }
    }
}
