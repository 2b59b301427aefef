// SPDX-License-Identifier: Apache-2.0
//! The options of a sequence in any order, as PostgreSQL takes them, and what they change of one that is there.

use super::{sequence, sequence_values};
use crate::catalog::standing;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use coeval_store::{CatalogChange, ColumnDef, SequenceDef, TableDef};
use datafusion::sql::sqlparser::ast::{DataType, Expr, ObjectName, SequenceOptions};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The options of a sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(super) data_type: Option<DataType>,
    pub(super) settings: Vec<SequenceOptions>,
    pub(super) owned_by: Option<ObjectName>,
    /// `RESTART`, `RESTART WITH n`.
    pub(super) restart: Option<Option<Expr>>,
}

/// Options in any order, to the end of the statement or of the parentheses around them.
///
/// # Errors
/// A syntax error for what is none.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Options, ParserError> {
    let mut options = Options::default();
    while !matches!(parser.peek_token().token, Token::EOF | Token::RParen) {
        if parser.parse_keyword(Keyword::AS) {
            options.data_type = Some(parser.parse_data_type()?);
        } else if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
            options.owned_by = Some(parser.parse_object_name(false)?);
        } else if parser.parse_keyword(Keyword::RESTART) {
            options.restart = Some(parse_restart(parser)?);
        } else {
            options.settings.push(parse_setting(parser)?);
        }
    }
    Ok(options)
}

/// One of them.
///
/// # Errors
/// A syntax error if it is none.
pub(super) fn parse_setting(parser: &mut Parser<'_>) -> Result<SequenceOptions, ParserError> {
    if parser.parse_keyword(Keyword::INCREMENT) {
        let by = parser.parse_keyword(Keyword::BY);
        Ok(SequenceOptions::IncrementBy(parser.parse_prefix()?, by))
    } else if parser.parse_keyword(Keyword::MINVALUE) {
        Ok(SequenceOptions::MinValue(Some(parser.parse_prefix()?)))
    } else if parser.parse_keyword(Keyword::MAXVALUE) {
        Ok(SequenceOptions::MaxValue(Some(parser.parse_prefix()?)))
    } else if parser.parse_keyword(Keyword::START) {
        let with = parser.parse_keyword(Keyword::WITH);
        Ok(SequenceOptions::StartWith(parser.parse_prefix()?, with))
    } else if parser.parse_keyword(Keyword::CACHE) {
        Ok(SequenceOptions::Cache(parser.parse_prefix()?))
    } else if parser.parse_keyword(Keyword::CYCLE) {
        // The parser's flag says whether NO was written.
        Ok(SequenceOptions::Cycle(false))
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::CYCLE]) {
        Ok(SequenceOptions::Cycle(true))
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::MINVALUE]) {
        Ok(SequenceOptions::MinValue(None))
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::MAXVALUE]) {
        Ok(SequenceOptions::MaxValue(None))
    } else {
        parser.expected("an option of a sequence", parser.peek_token())
    }
}

/// The value behind `RESTART`, if there is one.
///
/// # Errors
/// A syntax error for one that cannot be read.
pub(super) fn parse_restart(parser: &mut Parser<'_>) -> Result<Option<Expr>, ParserError> {
    let with = parser.parse_keyword(Keyword::WITH);
    let bare = !with && !matches!(parser.peek_token().token, Token::Number(..) | Token::Minus | Token::Plus);
    if bare { Ok(None) } else { parser.parse_prefix().map(Some) }
}

/// Changes a sequence that is there.
///
/// # Errors
/// 22023 when the settings contradict each other or the number that it gave last, `55000` for a table that cannot own it, `0A000` for
/// another owner of the sequence behind an identity column.
pub(super) fn alter(
    context: &mut StatementContext<'_>,
    sequence: &SequenceDef,
    options: &Options,
) -> Result<(), SqlError> {
    let settings = sequence::SequenceSettings::read(&options.settings)?.typed(options.data_type.as_ref())?;
    let mut changed = settings.change(as_it_was(context, sequence, options))?;
    if let Some(owner) = &options.owned_by {
        refuse_identity(context, sequence)?;
        changed.owned_by = sequence::read_owner(context, sequence, owner)?;
    }
    let restart = match &options.restart {
        None => None,
        Some(None) => Some(changed.start),
        Some(Some(value)) => Some(sequence::number(value)?),
    };
    let (last, is_called) = standing(context.engine.store(), sequence);
    if restart.is_none() && is_called {
        // It goes on behind the number that it gave last.
        sequence_values::require_within(&changed, last)?;
    }
    context.transaction.change_catalog(CatalogChange::PutSequence(changed.clone()))?;
    match restart {
        Some(value) => sequence_values::restart(context, &changed, value),
        None => Ok(()),
    }
}

/// The table and the column that a sequence belongs to, if it does to one.
fn owner<'c>(
    context: &'c StatementContext<'_>,
    sequence: &SequenceDef,
) -> Option<(&'c TableDef, &'c ColumnDef)> {
    let (table, column) = sequence.owned_by?;
    let def: &TableDef = context.transaction.table_def(table).ok()?;
    Some((def, def.columns.get(column)?))
}

/// Refuses to give the sequence behind an identity column to another column, or to none: it goes with its own.
///
/// # Errors
/// `0A000`.
fn refuse_identity(context: &StatementContext<'_>, sequence: &SequenceDef) -> Result<(), SqlError> {
    match owner(context, sequence) {
        Some((def, column)) if column.identity.is_some() && column.sequence == Some(sequence.id) => {
            let (name, table) = (&sequence.name.name, &def.name.name);
            let message = "cannot change ownership of identity sequence";
            Err(SqlError::new(SqlState::FeatureNotSupported, message)
                .with_detail(format!("Sequence \"{name}\" is linked to table \"{table}\".")))
        }
        _ => Ok(()),
    }
}

/// The sequence that these options change; where they give it a type, with the type that it has had.
fn as_it_was(context: &StatementContext<'_>, sequence: &SequenceDef, options: &Options) -> SequenceDef {
    match owner(context, sequence).filter(|_| options.data_type.is_some()) {
        Some((_, column)) => sequence::of_column_type(sequence, column),
        None => sequence.clone(),
    }
}
