// SPDX-License-Identifier: Apache-2.0
//! Brick tables in the text of a statement: `CREATE TABLE ... USING brick PARTITION BY (...) [WITH (...)]`, and Cubrick's
//! `CREATE CUBE name [dimensions] (metrics)`. The parser knows neither, so the clause is taken out of the tokens, and a
//! cube is written as a table.

use super::{is_space, is_word};
use crate::error::SqlError;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// `USING brick PARTITION BY (...)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BrickClause {
    /// At least one.
    pub(crate) dimensions: Vec<DimensionClause>,
}

/// One dimension; the values as they were written, without quotes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DimensionClause {
    /// The column.
    pub(crate) column: Ident,
    /// How many values there can be.
    pub(crate) cardinality: Option<String>,
    /// How many of them share a brick.
    pub(crate) range_size: Option<String>,
    /// The least one.
    pub(crate) origin: Option<String>,
}

/// Removes the clause from the tokens of a CREATE TABLE, or makes one of a CREATE CUBE.
///
/// # Errors
/// `42601` for what is no such clause.
pub(super) fn take_bricks(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<BrickClause>, SqlError> {
    let mut words = tokens.iter().filter(|token| !is_space(token));
    if !words.next().is_some_and(|first| is_word(first, "create")) {
        return Ok(None);
    }
    match words.next() {
        Some(second) if is_word(second, "cube") => take_cube(tokens).map(Some),
        Some(second) if is_word(second, "table") => {
            let Some(start) = start_of_clause(tokens) else { return Ok(None) };
            let end = end_of_clause(tokens, start);
            let clause: Vec<TokenWithSpan> = tokens.drain(start..end).collect();
            let clause = clause.into_iter().filter(|token| !is_space(token));
            let mut cursor = Cursor { tokens: clause.collect(), at: 2 };
            let clause = cursor.clause()?;
            cursor.end()?;
            Ok(Some(clause))
        }
        _ => Ok(None),
    }
}

/// The place of `USING brick` outside of parentheses.
fn start_of_clause(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_word(token, "using") => {
                let next = tokens[at + 1..].iter().find(|token| !is_space(token));
                return next.is_some_and(|next| is_word(next, "brick")).then_some(at);
            }
            _ => {}
        }
    }
    None
}

/// Where the clause ends that starts here: at `WITH (...)`, which the parser knows, or with the statement.
fn end_of_clause(tokens: &[TokenWithSpan], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_word(token, "with") => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// Words of a clause, without blanks.
struct Cursor {
    tokens: Vec<TokenWithSpan>,
    at: usize,
}

impl Cursor {
    fn peek(&self) -> Option<&TokenWithSpan> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.peek().is_some_and(|token| is_word(token, word));
        self.at += usize::from(is_next);
        is_next
    }

    fn takes_token(&mut self, wanted: &Token) -> bool {
        let is_next = self.peek().is_some_and(|token| token.token == *wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, wanted: &Token) -> Result<(), SqlError> {
        if self.takes_token(wanted) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> SqlError {
        match self.peek() {
            Some(token) => SqlError::syntax(format!("syntax error at or near \"{}\"", token.token)),
            None => SqlError::syntax("syntax error at end of input"),
        }
    }

    fn end(&self) -> Result<(), SqlError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.unexpected()) }
    }

    fn identifier(&mut self) -> Result<Ident, SqlError> {
        let Some(Token::Word(word)) = self.peek().map(|token| &token.token) else {
            return Err(self.unexpected());
        };
        let name = word.to_ident(Span::empty());
        self.at += 1;
        Ok(name)
    }

    /// A number or a string, as text.
    fn literal(&mut self) -> Result<String, SqlError> {
        let minus = if self.takes_token(&Token::Minus) { "-" } else { "" };
        let text = match self.peek().map(|token| &token.token) {
            Some(Token::Number(digits, _)) => format!("{minus}{digits}"),
            Some(Token::SingleQuotedString(text)) if minus.is_empty() => text.clone(),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(text)
    }

    /// `PARTITION BY (dimension, ...)`.
    fn clause(&mut self) -> Result<BrickClause, SqlError> {
        if !(self.takes("partition") && self.takes("by")) {
            return Err(self.unexpected());
        }
        self.expect(&Token::LParen)?;
        let mut dimensions = vec![self.dimension()?];
        while self.takes_token(&Token::Comma) {
            dimensions.push(self.dimension()?);
        }
        self.expect(&Token::RParen)?;
        Ok(BrickClause { dimensions })
    }

    /// `column [CARDINALITY n] [RANGE SIZE n] [FROM value]`, in any order.
    fn dimension(&mut self) -> Result<DimensionClause, SqlError> {
        let column = self.identifier()?;
        let mut dimension = DimensionClause { column, cardinality: None, range_size: None, origin: None };
        loop {
            let place = if self.takes("cardinality") {
                &mut dimension.cardinality
            } else if self.takes("range") {
                if !self.takes("size") {
                    return Err(self.unexpected());
                }
                &mut dimension.range_size
            } else if self.takes("from") {
                &mut dimension.origin
            } else {
                return Ok(dimension);
            };
            if place.is_some() {
                return Err(self.unexpected());
            }
            let literal = self.literal()?;
            *place = Some(literal);
        }
    }
}

