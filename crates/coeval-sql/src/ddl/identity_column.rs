// SPDX-License-Identifier: Apache-2.0
//! What ALTER TABLE changes of identity columns and the parser does not know: a sequence with a name of its own, as `pg_dump` writes
//! it, other settings, and that the column is none any more. And that one is no generated column any more.

use super::changed_table::put;
use super::dependents::{Behavior, Users};
use super::drop::drop_sequence;
use super::existence::Missing;
use super::sequence_options::{self, Options};
use super::{alter_column, generated_columns, lookup};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::parse::{rewind, take_word};
use crate::sequences;
use coeval_store::{Identity, SequenceId, TableDef};
use datafusion::sql::sqlparser::ast::{ObjectName, SequenceOptions};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// A change of a column.
#[derive(Clone, Debug)]
pub(crate) struct IdentityChange {
    column: String,
    action: Action,
}

/// What changes.
#[derive(Clone, Debug)]
enum Action {
    /// `ADD GENERATED ... AS IDENTITY (SEQUENCE NAME ...)`.
    Add { identity: Identity, sequence: ObjectName, options: Options },
    /// `SET GENERATED ...`, `SET INCREMENT BY ...`, `RESTART`, in any order.
    Set { identity: Option<Identity>, options: Options },
    /// `DROP IDENTITY [IF EXISTS]`.
    Drop(Missing),
    /// `DROP EXPRESSION [IF EXISTS]`.
    DropExpression(Missing),
}

/// The change at the parser's place, if it is one of these and nothing follows; else the parser is where it was.
///
/// # Errors
/// A syntax error behind words that only these changes begin with.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<IdentityChange>, ParserError> {
    let start = parser.index();
    if parser.parse_keyword(Keyword::ALTER) {
        let _ = parser.parse_keyword(Keyword::COLUMN);
        let column = fold(&parser.parse_identifier()?);
        if let Some(action) = parse_action(parser)?
            && parser.peek_token().token == Token::EOF
        {
            return Ok(Some(IdentityChange { column, action }));
        }
    }
    rewind(parser, start);
    Ok(None)
}

fn parse_action(parser: &mut Parser<'_>) -> Result<Option<Action>, ParserError> {
    if parser.parse_keyword(Keyword::ADD) {
        return parse_added(parser);
    }
    if parser.parse_keyword(Keyword::DROP) {
        return Ok(parse_dropped(parser));
    }
    let mut identity = None;
    let mut options = Options::default();
    loop {
        if parser.parse_keyword(Keyword::RESTART) {
            options.restart = Some(sequence_options::parse_restart(parser)?);
        } else if parser.parse_keywords(&[Keyword::SET, Keyword::GENERATED]) {
            identity = Some(parse_kind(parser)?);
        } else if let Some(setting) = parse_set_option(parser) {
            options.settings.push(setting);
        } else {
            break;
        }
    }
    let is_said = identity.is_some() || options.restart.is_some() || !options.settings.is_empty();
    Ok(is_said.then_some(Action::Set { identity, options }))
}

/// What follows `DROP`; `None` of all that else is dropped of a column.
fn parse_dropped(parser: &mut Parser<'_>) -> Option<Action> {
    let action: fn(Missing) -> Action = if parser.parse_keyword(Keyword::IDENTITY) {
        Action::Drop
    } else if take_word(parser, "expression") {
        Action::DropExpression
    } else {
        return None;
    };
    let skips = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    Some(action(if skips { Missing::Skip } else { Missing::Refuse }))
}

/// What follows `ADD`; without a name of the sequence it is the parser's.
fn parse_added(parser: &mut Parser<'_>) -> Result<Option<Action>, ParserError> {
    if !parser.parse_keyword(Keyword::GENERATED) {
        return Ok(None);
    }
    let identity = parse_kind(parser)?;
    let is_named = parser.parse_keywords(&[Keyword::AS, Keyword::IDENTITY])
        && parser.consume_token(&Token::LParen)
        && parser.parse_keyword(Keyword::SEQUENCE)
        && parser.parse_keyword(Keyword::NAME);
    if !is_named {
        return Ok(None);
    }
    let sequence = parser.parse_object_name(false)?;
    let options = sequence_options::parse(parser)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Some(Action::Add { identity, sequence, options }))
}

