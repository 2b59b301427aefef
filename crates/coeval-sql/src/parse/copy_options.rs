// SPDX-License-Identifier: Apache-2.0
//! `COPY ... WITH (FREEZE on, HEADER 1)`: the parser takes TRUE and FALSE, PostgreSQL any way to write a truth. And
//! `MAX_REJECTED 100` and `HEADER MATCH`, of which the parser knows nothing: they come through as encodings with a mark. And
//! `FORCE_QUOTE *`, for which it wants a list of columns. And options without a list, `CSV HEADER ENCODING 'UTF8' QUOTE ''''`, of which
//! the parser knows some in some orders: they become a list.

use super::{is_space, is_word, quoted_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Options that are on or off.
const OPTIONS: [&str; 2] = ["freeze", "header"];

/// Begins the text of an ENCODING that is `MAX_REJECTED`, which the parser does not know: no statement's text holds a
/// zero byte.
pub(crate) const MAX_REJECTED_MARK: &str = "\0max_rejected ";

/// The text of an ENCODING that is `HEADER MATCH`, for the same reason.
pub(crate) const HEADER_MATCH_MARK: &str = "\0header match";

/// The column that stands for all of them, for the same reason.
pub(crate) const ALL_COLUMNS: &str = "\0*";

/// Writes the options of a COPY as the parser takes them.
pub(super) fn spell_copy_options(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().find(|token| !is_space(token)).is_some_and(|first| is_word(first, "copy")) {
        return;
    }
    spell_as_list(tokens);
    spell_max_rejected(tokens);
    spell_header_match(tokens);
    spell_all_columns(tokens);
    for at in 0..tokens.len() {
        if !OPTIONS.iter().any(|option| is_word(&tokens[at], option)) {
            continue;
        }
        let next = tokens[at + 1..].iter_mut().find(|token| !is_space(token));
        if let Some((token, truth)) = next.and_then(|token| truth_of(token).map(|truth| (token, truth))) {
            token.token = Token::make_keyword(if truth { "TRUE" } else { "FALSE" });
        }
    }
}

/// Inside of parentheses alone, where a list of columns holds no numbers.
fn spell_max_rejected(tokens: &mut [TokenWithSpan]) {
    for at in 0..tokens.len() {
        if !is_word(&tokens[at], "max_rejected") {
            continue;
        }
        let Some(behind) = tokens[at + 1..].iter().position(|token| !is_space(token)) else { continue };
        let value = &mut tokens[at + 1 + behind];
        let (Token::Number(text, _) | Token::SingleQuotedString(text)) = &value.token else { continue };
        value.token = Token::SingleQuotedString(format!("{MAX_REJECTED_MARK}{text}"));
        tokens[at].token = Token::make_keyword("ENCODING");
    }
}

/// `HEADER MATCH` in a list, which is behind the target: in a query in front of it both words may be names.
fn spell_header_match(tokens: &mut [TokenWithSpan]) {
    for at in behind_target(tokens).unwrap_or(tokens.len())..tokens.len() {
        let Some(value) = word_from(tokens, at + 1).filter(|_| is_word(&tokens[at], "header")) else {
            continue;
        };
        let is_match = match &tokens[value].token {
            Token::SingleQuotedString(text) => text.eq_ignore_ascii_case("match"),
            _ => is_word(&tokens[value], "match"),
        };
        if is_match {
            tokens[at].token = Token::make_keyword("ENCODING");
            tokens[value].token = Token::SingleQuotedString(HEADER_MATCH_MARK.to_owned());
        }
    }
}

/// Writes options behind the target as a list, if they are none yet. If there is one that PostgreSQL has not, all stay as they are.
fn spell_as_list(tokens: &mut Vec<TokenWithSpan>) {
    let Some(start) = behind_target(tokens) else { return };
    let words = tokens[start..].iter().filter(|token| !is_space(token)).cloned().collect();
    let mut words = Words { words, at: 0 };
    words.take("with");
    let Some(list) = words.list() else { return };
    tokens.truncate(start);
    tokens.extend(list);
}

/// Where the options begin: behind the file, the program or the stream.
fn behind_target(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0_usize;
    let way = tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (is_word(token, "from") || is_word(token, "to"))
    })?;
    let target = word_from(tokens, way + 1)?;
    let is_program = is_word(&tokens[target], "program");
    Some(1 + if is_program { word_from(tokens, target + 1)? } else { target })
}

/// Options without a list, of which some are read.
struct Words {
    words: Vec<TokenWithSpan>,
    at: usize,
}

