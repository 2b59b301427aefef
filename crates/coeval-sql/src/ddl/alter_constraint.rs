// SPDX-License-Identifier: Apache-2.0
//! ALTER TABLE ALTER CONSTRAINT: when a foreign key is checked.

use super::changed_table::put;
use super::constraints::deferral;
use super::naming;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::parse::rewind;
use coeval_store::TableDef;
use datafusion::sql::sqlparser::ast::ConstraintCharacteristics;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// What changes of a constraint.
#[derive(Clone, Debug)]
pub(crate) struct ConstraintChange {
    name: String,
    characteristics: Option<ConstraintCharacteristics>,
    /// What is said of other constraints, and of none that is there.
    misplaced: Option<&'static str>,
}

/// The change at the parser's place, if it is one; else the parser is where it was.
///
/// # Errors
/// A syntax error behind the words that only this begins with.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<ConstraintChange>, ParserError> {
    let start = parser.index();
    if !parser.parse_keywords(&[Keyword::ALTER, Keyword::CONSTRAINT]) {
        rewind(parser, start);
        return Ok(None);
    }
    let name = fold(&parser.parse_identifier()?);
    let characteristics = parser.parse_constraint_characteristics()?;
    let misplaced = if parser.parse_keywords(&[Keyword::NOT, Keyword::VALID]) {
        Some("NOT VALID")
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::INHERIT]) {
        Some("NO INHERIT")
    } else {
        None
    };
    Ok(Some(ConstraintChange { name, characteristics, misplaced }))
}

/// Makes the change. What the transaction has put off until its commit is still checked there.
///
/// # Errors
/// `42704` if there is no such constraint, `42809` if it is no foreign key, `42601` for words that contradict each other, `0A000` for
/// those that are about other constraints.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    change: &ConstraintChange,
) -> Result<(), SqlError> {
    if let Some(mark) = change.misplaced {
        let message = format!("ALTER CONSTRAINT statement constraints cannot be marked {mark}");
        return Err(SqlError::new(SqlState::FeatureNotSupported, message));
    }
    let deferral = deferral(change.characteristics.as_ref())?;
    let mut changed = def.clone();
    match changed.foreign_keys.iter_mut().find(|key| key.name == change.name) {
        Some(key) => key.deferral = deferral,
        None => return Err(no_foreign_key(def, &change.name)),
    }
    put(context, changed).map(|_| ())
}

fn no_foreign_key(def: &TableDef, name: &str) -> SqlError {
    let constraint = format!("constraint \"{name}\" of relation \"{}\"", def.name.name);
    if naming::has_constraint(def, name) {
        let message = format!("{constraint} is not a foreign key constraint");
        return SqlError::new(SqlState::WrongObjectType, message);
    }
    SqlError::new(SqlState::UndefinedObject, format!("{constraint} does not exist"))
}
