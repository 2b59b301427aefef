// SPDX-License-Identifier: Apache-2.0
//! `SET CONSTRAINTS`: when deferrable foreign keys are checked in the current transaction.

use super::block::IsQuery;
use super::{Session, State};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names;
use crate::parse::take_word;
use crate::result::StatementResult;
use coeval_store::{CheckTime, ConstraintChoice, ForeignKeyDef, SpaceId, TableDef};
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// `SET CONSTRAINTS { ALL | name, ... } { DEFERRED | IMMEDIATE }`.
#[derive(Clone, Debug)]
pub(crate) struct SetConstraints {
    /// `None`: all.
    names: Option<Vec<ObjectName>>,
    time: CheckTime,
}

impl SetConstraints {
    /// Whether the parser stands before `SET CONSTRAINTS`.
    pub(super) fn is_next(parser: &Parser<'_>) -> bool {
        matches!(&parser.peek_nth_token(1).token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("constraints"))
    }

    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        parser.next_token();
        parser.next_token();
        let names = if take_word(parser, "all") {
            None
        } else {
            Some(parser.parse_comma_separated(|parser| parser.parse_object_name(false))?)
        };
        let time = if take_word(parser, "deferred") {
            CheckTime::Deferred
        } else if take_word(parser, "immediate") {
            CheckTime::Immediate
        } else {
            return parser.expected("DEFERRED or IMMEDIATE", parser.peek_token());
        };
        Ok(Self { names, time })
    }
}

impl Session {
    /// Outside a block it changes nothing, and says so.
    ///
    /// # Errors
    /// 42704 for a constraint that is not there, 42809 for one that is not deferrable, 23503 for one that is wanted at
    /// once and does not hold.
    pub(super) fn set_constraints(&mut self, set: &SetConstraints) -> Result<StatementResult, SqlError> {
        if matches!(self.state, State::Idle) {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            self.notices.push(SqlError::new(SqlState::NoActiveSqlTransaction, message));
            return Ok(StatementResult::plain("SET CONSTRAINTS"));
        }
        self.in_transaction("", &[], &[], IsQuery::No, |context| {
            let which = match &set.names {
                None => ConstraintChoice::All,
                Some(names) => ConstraintChoice::Named(named(context, names)?),
            };
            context.transaction.set_constraints(&which, set.time).map_err(SqlError::from)
        })?;
        Ok(StatementResult::plain("SET CONSTRAINTS"))
    }
}

/// The foreign keys of these names, each in the first schema of the search path that has one.
fn named(context: &StatementContext<'_>, wanted: &[ObjectName]) -> Result<Vec<(SpaceId, String)>, SqlError> {
    let mut found = Vec::new();
    for written in wanted {
        let (schema, name) = names::split_name(written)?;
        let schemas = schema.map_or_else(|| context.settings.name_path().to_vec(), |schema| vec![schema]);
        let constraint =
            schemas.iter().map(|schema| of_schema(context, schema, &name)).find(|all| !all.is_empty());
        let Some(constraints) = constraint else {
            let message = format!("constraint \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UndefinedObject, message));
        };
        if constraints.iter().any(|(_, is_deferrable)| !is_deferrable) {
            let message = format!("constraint \"{name}\" is not deferrable");
            return Err(SqlError::new(SqlState::WrongObjectType, message));
        }
        found.extend(constraints.into_iter().map(|(table, _)| (table, name.clone())));
    }
    Ok(found)
}

/// The tables of a schema with a constraint of this name, and whether it is deferrable.
fn of_schema(context: &StatementContext<'_>, schema: &str, name: &str) -> Vec<(SpaceId, bool)> {
    let world = context.transaction.world();
    let tables = world.tables().filter(|table| table.def().name.schema == schema);
    let deferrable = |def: &TableDef| {
        let is_it = |key: &&ForeignKeyDef| key.name == name;
        let foreign_key = def.foreign_keys.iter().find(is_it).map(|key| key.deferral.is_deferrable());
        let is_other = def.checks.iter().any(|check| check.name == name)
            || def.primary_key_name == name
            || def.indexes.iter().any(|index| index.uniqueness.is_unique() && index.name == name);
        foreign_key.or(is_other.then_some(false))
    };
    tables.filter_map(|table| Some((table.id(), deferrable(table.def())?))).collect()
}
