// SPDX-License-Identifier: Apache-2.0
//! `ON CONFLICT (lower(email)) WHERE active`: the parser takes names alone. An expression or a condition becomes a name
//! that no column has.

use super::{is_space, is_word, quoted_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// How the parts of an ON CONFLICT target begin that are no columns: the parser takes names alone.
pub(crate) const TARGET_EXPRESSION: &str = "\u{1}expression ";
/// How the condition of an ON CONFLICT target begins.
pub(crate) const TARGET_PREDICATE: &str = "\u{1}where ";

/// Writes what is no name in the targets of ON CONFLICT as one.
pub(super) fn spell_targets(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let first = tokens.iter().find(|token| !is_space(token));
    let may_insert = |first: &TokenWithSpan| {
        ["insert", "with", "explain", "prepare"].iter().any(|word| is_word(first, word))
    };
    if !first.is_some_and(may_insert) || !tokens.iter().any(|token| is_word(token, "conflict")) {
        return tokens;
    }
    let mut spelled = Vec::with_capacity(tokens.len());
    let mut lists = SelectLists::default();
    let mut rest = tokens.as_slice();
    while let Some((token, behind)) = rest.split_first() {
        if is_word(token, "on") && is_before_conflict(behind) && lists.is_in_one {
            spelled.extend(where_true(token));
            lists.is_in_one = false;
        }
        lists.note(token);
        spelled.push(token.clone());
        rest = behind;
        if is_word(token, "conflict")
            && let Some((target, behind)) = read(behind)
        {
            spelled.extend(target);
            rest = behind;
        }
    }
    spelled
}

fn is_before_conflict(behind: &[TokenWithSpan]) -> bool {
    behind.iter().find(|token| !is_space(token)).is_some_and(|token| is_word(token, "conflict"))
}

/// Whether tokens end in a SELECT that has nothing behind its list: the parser would take ON for the name of the last item.
#[derive(Default)]
struct SelectLists {
    is_in_one: bool,
    /// The same in front of each parenthesis that is open.
    around: Vec<bool>,
}

impl SelectLists {
    fn note(&mut self, token: &TokenWithSpan) {
        match token.token {
            Token::LParen => self.around.push(std::mem::take(&mut self.is_in_one)),
            Token::RParen => self.is_in_one = self.around.pop().unwrap_or(false),
            _ if is_word(token, "select") => self.is_in_one = true,
            _ if CLAUSES.iter().any(|word| is_word(token, word)) => self.is_in_one = false,
            _ => {}
        }
    }
}

/// Words that stand behind the list of a SELECT, or in front of what is none.
const CLAUSES: &[&str] = &[
    "from",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "fetch",
    "union",
    "intersect",
    "except",
    "values",
    "default",
    "window",
    "for",
];

/// `WHERE true`, at the place of this token.
fn where_true(like: &TokenWithSpan) -> Vec<TokenWithSpan> {
    let word = |text: &str| Token::make_word(text, None);
    let blank = || Token::Whitespace(Whitespace::Space);
    let tokens = [word("WHERE"), blank(), word("true"), blank()];
    tokens.into_iter().map(|token| TokenWithSpan { token, span: like.span }).collect()
}

/// So many tokens are looked at to find the end of a target: a text may have a word for one at every place.
const TARGET_MAX: usize = 4_000;

/// The target that begins here, in names, and what is behind it; `None` if there is none or it needs no change.
fn read(tokens: &[TokenWithSpan]) -> Option<(Vec<TokenWithSpan>, &[TokenWithSpan])> {
    let open = tokens.iter().position(|token| !is_space(token))?;
    if tokens[open].token != Token::LParen {
        return None;
    }
    let close = closing(tokens, open)?;
    let mut parts: Vec<Vec<TokenWithSpan>> = Vec::new();
    let mut is_changed = false;
    for part in divided(&tokens[open + 1..close]) {
        let words = part.iter().filter(|token| !is_space(token)).count();
        let is_name = words == 1 && part.iter().any(|token| matches!(token.token, Token::Word(_)));
        is_changed |= !is_name;
        parts.push(if is_name { part.to_vec() } else { vec![name(TARGET_EXPRESSION, part)?] });
    }
    let mut behind = &tokens[close + 1..];
    let next = behind.iter().find(|token| !is_space(token))?;
    if is_word(next, "where") {
        let start = behind.iter().position(|token| is_word(token, "where"))?;
        let end = start + at_depth_zero(&behind[start..], |token| is_word(token, "do"))?;
        parts.push(vec![name(TARGET_PREDICATE, &behind[start + 1..end])?]);
        behind = &behind[end..];
        is_changed = true;
    }
    if !is_changed {
        return None;
    }
    let span = tokens[open].span;
    let like = |token| TokenWithSpan { token, span };
    let mut target = vec![like(Token::LParen)];
    for (place, part) in parts.into_iter().enumerate() {
        if place > 0 {
            target.push(like(Token::Comma));
        }
        target.extend(part);
    }
    target.push(like(Token::RParen));
    Some((target, behind))
}

/// The name that stands for these tokens.
fn name(kind: &str, tokens: &[TokenWithSpan]) -> Option<TokenWithSpan> {
    let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
    let token = quoted_word(format!("{kind}{}", text.trim()));
    Some(TokenWithSpan { token, span: tokens.first()?.span })
}

/// The parts between commas.
fn divided(mut tokens: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let mut parts = Vec::new();
    while let Some(comma) = at_depth_zero(tokens, |token| token.token == Token::Comma) {
        parts.push(&tokens[..comma]);
        tokens = &tokens[comma + 1..];
    }
    parts.push(tokens);
    parts
}

/// The parenthesis that closes the one at this place.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let inside = at_depth_zero(&tokens[open + 1..], |token| token.token == Token::RParen)?;
    Some(open + 1 + inside)
}

/// The first such token outside of parentheses, if it is not far away.
fn at_depth_zero(tokens: &[TokenWithSpan], wanted: impl Fn(&TokenWithSpan) -> bool) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().take(TARGET_MAX) {
        if depth == 0 && wanted(token) {
            return Some(place);
        }
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}