/// `CREATE CUBE [IF NOT EXISTS] name [region 4:2 string, ...] (likes int, ...)` as a CREATE TABLE.
fn take_cube(tokens: &mut Vec<TokenWithSpan>) -> Result<BrickClause, SqlError> {
    let words = tokens.iter().filter(|token| !is_space(token));
    let mut cursor = Cursor { tokens: words.cloned().collect(), at: 2 };
    let mut table = vec![Token::make_keyword("CREATE"), Token::make_keyword("TABLE")];
    while cursor.peek().is_some_and(|token| token.token != Token::LBracket) {
        table.push(cursor.tokens[cursor.at].token.clone());
        cursor.at += 1;
    }
    cursor.expect(&Token::LBracket)?;
    table.push(Token::LParen);
    let mut dimensions = Vec::new();
    loop {
        dimensions.push(cube_dimension(&mut cursor, &mut table)?);
        if !cursor.takes_token(&Token::Comma) {
            break;
        }
        table.push(Token::Comma);
    }
    cursor.expect(&Token::RBracket)?;
    cursor.expect(&Token::LParen)?;
    if cursor.peek().is_none_or(|token| token.token != Token::RParen) {
        table.push(Token::Comma);
    }
    table.extend(cursor.tokens.drain(cursor.at..).map(|token| token.token));
    let spaced = table.into_iter().map(|token| TokenWithSpan { token, span: Span::empty() });
    *tokens = spaced.collect();
    Ok(BrickClause { dimensions })
}

/// `region 4:2 string`; the column's definition goes to `table`.
fn cube_dimension(cursor: &mut Cursor, table: &mut Vec<Token>) -> Result<DimensionClause, SqlError> {
    let column = cursor.identifier()?;
    let cardinality = cursor.literal()?;
    let range_size = match cursor.peek().map(|token| token.token.clone()) {
        Some(Token::Placeholder(text)) if text.starts_with(':') => {
            cursor.at += 1;
            text[1..].to_owned()
        }
        _ => {
            cursor.expect(&Token::Colon)?;
            cursor.literal()?
        }
    };
    table.push(Token::make_word(&column.value, column.quote_style));
    if cursor.takes("string") {
        table.push(Token::make_keyword("TEXT"));
    } else {
        while cursor.peek().is_some_and(|token| !matches!(token.token, Token::Comma | Token::RBracket)) {
            table.push(cursor.tokens[cursor.at].token.clone());
            cursor.at += 1;
        }
    }
    let (cardinality, range_size) = (Some(cardinality), Some(range_size));
    Ok(DimensionClause { column, cardinality, range_size, origin: None })
}
