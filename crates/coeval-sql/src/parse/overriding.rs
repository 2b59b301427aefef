// SPDX-License-Identifier: Apache-2.0
//! `INSERT ... OVERRIDING SYSTEM VALUE` and `... USER VALUE`: the parser does not know the clause, so it is
//! taken out of the tokens and put into the parsed statement as a setting, which the parser's syntax tree
//! has room for and PostgreSQL's grammar does not use.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::ast::{Expr, Ident, SetExpr, Setting, Statement};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

/// The name of the setting that stands for OVERRIDING.
pub(crate) const OVERRIDING: &str = "overriding";

/// Removes the clause from the tokens of a statement and says whose value it named.
pub(super) fn take_overriding(tokens: &mut Vec<TokenWithSpan>) -> Option<&'static str> {
    let first = tokens.iter().find(|token| !is_space(token))?;
    if !is_word(first, "insert") && !is_word(first, "with") {
        return None;
    }
    let start = tokens.iter().position(|token| is_word(token, "overriding"))?;
    let mut words = (start..tokens.len()).filter(|&place| !is_space(&tokens[place])).skip(1);
    let (whose, value) = (words.next()?, words.next()?);
    let whose = ["system", "user"].into_iter().find(|word| is_word(&tokens[whose], word))?;
    if !is_word(&tokens[value], "value") {
        return None;
    }
    tokens.drain(start..=value);
    Some(whose)
}

/// Notes on an INSERT whose values its OVERRIDING clause named.
pub(super) fn put_overriding(statement: &mut Statement, whose: &'static str) {
    match statement {
        Statement::Insert(insert) => {
            let value = Expr::Identifier(Ident::new(whose));
            insert.settings = Some(vec![Setting { key: Ident::new(OVERRIDING), value }]);
        }
        Statement::Query(query) => {
            if let SetExpr::Insert(inner) = query.body.as_mut() {
                put_overriding(inner, whose);
            }
        }
        _ => {}
    }
}
