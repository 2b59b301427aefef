// SPDX-License-Identifier: Apache-2.0
//! `LIKE table INCLUDING ...` among the columns of CREATE TABLE. The parser knows it alone in the parentheses, with defaults or
//! without, so it is spelled as a column of a name that nobody gives, whose type is the table, with what is included behind it.
//!
//! ```text
//! CREATE TABLE t (LIKE s INCLUDING ALL EXCLUDING INDEXES, extra int)
//!   -> CREATE TABLE t ("..like" "s"(defaults, constraints, ...), extra int)
//! ```

use super::{is_space, is_word, quoted_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The name of such a column.
pub(crate) const LIKE_COLUMNS: &str = "\u{1}like";

/// What can be included. What is said of storage, compression and statistics has no meaning here.
const PARTS: [&str; 9] = [
    "comments",
    "compression",
    "constraints",
    "defaults",
    "generated",
    "identity",
    "indexes",
    "statistics",
    "storage",
];

/// Writes each such clause as a column.
pub(super) fn spell_like(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_there = tokens.iter().any(|token| is_word(token, "like")) && creates_table(&tokens);
    if !is_there {
        return tokens;
    }
    let mut spelled = Vec::with_capacity(tokens.len() + 8);
    let (mut depth, mut begins, mut at) = (0_usize, false, 0);
    while let Some(token) = tokens.get(at) {
        let clause = if depth == 1 && begins && is_word(token, "like") { clause(&tokens, at) } else { None };
        if let Some((column, end)) = clause {
            spelled.extend(column.into_iter().map(|word| TokenWithSpan { token: word, span: token.span }));
            at = end;
            begins = false;
            continue;
        }
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !is_space(token) {
            begins = matches!(token.token, Token::LParen | Token::Comma);
        }
        spelled.push(token.clone());
        at += 1;
    }
    spelled
}

/// Whether the statement begins with CREATE TABLE, of whatever kind.
pub(super) fn creates_table(tokens: &[TokenWithSpan]) -> bool {
    let mut words = tokens.iter().filter(|token| !is_space(token));
    words.next().is_some_and(|word| is_word(word, "create"))
        && words.take(3).any(|word| is_word(word, "table"))
}

/// The column for the clause that begins here, and where that ends; `None` if it is no such clause.
fn clause(tokens: &[TokenWithSpan], like: usize) -> Option<(Vec<Token>, usize)> {
    let mut places = (like + 1..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    let mut column = vec![quoted_word(LIKE_COLUMNS)];
    let mut place = places.next()?;
    loop {
        let Token::Word(name) = &tokens[place].token else { return None };
        let is_quoted = name.quote_style.is_some();
        column.push(quoted_word(if is_quoted { name.value.clone() } else { name.value.to_lowercase() }));
        place = places.next()?;
        if tokens[place].token != Token::Period {
            break;
        }
        column.push(Token::Period);
        place = places.next()?;
    }
    let mut included: Vec<&str> = Vec::new();
    while !matches!(tokens[place].token, Token::Comma | Token::RParen) {
        let is_included = is_word(&tokens[place], "including");
        if !is_included && !is_word(&tokens[place], "excluding") {
            return None;
        }
        let option = &tokens[places.next()?];
        let named = |part: &&str| is_word(option, part) || is_word(option, "all");
        let parts: Vec<&str> = PARTS.iter().copied().filter(|part| named(part)).collect();
        if parts.is_empty() {
            return None;
        }
        included.retain(|part| !parts.contains(part));
        if is_included {
            included.extend(parts);
        }
        place = places.next()?;
    }
    if !included.is_empty() {
        column.push(Token::LParen);
        column.extend(included.into_iter().map(|part| Token::make_word(part, None)));
        column.push(Token::RParen);
    }
    Some((column, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn spelled(sql: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        spell_like(tokens).iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn a_clause_is_a_column_with_what_is_left_included() {
        assert_eq!(
            spelled(
                "CREATE TABLE t (a int, LIKE S.\"T\" INCLUDING ALL EXCLUDING INDEXES EXCLUDING STORAGE, b int)"
            ),
            format!(
                "CREATE TABLE t (a int, \"{LIKE_COLUMNS}\"\"s\".\"T\"\
                 (commentscompressionconstraintsdefaultsgeneratedidentitystatistics), b int)"
            )
        );
        assert_eq!(
            spelled("CREATE TEMP TABLE t (LIKE s)"),
            format!("CREATE TEMP TABLE t (\"{LIKE_COLUMNS}\"\"s\")")
        );
    }

    #[test]
    fn other_words_stay() {
        for sql in [
            "CREATE TABLE t (a text CHECK (a LIKE 'x%'), CHECK (a NOT LIKE 'y'))",
            "CREATE TABLE t (LIKE s INCLUDING nonsense)",
            "CREATE TABLE t AS SELECT a FROM s WHERE a LIKE 'x'",
            "SELECT a FROM s WHERE f(a, like)",
        ] {
            assert_eq!(spelled(sql), sql);
        }
    }
}
