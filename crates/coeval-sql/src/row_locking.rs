// SPDX-License-Identifier: Apache-2.0
//! Locking clauses: `FOR UPDATE`, `FOR NO KEY UPDATE`, `FOR SHARE`, `FOR KEY SHARE`, with `OF`, `NOWAIT` and
//! `SKIP LOCKED`; and which lock an UPDATE needs.
//!
//! The parser knows UPDATE, SHARE and one table behind OF. What it does not know is put into forms that it does
//! ([`spell_out`]): the strength becomes the first part of the table's name, which no name has, and a clause with
//! several tables becomes several clauses.

use crate::error::SqlError;
use crate::names::fold;
use coeval_store::{IfLocked, TableDef};
use coeval_txn::LockStrength;
use datafusion::sql::sqlparser::ast::{LockClause, LockType, NonBlock, ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The names that stand for strengths: no identifier of a statement begins like this.
const NO_KEY_UPDATE: &str = "\u{1}no key update";
/// See [`NO_KEY_UPDATE`].
const KEY_SHARE: &str = "\u{1}key share";

/// A locking clause, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowLocking {
    pub(crate) strength: LockStrength,
    pub(crate) if_locked: IfLocked,
    /// The name of the table that it means, as the statement calls it; all of them if not given.
    pub(crate) of: Option<String>,
}

impl RowLocking {
    /// What a clause says.
    ///
    /// # Errors
    /// `42601` for a qualified name behind OF.
    pub(crate) fn of_clause(clause: &LockClause) -> Result<Self, SqlError> {
        let if_locked = match clause.nonblock {
            None => IfLocked::Wait,
            Some(NonBlock::Nowait) => IfLocked::Fail,
            Some(NonBlock::SkipLocked) => IfLocked::Skip,
        };
        let mut parts: &[ObjectNamePart] = clause.of.as_ref().map_or(&[], |name| &name.0);
        let mut strength = match clause.lock_type {
            LockType::Update => LockStrength::Update,
            LockType::Share => LockStrength::Share,
        };
        if let [ObjectNamePart::Identifier(first), rest @ ..] = parts {
            match first.value.as_str() {
                NO_KEY_UPDATE => (strength, parts) = (LockStrength::NoKeyUpdate, rest),
                KEY_SHARE => (strength, parts) = (LockStrength::KeyShare, rest),
                _ => {}
            }
        }
        let of = match parts {
            [] => None,
            [ObjectNamePart::Identifier(name)] => Some(fold(name)),
            qualified => {
                let name = ObjectName(qualified.to_vec());
                let message = format!("FOR {strength} must specify unqualified relation names, not {name}");
                return Err(SqlError::syntax(message));
            }
        };
        Ok(Self { strength, if_locked, of })
    }

    /// `FOR UPDATE` and so on.
    pub(crate) fn name(&self) -> &'static str {
        match self.strength {
            LockStrength::Update => "FOR UPDATE",
            LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrength::Share => "FOR SHARE",
            LockStrength::KeyShare => "FOR KEY SHARE",
        }
    }
}

/// The lock that an UPDATE of these columns takes: of the key too if one of them is part of a unique key.
pub(crate) fn strength_of_update(table: &TableDef, mut columns: impl Iterator<Item = usize>) -> LockStrength {
    let is_key = |column: usize| {
        let mut unique = table.indexes.iter().filter(|index| index.uniqueness.is_unique());
        // What is generated may be another one after any change.
        let is_of = |key: &usize| *key == column || table.columns[*key].generated.is_some();
        table.primary_key.contains(&column) || unique.any(|index| index.columns.iter().any(is_of))
    };
    if columns.any(is_key) { LockStrength::Update } else { LockStrength::NoKeyUpdate }
}

/// Puts the locking clauses of a statement into forms that the parser knows.
pub(crate) fn spell_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_keyword(token, Keyword::FOR)) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((token, behind)) = rest.split_first() {
        match is_keyword(token, Keyword::FOR).then(|| Clause::read(behind)).flatten() {
            Some((clause, behind)) => {
                clause.write(token, &mut out);
                rest = behind;
            }
            None => {
                out.push(token.clone());
                rest = behind;
            }
        }
    }
    out
}

