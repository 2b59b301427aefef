// SPDX-License-Identifier: Apache-2.0
//! `CREATE VIEW ... WITH [LOCAL | CASCADED] CHECK OPTION`, which the parser does not know: the clause is taken away, and put into the
//! statement as what it stands for, the option `check_option`.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::ast::{CreateTableOptions, Expr, Ident, SqlOption, Statement};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

/// The option of a view that says what is checked.
pub(crate) const CHECK_OPTION: &str = "check_option";

/// How many words there are at most in front of VIEW: `CREATE OR REPLACE TEMPORARY RECURSIVE`.
const WORDS_BEFORE: usize = 5;

/// Takes the clause from the end of a statement that makes a view; what it says.
pub(super) fn take_check_option(tokens: &mut Vec<TokenWithSpan>) -> Option<&'static str> {
    let (start, which) = clause(tokens)?;
    tokens.truncate(start);
    Some(which)
}

fn clause(tokens: &[TokenWithSpan]) -> Option<(usize, &'static str)> {
    let mut words = (0..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    let is = |place: usize, word: &str| is_word(&tokens[place], word);
    if !is(words.next()?, "create") || !words.by_ref().take(WORDS_BEFORE).any(|place| is(place, "view")) {
        return None;
    }
    let mut last = words.rev();
    let (option, check, before) = (last.next()?, last.next()?, last.next()?);
    if !is(option, "option") || !is(check, "check") {
        return None;
    }
    if is(before, "with") {
        return Some((before, "cascaded"));
    }
    let which = ["local", "cascaded"].into_iter().find(|which| is(before, which))?;
    last.next().filter(|&with| is(with, "with")).map(|with| (with, which))
}

/// Puts the option into a statement that makes a view.
pub(super) fn put_check_option(statement: &mut Statement, which: &str) {
    let Statement::CreateView(view) = statement else { return };
    let option =
        SqlOption::KeyValue { key: Ident::new(CHECK_OPTION), value: Expr::Identifier(Ident::new(which)) };
    match &mut view.options {
        CreateTableOptions::With(options) => options.push(option),
        other => *other = CreateTableOptions::With(vec![option]),
    }
}