/// `ALWAYS` or `BY DEFAULT`.
fn parse_kind(parser: &mut Parser<'_>) -> Result<Identity, ParserError> {
    if parser.parse_keywords(&[Keyword::BY, Keyword::DEFAULT]) {
        return Ok(Identity::ByDefault);
    }
    parser.expect_keyword(Keyword::ALWAYS)?;
    Ok(Identity::Always)
}

/// `SET` and an option of a sequence; `None` of all that else is set of a column, where the parser then still is.
fn parse_set_option(parser: &mut Parser<'_>) -> Option<SequenceOptions> {
    let start = parser.index();
    if parser.parse_keyword(Keyword::SET)
        && let Ok(setting) = sequence_options::parse_setting(parser)
    {
        return Some(setting);
    }
    rewind(parser, start);
    None
}

/// Makes the change.
///
/// # Errors
/// `42703` for a column that is not there, `55000` for one that is no identity column, or no generated one, or is to become one and
/// cannot; what the sequence answers.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    change: &IdentityChange,
) -> Result<(), SqlError> {
    match &change.action {
        Action::Add { identity, sequence, options } => {
            let added = alter_column::Added {
                column: &change.column,
                identity: *identity,
                sequence: Some(sequence),
                options: &options.settings,
            };
            alter_column::add_identity(context, def, &added).map(|_| ())
        }
        Action::Set { identity, options } => {
            let place = lookup::column(def, &change.column)?;
            let sequence = sequence_behind(def, place).ok_or_else(|| no_identity(def, &change.column))?;
            if let Some(identity) = identity {
                let mut changed = def.clone();
                changed.columns[place].identity = Some(*identity);
                put(context, changed)?;
            }
            let sequence = sequences::by_id(context, sequence)?;
            sequence_options::alter(context, &sequence, options)
        }
        Action::Drop(missing) => {
            let place = lookup::column(def, &change.column)?;
            match sequence_behind(def, place) {
                Some(sequence) => drop_identity(context, def, place, sequence),
                None if *missing == Missing::Refuse => Err(no_identity(def, &change.column)),
                None => {
                    let message = format!("{}, skipping", is_no_identity(def, &change.column));
                    context.notice(SqlState::SuccessfulCompletion, message);
                    Ok(())
                }
            }
        }
        Action::DropExpression(missing) => {
            let place = lookup::column(def, &change.column)?;
            if let Some(changed) = generated_columns::without_expression(def, place) {
                return put(context, changed).map(drop);
            }
            let (column, relation) = (&change.column, &def.name.name);
            let message =
                format!("column \"{column}\" of relation \"{relation}\" is not a stored generated column");
            if *missing == Missing::Refuse {
                return Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message));
            }
            context.notice(SqlState::SuccessfulCompletion, format!("{message}, skipping"));
            Ok(())
        }
    }
}

/// Leaves a column as it is, NOT NULL and without a default, and drops the sequence behind it.
fn drop_identity(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    place: usize,
    sequence: SequenceId,
) -> Result<(), SqlError> {
    let mut changed = def.clone();
    changed.columns[place].identity = None;
    changed.columns[place].sequence = None;
    put(context, changed)?;
    let sequence = sequences::by_id(context, sequence)?;
    drop_sequence(context, &sequence, Behavior::Restrict, &[], &mut Users::default())
}

/// The sequence behind an identity column; `None` for other columns.
fn sequence_behind(def: &TableDef, place: usize) -> Option<SequenceId> {
    let column = &def.columns[place];
    column.sequence.filter(|_| column.identity.is_some())
}

fn is_no_identity(def: &TableDef, column: &str) -> String {
    format!("column \"{column}\" of relation \"{}\" is not an identity column", def.name.name)
}

/// `55000`.
fn no_identity(def: &TableDef, column: &str) -> SqlError {
    SqlError::new(SqlState::ObjectNotInPrerequisiteState, is_no_identity(def, column))
}
