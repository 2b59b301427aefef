// SPDX-License-Identifier: Apache-2.0
//! From text to what a session runs: the parser's statements, and those that definitions and sessions read themselves.

use super::deferrable::DeferrableModes;
use super::utility::Utility;
use crate::ddl::{Extended, SchemaElement, SchemaElements};
use crate::error::SqlError;
use crate::parse::{BrickClause, Piece, Syntax, pieces};
use crate::settings::Deferrable;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// One statement, parsed.
#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    /// A statement that the parser knows.
    Statement(Box<Statement>),
    /// A statement about definitions that the parser does not know.
    Definition(Box<Extended>),
    /// A statement about neither rows nor definitions that the parser does not know.
    Utility(Box<Utility>),
    /// `CHECKPOINT`.
    Checkpoint,
}

/// Whether a text holds other statements beside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Neighbours {
    /// It is all of its text.
    None,
    /// There are others, or nobody looked.
    Some,
}

/// Whether the session runs the statement itself, outside any transaction's data.
pub(super) fn is_session_statement(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. }
            | Statement::Set(_)
            | Statement::Reset(_)
            | Statement::ShowVariable { .. }
            | Statement::Discard { .. }
            | Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::Deallocate { .. }
    )
}

/// The statements of a text, in order.
///
/// # Errors
/// `42601` with the position, `54001` for one nested too deeply.
pub(crate) fn parse(sql: &str) -> Result<Vec<Parsed>, SqlError> {
    pieces(sql, own, with_clauses)
}

/// The statement at the parser's place, if it is one that the parser does not know; else the parser is where it was.
fn own(parser: &mut Parser<'_>) -> Result<Option<Parsed>, ParserError> {
    if let Some(utility) = Utility::parse(parser)? {
        return Ok(Some(Parsed::Utility(Box::new(utility))));
    }
    Ok(Extended::parse(parser)?.map(|extended| Parsed::Definition(Box::new(extended))))
}

/// The statement with the clauses that were taken out of its tokens.
fn with_clauses(piece: Piece<Parsed>) -> Result<Parsed, SqlError> {
    let mut statement = match piece.syntax {
        Syntax::Statement(statement) => Parsed::Statement(statement),
        Syntax::Own(own) => own,
        Syntax::Checkpoint => Parsed::Checkpoint,
    };
    if let Some(deferrable) = piece.deferrable {
        statement = with_deferrable(statement, deferrable)?;
    }
    if let Some(bricks) = piece.bricks {
        statement = in_bricks(statement, bricks)?;
    }
    if let Some(server) = piece.server {
        statement = on_server(statement, server)?;
    }
    if piece.elements.is_empty() {
        return Ok(statement);
    }
    let elements: Result<Vec<Parsed>, SqlError> = piece.elements.into_iter().map(with_clauses).collect();
    in_schema(statement, elements?)
}

/// The CREATE SCHEMA with the statements that it holds.
fn in_schema(schema: Parsed, elements: Vec<Parsed>) -> Result<Parsed, SqlError> {
    let misplaced = || SqlError::syntax("this is no part of CREATE SCHEMA");
    let Parsed::Statement(create) = schema else { return Err(misplaced()) };
    let elements: Result<Vec<SchemaElement>, SqlError> = elements
        .into_iter()
        .map(|element| match element {
            Parsed::Statement(statement) => Ok(SchemaElement::Statement(statement)),
            Parsed::Definition(extended) => Ok(SchemaElement::Extended(extended)),
            Parsed::Utility(_) | Parsed::Checkpoint => Err(misplaced()),
        })
        .collect();
    let schema = SchemaElements::new(*create, elements?)?;
    Ok(Parsed::Definition(Box::new(Extended::Schema(Box::new(schema)))))
}

/// The statement about transaction modes with the word that was taken out of its tokens.
fn with_deferrable(statement: Parsed, deferrable: Deferrable) -> Result<Parsed, SqlError> {
    let modes = match statement {
        Parsed::Statement(rest) => DeferrableModes::of(*rest, deferrable),
        Parsed::Definition(_) | Parsed::Utility(_) | Parsed::Checkpoint => None,
    };
    let modes = modes.ok_or_else(|| SqlError::syntax("syntax error at or near \"deferrable\""))?;
    Ok(Parsed::Utility(Box::new(Utility::DeferrableModes(Box::new(modes)))))
}

/// The CREATE TABLE with the server whose clause was taken out of its tokens.
fn on_server(statement: Parsed, server: String) -> Result<Parsed, SqlError> {
    let misplaced = || SqlError::syntax("USING tique belongs to CREATE TABLE with a list of columns");
    let Parsed::Statement(statement) = statement else { return Err(misplaced()) };
    let Statement::CreateTable(create) = *statement else { return Err(misplaced()) };
    Ok(Parsed::Definition(Box::new(Extended::CreateOnServer { create: Box::new(create), server })))
}

/// The CREATE TABLE with the clause that was taken out of its tokens.
fn in_bricks(statement: Parsed, bricks: BrickClause) -> Result<Parsed, SqlError> {
    match statement {
        Parsed::Statement(statement) => match *statement {
            Statement::CreateTable(create) => {
                let create = Box::new(create);
                Ok(Parsed::Definition(Box::new(Extended::CreateBricks { create, bricks })))
            }
            _ => Err(SqlError::syntax("USING brick belongs to CREATE TABLE")),
        },
        _ => Err(SqlError::syntax("USING brick belongs to CREATE TABLE")),
    }
}

#[cfg(test)]
mod tests;
