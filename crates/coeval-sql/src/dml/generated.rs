// SPDX-License-Identifier: Apache-2.0
//! Values of columns that an INSERT does not give: defaults, identity, sequences.

use super::environment::StatementEnvironment;
use super::expressions::{ColumnExpression, Expressions};
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::rights::{self, Kind};
use crate::scalar::{Environment, Inputs, NoRows, Scope, parse_stored};
use crate::sequences::as_column;
use crate::stored::counts_rows;
use coeval_store::{Catalog, ColumnDef, ColumnType, SequenceDef, StoreError, TableDef, Value};
use std::sync::Arc;

/// Where a column's value comes from if the statement gives none.
#[derive(Clone, Debug)]
pub(super) enum Generator {
    /// NULL.
    Null,
    /// The next value of the sequence of an identity or serial column.
    Sequence(Arc<SequenceDef>, ColumnType),
    /// `DEFAULT`.
    Default(ColumnExpression),
}

/// The generators of all columns of a table, in the order of its definition.
///
/// # Errors
/// If a default no longer has a meaning.
pub(super) fn generators(context: &StatementContext<'_>, def: &TableDef) -> Result<Vec<Generator>, SqlError> {
    let scope = Scope::empty();
    let mut expressions = Expressions::new(context, &scope);
    let catalog = context.transaction.catalog();
    def.columns.iter().map(|column| Generator::new(column, catalog, &mut expressions)).collect()
}

impl Generator {
    fn new(
        column: &ColumnDef,
        catalog: &Catalog,
        expressions: &mut Expressions<'_>,
    ) -> Result<Self, SqlError> {
        if column.is_dropped() {
            return Ok(Self::Null);
        }
        if let Some(sequence) = column.sequence {
            let sequence = catalog.sequence(sequence).ok_or(StoreError::UnknownSequence)?;
            return Ok(Self::Sequence(Arc::clone(sequence), column.ty));
        }
        let Some(text) = &column.default else { return Ok(Self::Null) };
        let compiled = expressions.column(&parse_stored(text)?, column)?;
        compiled.map(Self::Default).ok_or_else(|| match expressions.refused_sequence() {
            Some(sequence) => rights::denied(Kind::Sequence, sequence),
            None => SqlError::unsupported(format_args!("the default {text}")),
        })
    }

    /// The next value.
    ///
    /// # Errors
    /// `2200H` if the sequence has no further value; what the default's operations refuse.
    pub(super) fn value(&self, environment: &StatementEnvironment<'_>) -> Result<Value, SqlError> {
        match self {
            Self::Null => Ok(Value::Null),
            Self::Sequence(sequence, ty) => as_column(environment.next_value(sequence)?, *ty),
            Self::Default(expression) => {
                let inputs = Inputs { rows: &NoRows, parameters: &[], environment };
                expression.value(inputs, environment.zone)
            }
        }
    }

    /// Whether it gives rows numbers of a sequence, which tell in which order they came. Those of hidden row ids are nobody's.
    pub(super) fn takes_numbers(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Sequence(sequence, _) => !counts_rows(sequence),
            Self::Default(expression) => expression.takes_numbers(),
        }
    }

    /// Whether every row gets the same value, so that it need be made only once.
    pub(super) fn is_constant(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Sequence(..) => false,
            Self::Default(expression) => expression.is_constant(),
        }
    }
}
