// SPDX-License-Identifier: Apache-2.0
//! `JOIN ... USING (a, b) AS j`, whose name the parser does not know. It becomes one more column, of a table that nobody has:
//! `USING (a, b, "..join".j)`.

use super::{is_space, is_word, quoted_word};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What stands in front of the name of a join.
pub(super) const JOIN_NAME: &str = "\u{1}join";

/// The name that a join has by a column of its USING; `None` if that is a column.
pub(crate) fn join_name(column: &ObjectName) -> Option<&Ident> {
    match column.0.as_slice() {
        [ObjectNamePart::Identifier(mark), ObjectNamePart::Identifier(name)] if mark.value == JOIN_NAME => {
            Some(name)
        }
        _ => None,
    }
}

/// Writes each such name as a column.
pub(super) fn spell_join_names(tokens: &mut Vec<TokenWithSpan>) {
    let read = tokens.as_slice();
    let using = (0..read.len()).filter(|&place| is_word(&read[place], "using"));
    let found: Vec<(usize, usize)> = using.filter_map(|place| named(read, place + 1)).collect();
    if found.is_empty() {
        return;
    }
    let mut spelled = Vec::with_capacity(tokens.len() + found.len());
    let mut found = found.into_iter().peekable();
    for (place, token) in std::mem::take(tokens).into_iter().enumerate() {
        let like = |other: Token| TokenWithSpan { token: other, span: token.span };
        match found.peek() {
            Some(&(close, _)) if place == close => {
                spelled.extend([Token::Comma, quoted_word(JOIN_NAME), Token::Period].map(like));
            }
            Some(&(_, name)) if place == name => {
                let close = like(Token::RParen);
                spelled.extend([token, close]);
                found.next();
            }
            // The word and the blanks between them.
            Some(&(close, _)) if place > close => {}
            _ => spelled.push(token),
        }
    }
    *tokens = spelled;
}

/// The places of the parenthesis that closes the columns which begin here, and of the name behind it; `None` if there is no such
/// name.
fn named(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, usize)> {
    let mut places = (at..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    if tokens[places.next()?].token != Token::LParen {
        return None;
    }
    // Nothing but names: DELETE and MERGE have subqueries behind USING, which have names as well.
    let close = loop {
        if !matches!(tokens[places.next()?].token, Token::Word(_)) {
            return None;
        }
        let behind = places.next()?;
        match tokens[behind].token {
            Token::Comma => {}
            Token::RParen => break behind,
            _ => return None,
        }
    };
    let (word, name) = (places.next()?, places.next()?);
    (is_word(&tokens[word], "as") && matches!(tokens[name].token, Token::Word(_))).then_some((close, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn spelled(sql: &str) -> String {
        let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        spell_join_names(&mut tokens);
        tokens.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn the_name_of_a_join_is_a_column() {
        assert_eq!(
            spelled("SELECT 1 FROM a JOIN b USING (i, \"K\") AS x WHERE x.i = 1"),
            format!("SELECT 1 FROM a JOIN b USING (i, \"K\",\"{JOIN_NAME}\".x) WHERE x.i = 1")
        );
    }

    #[test]
    fn other_names_stay() {
        for sql in [
            "DELETE FROM a USING (SELECT 1 AS i) AS x WHERE x.i = a.i",
            "SELECT 1 FROM a JOIN b USING (i) JOIN c USING (k)",
        ] {
            assert_eq!(spelled(sql), sql);
        }
    }
}
