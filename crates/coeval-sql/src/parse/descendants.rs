// SPDX-License-Identifier: Apache-2.0
//! `t*`, the table with those that inherit from it, which is `t`, since no table does: the parser takes the star for a product.

use super::{OTHER_CLAUSES, is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words behind which a table stands. FROM is one in most places.
const BEFORE_A_TABLE: [&str; 5] = ["join", "update", "table", "truncate", "lock"];

/// Words that begin what lists no tables, beside other clauses than FROM.
const BEFORE_OTHERS: [&str; 2] = ["values", "for"];

/// Functions that have FROM between their arguments.
const CALLS_WITH_FROM: [&str; 4] = ["extract", "substring", "trim", "overlay"];

/// Where a token stands.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Elsewhere,
    /// A table is to come.
    BeforeTable,
    /// Behind a part of a table's name.
    InName,
    /// Behind a point in it.
    BehindPoint,
}

/// What is between two parentheses, or outside of all.
#[derive(Default)]
struct Level {
    is_call_with_from: bool,
    /// Whether tables are listed, so that one stands behind a comma.
    lists_tables: bool,
}

/// Takes each such star out.
pub(super) fn take_stars(tokens: &mut Vec<TokenWithSpan>) {
    if tokens.iter().any(|token| token.token == Token::Mul) {
        let mut places = Places::default();
        tokens.retain(|token| {
            let is_taken = token.token == Token::Mul && places.place == Place::InName;
            if !is_space(token) {
                places.go_on(token);
            }
            !is_taken
        });
    }
}

#[derive(Default)]
struct Places {
    around: Vec<Level>,
    level: Level,
    place: Place,
    is_behind_distinct: bool,
    is_behind_call_with_from: bool,
}

impl Places {
    /// Goes behind a token.
    fn go_on(&mut self, token: &TokenWithSpan) {
        self.place = match &token.token {
            Token::LParen => {
                let is_call_with_from = self.is_behind_call_with_from;
                let inner = Level { is_call_with_from, lists_tables: false };
                self.around.push(std::mem::replace(&mut self.level, inner));
                Place::Elsewhere
            }
            Token::RParen => {
                self.level = self.around.pop().unwrap_or_default();
                Place::Elsewhere
            }
            Token::Comma if self.level.lists_tables => Place::BeforeTable,
            Token::Period if self.place == Place::InName => Place::BehindPoint,
            Token::Word(_) if self.place == Place::BehindPoint => Place::InName,
            Token::Word(_) => self.behind_word(token),
            _ => Place::Elsewhere,
        };
        self.is_behind_distinct = is_word(token, "distinct");
        self.is_behind_call_with_from = CALLS_WITH_FROM.iter().any(|word| is_word(token, word));
    }

    fn behind_word(&mut self, token: &TokenWithSpan) -> Place {
        let is_one_of = |words: &[&str]| words.iter().any(|word| is_word(token, word));
        // `x IS DISTINCT FROM y` and `extract(year FROM x)` name no tables.
        let is_from = is_word(token, "from") && !self.is_behind_distinct && !self.level.is_call_with_from;
        if is_from || is_one_of(&BEFORE_A_TABLE) {
            // The others may be names of columns, too.
            self.level.lists_tables |= is_from;
            return Place::BeforeTable;
        }
        if is_one_of(&OTHER_CLAUSES) || is_one_of(&BEFORE_OTHERS) {
            self.level.lists_tables = false;
            return Place::Elsewhere;
        }
        if self.place == Place::BeforeTable { Place::InName } else { Place::Elsewhere }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn spelled(sql: &str) -> String {
        let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        take_stars(&mut tokens);
        tokens.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn the_star_of_a_table_goes() {
        for (sql, without) in [
            ("SELECT * FROM t*", "SELECT * FROM t"),
            (
                "SELECT a * b FROM s.t * x, \"U\"* WHERE a * b > 1",
                "SELECT a * b FROM s.t  x, \"U\" WHERE a * b > 1",
            ),
            (
                "SELECT (SELECT count(*) FROM t*), a FROM t* JOIN u* ON a = b * c, v*",
                "SELECT (SELECT count(*) FROM t), a FROM t JOIN u ON a = b * c, v",
            ),
            ("UPDATE t* SET a = b * c", "UPDATE t SET a = b * c"),
            ("DELETE FROM t* WHERE a = b * c", "DELETE FROM t WHERE a = b * c"),
            ("ALTER TABLE t* ADD COLUMN a int", "ALTER TABLE t ADD COLUMN a int"),
        ] {
            assert_eq!(spelled(sql), without);
        }
    }

    #[test]
    fn products_and_all_columns_stay() {
        for sql in [
            "SELECT update, a * b, lock * c, *, t.*, a * b, f(a, b * c) FROM t GROUP BY a, b * c ORDER BY a, b * c",
            "SELECT a IS DISTINCT FROM b * c, extract(epoch FROM a * b), substring(a FROM b * c) FROM t",
            "SELECT f(x) FROM g(a, b * c), LATERAL (SELECT a, b * c) s WHERE (a, b * c) = (1, 2)",
            "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 1, b = c * d RETURNING a, b * c",
        ] {
            assert_eq!(spelled(sql), sql);
        }
    }
}
