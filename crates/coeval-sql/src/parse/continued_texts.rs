// SPDX-License-Identifier: Apache-2.0
//! Literals of texts that go on in the next line, as SQL has them: `'a'`, and below it `'b'`, is `'ab'`. The parser takes the second one for
//! the name of an output. And `U&'\0061'`, which is `'a'`.

use super::is_space;
use crate::error::{SqlError, character_position};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

/// How a text is written, and with it those that continue it.
#[derive(Clone, Copy)]
enum Form {
    Plain,
    Escaped,
    Unicode,
}

/// Makes one literal of those that continue each other.
///
/// # Errors
/// `42601` for two of them in one line, or with a comment between them that does not end with its line.
pub(super) fn join_texts(tokens: Vec<TokenWithSpan>, sql: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    if !has_any(&tokens) {
        return Ok(tokens);
    }
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Where the last word is, if that is a text, and its form.
    let mut text_at: Option<(usize, Form)> = None;
    // Whether a line has ended behind it, and whether a comment of the other kind stands there, which separates them.
    let (mut is_new_line, mut is_apart) = (false, false);
    for mut token in tokens {
        if is_space(&token) {
            is_new_line |= ends_line(&token.token);
            is_apart |= matches!(token.token, Token::Whitespace(Whitespace::MultiLineComment(_)));
            joined.push(token);
            continue;
        }
        if let (Token::SingleQuotedString(more), Some((at, form))) = (&token.token, text_at) {
            let more = continuation(more, form).filter(|_| is_new_line && !is_apart);
            let Some(more) = more else { return Err(unexpected(&token, sql)) };
            joined.truncate(at + 1);
            if let Some(text) = joined.last_mut().and_then(|last| text_of(&mut last.token)) {
                text.push_str(&more);
            }
        } else {
            text_at = form_of(&token.token).map(|form| (joined.len(), form));
            if let Token::UnicodeStringLiteral(text) = &mut token.token {
                token.token = Token::SingleQuotedString(std::mem::take(text));
            }
            joined.push(token);
        }
        (is_new_line, is_apart) = (false, false);
    }
    Ok(joined)
}

/// Whether there are literals that are to be written otherwise. Costs a look at each token.
fn has_any(tokens: &[TokenWithSpan]) -> bool {
    let mut is_behind_text = false;
    tokens.iter().filter(|token| !is_space(token)).any(|token| {
        let continues = is_behind_text && matches!(token.token, Token::SingleQuotedString(_));
        is_behind_text = form_of(&token.token).is_some();
        continues || matches!(token.token, Token::UnicodeStringLiteral(_))
    })
}

fn form_of(token: &Token) -> Option<Form> {
    match token {
        Token::SingleQuotedString(_) => Some(Form::Plain),
        Token::EscapedStringLiteral(_) => Some(Form::Escaped),
        Token::UnicodeStringLiteral(_) => Some(Form::Unicode),
        _ => None,
    }
}

/// What a text that continues one of this form says: behind `E'a'`, the text `'\n'` is the end of a line. `None` if it is no text of
/// that form.
fn continuation(more: &str, form: Form) -> Option<String> {
    let prefix = match form {
        Form::Plain => return Some(more.to_owned()),
        Form::Escaped => "E",
        Form::Unicode => "U&",
    };
    let literal = format!("{prefix}'{}'", more.replace('\'', "''"));
    let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, &literal).tokenize().ok()?.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text)), None) => Some(text),
        _ => None,
    }
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