impl Words {
    /// Passes over the word, if it is the next one.
    fn take(&mut self, wanted: &str) -> bool {
        let is_next = self.words.get(self.at).is_some_and(|word| is_word(word, wanted));
        self.at += usize::from(is_next);
        is_next
    }

    /// All that are left as a list; `None` if there are none, or one that is not known.
    fn list(&mut self) -> Option<Vec<TokenWithSpan>> {
        let mut list = Vec::new();
        let mut span = self.words.get(self.at)?.span;
        let mut sign = Token::LParen;
        while let Some(word) = self.words.get(self.at) {
            span = word.span;
            let option = self.option()?;
            let option = std::iter::once(std::mem::replace(&mut sign, Token::Comma)).chain(option);
            list.extend(option.map(|token| TokenWithSpan { token, span }));
        }
        list.push(TokenWithSpan { token: Token::RParen, span });
        Some(list)
    }

    /// The next one as it is written in a list.
    fn option(&mut self) -> Option<Vec<Token>> {
        let keyword = Token::make_keyword;
        if let Some(format) = ["csv", "binary"].into_iter().find(|format| self.take(format)) {
            return Some(vec![keyword("FORMAT"), keyword(format)]);
        }
        if let Some(name) = ["FREEZE", "HEADER"].into_iter().find(|name| self.take(name)) {
            return Some(vec![keyword(name)]);
        }
        let with_text = ["DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING"];
        if let Some(name) = with_text.into_iter().find(|name| self.take(name)) {
            return Some(vec![keyword(name), self.text()?]);
        }
        if !self.take("force") {
            return None;
        }
        let name = match (self.take("quote"), self.take("not"), self.take("null")) {
            (true, false, false) => "FORCE_QUOTE",
            (false, true, true) => "FORCE_NOT_NULL",
            (false, false, true) => "FORCE_NULL",
            _ => return None,
        };
        let mut option = vec![keyword(name)];
        option.extend(self.columns()?);
        Some(option)
    }

    /// A text, with AS in front or without.
    fn text(&mut self) -> Option<Token> {
        self.take("as");
        let text = self.words.get(self.at)?.token.clone();
        let is_text = matches!(text, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_));
        self.at += 1;
        is_text.then_some(text)
    }

    /// Names of columns as a list, or the star that stands for all.
    fn columns(&mut self) -> Option<Vec<Token>> {
        if self.words.get(self.at)?.token == Token::Mul {
            self.at += 1;
            return Some(vec![Token::Mul]);
        }
        let mut list = vec![Token::LParen];
        loop {
            let name = self.words.get(self.at)?.token.clone();
            if !matches!(name, Token::Word(_)) {
                return None;
            }
            list.push(name);
            self.at += 1;
            if self.words.get(self.at).is_none_or(|word| word.token != Token::Comma) {
                break;
            }
            list.push(Token::Comma);
            self.at += 1;
        }
        list.push(Token::RParen);
        Some(list)
    }
}

/// `FORCE_QUOTE *`, where a comma, a parenthesis or the end follows: anything else is a product in a query.
fn spell_all_columns(tokens: &mut Vec<TokenWithSpan>) {
    let mut stars = Vec::new();
    for option in (0..tokens.len()).filter(|&place| is_word(&tokens[place], "force_quote")) {
        let star = word_from(tokens, option + 1).filter(|&place| tokens[place].token == Token::Mul);
        stars.extend(star.filter(|star| {
            let behind = word_from(tokens, star + 1).map(|place| &tokens[place].token);
            behind.is_none_or(|behind| matches!(behind, Token::Comma | Token::RParen))
        }));
    }
    if stars.is_empty() {
        return;
    }
    let mut stars = stars.into_iter().peekable();
    let mut spelled = Vec::with_capacity(tokens.len() + 2);
    for (place, token) in std::mem::take(tokens).into_iter().enumerate() {
        if stars.next_if_eq(&place).is_some() {
            let list = [Token::LParen, quoted_word(ALL_COLUMNS), Token::RParen];
            spelled.extend(list.map(|word| TokenWithSpan { token: word, span: token.span }));
        } else {
            spelled.push(token);
        }
    }
    *tokens = spelled;
}

/// The place of the next word or sign from one on.
fn word_from(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    (from..tokens.len()).find(|&place| !is_space(&tokens[place]))
}

fn truth_of(token: &TokenWithSpan) -> Option<bool> {
    let text = match &token.token {
        Token::Word(Word { value, quote_style: None, .. }) => value.to_lowercase(),
        Token::Number(digits, _) => digits.clone(),
        Token::SingleQuotedString(text) => text.to_lowercase(),
        _ => return None,
    };
    match text.as_str() {
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    }
}
