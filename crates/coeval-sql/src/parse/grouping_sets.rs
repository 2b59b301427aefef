// SPDX-License-Identifier: Apache-2.0
//! Grouping sets within GROUPING SETS, and GROUP BY DISTINCT, of which the parser knows neither: `GROUPING SETS (a, ROLLUP (b, c),
//! GROUPING SETS (d, ()))`. DISTINCT becomes a function that nobody knows, in front of what is grouped by.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The function that stands in front of groups of which those that are alike are to be there once.
pub(crate) const DISTINCT_SETS: &str = "coeval_distinct_sets";

/// Words that may stand behind `GROUP BY ALL` where that is all there is of it.
const BEHIND_GROUPS: [&str; 11] = [
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "except",
    "intersect",
    "returning",
];

/// So many tokens of a GROUPING SETS are looked at to find its beginning: a statement may have a word for sets at every place.
const LOOK_BACK_MAX: usize = 4_000;

type MakeSets = fn(Vec<Vec<Expr>>) -> Expr;

/// Reads grouping sets that are a member of others; `None`, with nothing read, if something else is next.
pub(super) fn prefix(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let [first, second, third] = parser.peek_tokens_ref::<3>().map(|token| &token.token);
    let (make, words) = match keyword(first) {
        Keyword::GROUPING if keyword(second) == Keyword::SETS && *third == Token::LParen => {
            (Expr::GroupingSets as MakeSets, 3)
        }
        Keyword::ROLLUP if *second == Token::LParen => (Expr::Rollup as MakeSets, 2),
        Keyword::CUBE if *second == Token::LParen => (Expr::Cube as MakeSets, 2),
        _ => return None,
    };
    if !is_member(parser) {
        return None;
    }
    for _ in 0..words {
        parser.advance_token();
    }
    Some(members(parser).map(make))
}

fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Whether what is next is a member of GROUPING SETS, in parentheses of its own or not. Anywhere else the words name functions.
fn is_member(parser: &Parser<'_>) -> bool {
    let tokens = (0..parser.index()).rev().map(|place| &parser.token_at(place).token);
    let words = tokens.take(LOOK_BACK_MAX).filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut before = words.peekable();
    let is_behind_parenthesis = before.next_if(|token| **token == Token::LParen).is_some();
    if is_behind_parenthesis && before.peek().is_some_and(|token| keyword(token) == Keyword::SETS) {
        return true;
    }
    let mut depth = 0_usize;
    for token in before.by_ref() {
        match token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => break,
            Token::LParen => depth -= 1,
            _ => {}
        }
    }
    before.next().is_some_and(|token| keyword(token) == Keyword::SETS)
}

/// The members up to the parenthesis that closes them.
fn members(parser: &mut Parser<'_>) -> Result<Vec<Vec<Expr>>, ParserError> {
    let members = parser.parse_comma_separated(|parser| {
        if parser.consume_tokens(&[Token::LParen, Token::RParen]) {
            return Ok(Vec::new());
        }
        parser.parse_expr().map(|member| vec![member])
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(members)
}

/// Writes `GROUP BY DISTINCT` with the function, and `GROUP BY ALL` in front of groups without the word.
pub(super) fn spell_group_quantifiers(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |wanted: &str| tokens.iter().any(|token| is_word(token, wanted));
    if !has("group") || !(has("distinct") || has("all")) {
        return tokens;
    }
    let mut spelled: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 3);
    // The last words that are no blanks, the newest first.
    let mut before: [Option<&TokenWithSpan>; 2] = [None; 2];
    for (at, token) in tokens.iter().enumerate() {
        let is = |place: usize, word: &str| before[place].is_some_and(|before| is_word(before, word));
        let is_quantifier = is(0, "by") && is(1, "group");
        if is_quantifier && is_word(token, "distinct") {
            let mark = [Token::make_word(DISTINCT_SETS, None), Token::LParen, Token::RParen, Token::Comma];
            spelled.extend(mark.map(|word| TokenWithSpan { token: word, span: token.span }));
        } else if !(is_quantifier && is_word(token, "all") && begins_groups(&tokens[at + 1..])) {
            spelled.push(token.clone());
        }
        if !is_space(token) {
            before = [Some(token), before[0]];
        }
    }
    spelled
}

/// Whether what is grouped by stands here.
fn begins_groups(tokens: &[TokenWithSpan]) -> bool {
    let next = tokens.iter().find(|token| !is_space(token));
    next.is_some_and(|next| {
        next.token != Token::RParen && !BEHIND_GROUPS.iter().any(|word| is_word(next, word))
    })
}
