// SPDX-License-Identifier: Apache-2.0
//! Literals of texts that go on in the next line, as SQL has them: `'a'`, and below it `'b'`, is `'ab'`. The parser takes the second one for
//! the name of an output. And `U&'\0061'`, which is `'a'`.

use super::is_space;
use crate::error::{SqlError, character_position};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Makes one literal of those that continue each other.
///
/// # Errors
/// `42601` for two of them in one line.
pub(super) fn join_texts(tokens: Vec<TokenWithSpan>, sql: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    if !has_any(&tokens) {
        return Ok(tokens);
    }
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Where the last word is, if that is a text, and whether a line has ended behind it.
    let mut text_at: Option<usize> = None;
    let mut is_new_line = false;
    for mut token in tokens {
        if is_space(&token) {
            is_new_line |= ends_line(&token.token);
            joined.push(token);
            continue;
        }
        if let (Token::SingleQuotedString(more), Some(at)) = (&token.token, text_at) {
            if !is_new_line {
                return Err(unexpected(&token, sql));
            }
            joined.truncate(at + 1);
            if let Some(text) = joined.last_mut().and_then(|last| text_of(&mut last.token)) {
                text.push_str(more);
            }
        } else {
            if let Token::UnicodeStringLiteral(text) = &mut token.token {
                token.token = Token::SingleQuotedString(std::mem::take(text));
            }
            text_at = is_text(&token.token).then_some(joined.len());
            joined.push(token);
        }
        is_new_line = false;
    }
    Ok(joined)
}

/// Whether there are literals that are to be written otherwise. Costs a look at each token.
fn has_any(tokens: &[TokenWithSpan]) -> bool {
    let mut is_behind_text = false;
    tokens.iter().filter(|token| !is_space(token)).any(|token| {
        let continues = is_behind_text && matches!(token.token, Token::SingleQuotedString(_));
        is_behind_text = is_text(&token.token);
        continues || matches!(token.token, Token::UnicodeStringLiteral(_))
    })
}

fn is_text(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::UnicodeStringLiteral(_)
    )
}

fn text_of(token: &mut Token) -> Option<&mut String> {
    match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Some(text),
        _ => None,
    }
}

fn ends_line(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }))
}

fn unexpected(token: &TokenWithSpan, sql: &str) -> SqlError {
    let error = SqlError::syntax(format!("syntax error at or near \"{}\"", token.token));
    match character_position(sql, token.span.start.line, token.span.start.column) {
        Some(position) => error.with_position(position),
        None => error,
    }
}