/// A locking clause as tokens.
struct Clause<'t> {
    /// UPDATE or SHARE.
    word: &'t TokenWithSpan,
    /// The name that stands for another strength.
    strength: Option<&'static str>,
    tables: Vec<&'t [TokenWithSpan]>,
    /// NOWAIT or SKIP LOCKED.
    end: &'t [TokenWithSpan],
}

impl<'t> Clause<'t> {
    /// The clause behind FOR, if there is one that the parser would not read, and what is behind it.
    fn read(tokens: &'t [TokenWithSpan]) -> Option<(Self, &'t [TokenWithSpan])> {
        let strengths: [(&[Keyword], Option<&'static str>); 4] = [
            (&[Keyword::NO, Keyword::KEY, Keyword::UPDATE], Some(NO_KEY_UPDATE)),
            (&[Keyword::KEY, Keyword::SHARE], Some(KEY_SHARE)),
            (&[Keyword::UPDATE], None),
            (&[Keyword::SHARE], None),
        ];
        let read = strengths.into_iter().find_map(|(words, strength)| {
            let (last, behind) = keywords(tokens, words)?;
            Some((last, strength, behind))
        });
        let (word, strength, mut rest) = read?;
        let mut tables = Vec::new();
        if let Some((_, mut behind)) = keywords(rest, &[Keyword::OF]) {
            loop {
                let start = skip_space(behind);
                let is_end = |token: &TokenWithSpan| !matches!(&token.token, Token::Word(_) | Token::Period);
                let length = start.iter().position(is_end).unwrap_or(start.len());
                tables.push(&start[..length]);
                rest = &start[length..];
                match skip_space(rest).split_first() {
                    Some((comma, next)) if comma.token == Token::Comma => behind = next,
                    _ => break,
                }
            }
        }
        if strength.is_none() && tables.len() < 2 {
            return None;
        }
        let ends: [&[Keyword]; 2] = [&[Keyword::NOWAIT], &[Keyword::SKIP, Keyword::LOCKED]];
        let behind = ends.into_iter().find_map(|words| keywords(rest, words)).map_or(rest, |(_, rest)| rest);
        let end = &rest[..rest.len() - behind.len()];
        Some((Self { word, strength, tables, end }, behind))
    }

    fn write(&self, word_for: &TokenWithSpan, out: &mut Vec<TokenWithSpan>) {
        let at = |token: Token| TokenWithSpan { token, span: self.word.span };
        let name = |value: &str, keyword| {
            at(Token::Word(Word { value: value.to_owned(), quote_style: None, keyword }))
        };
        let all: &[&[TokenWithSpan]] = if self.tables.is_empty() { &[&[]] } else { &self.tables };
        for table in all {
            let space = at(Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space));
            let plain = match self.strength {
                Some(KEY_SHARE) => Keyword::SHARE,
                Some(_) => Keyword::UPDATE,
                None => Keyword::NoKeyword,
            };
            out.extend([space.clone(), word_for.clone(), space.clone()]);
            out.push(match plain {
                Keyword::NoKeyword => self.word.clone(),
                keyword => name(&format!("{keyword:?}"), keyword),
            });
            if self.strength.is_some() || !table.is_empty() {
                out.extend([space.clone(), name("OF", Keyword::OF), space.clone()]);
            }
            if let Some(strength) = self.strength {
                let marker =
                    Word { value: strength.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
                out.push(at(Token::Word(marker)));
                if !table.is_empty() {
                    out.push(at(Token::Period));
                }
            }
            out.extend(table.iter().cloned());
            out.push(space);
            out.extend(self.end.iter().cloned());
        }
    }
}

fn is_keyword(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == keyword)
}

fn skip_space(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let start = tokens.iter().position(|token| !is_space(token)).unwrap_or(tokens.len());
    &tokens[start..]
}

/// The last of these words and what is behind, if they are next.
fn keywords<'t>(
    tokens: &'t [TokenWithSpan],
    words: &[Keyword],
) -> Option<(&'t TokenWithSpan, &'t [TokenWithSpan])> {
    let (mut rest, mut last) = (tokens, None);
    for &word in words {
        let (token, behind) = skip_space(rest).split_first().filter(|(token, _)| is_keyword(token, word))?;
        (rest, last) = (behind, Some(token));
    }
    Some((last?, rest))
}
