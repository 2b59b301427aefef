// SPDX-License-Identifier: Apache-2.0
//! `COMPRESSION method` of a column in CREATE TABLE and ADD COLUMN. The parser does not know the words, and how PostgreSQL
//! compresses long values means nothing here.

use super::like_columns::creates_table;
use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The methods that PostgreSQL has.
const METHODS: [&str; 3] = ["pglz", "lz4", "default"];

/// Takes the clause away from each column.
pub(super) fn take_compression(tokens: &mut Vec<TokenWithSpan>) {
    let is_there = tokens.iter().any(|token| is_word(token, "compression"));
    if !is_there || !(creates_table(tokens) || alters_table(tokens)) {
        return;
    }
    let words: Vec<usize> = (0..tokens.len()).filter(|&place| !is_space(&tokens[place])).collect();
    let clauses = words.windows(3).filter(|places| is_clause(places.iter().map(|&place| &tokens[place])));
    let taken: Vec<usize> = clauses.flat_map(|places| places[1..].to_vec()).collect();
    let (mut taken, mut place) = (taken.into_iter().peekable(), 0_usize);
    tokens.retain(|_| {
        let is_taken = taken.next_if_eq(&place).is_some();
        place += 1;
        !is_taken
    });
}

fn alters_table(tokens: &[TokenWithSpan]) -> bool {
    let mut words = tokens.iter().filter(|token| !is_space(token));
    ["alter", "table"].iter().all(|word| words.next().is_some_and(|token| is_word(token, word)))
}

/// Whether these are the end of a type or of another clause, the word, and a method. A column may have the word for its name.
fn is_clause<'t>(mut tokens: impl Iterator<Item = &'t TokenWithSpan>) -> bool {
    let (Some(before), Some(word), Some(method)) = (tokens.next(), tokens.next(), tokens.next()) else {
        return false;
    };
    let begins_column = matches!(before.token, Token::LParen | Token::Comma)
        || ["add", "column", "exists", "set"].iter().any(|begin| is_word(before, begin));
    !begins_column && is_word(word, "compression") && METHODS.iter().any(|known| is_word(method, known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn without(sql: &str) -> String {
        let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        take_compression(&mut tokens);
        tokens.iter().filter(|token| !is_space(token)).map(|token| format!("{} ", token.token)).collect()
    }

    #[test]
    fn the_clause_goes_and_columns_of_its_name_stay() {
        assert_eq!(
            without("CREATE TABLE t (a text COMPRESSION pglz NOT NULL, b varchar(9) compression lz4)"),
            "CREATE TABLE t ( a text NOT NULL , b varchar ( 9 ) ) "
        );
        assert_eq!(
            without("ALTER TABLE t ADD COLUMN a text COMPRESSION default"),
            "ALTER TABLE t ADD COLUMN a text "
        );
        for sql in [
            "CREATE TABLE t ( compression lz4 ) ",
            "ALTER TABLE t ALTER a SET COMPRESSION lz4 ",
            "ALTER TABLE t ADD compression default ",
            "CREATE TABLE t ( a text COMPRESSION zip ) ",
            "SELECT a compression FROM lz4 ",
        ] {
            assert_eq!(without(sql), sql);
        }
    }
}
