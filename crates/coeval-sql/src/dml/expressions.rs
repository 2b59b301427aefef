// SPDX-License-Identifier: Apache-2.0
//! Expressions of a changing statement, evaluated row by row: values for columns, conditions, results.

use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::parameters::ParameterTypes;
use crate::parse::given_to_column;
use crate::query::has_subquery;
use crate::rights::Rights;
use crate::scalar::{Compiler, Inputs, Refusal, RowSource, Scalar, Scope};
use crate::types;
use coeval_store::{
    ColumnDef, ColumnType, ObjectRef, QualifiedName, RowRef, SequenceDef, Value, ValueRef, World,
};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::Expr;
use std::cell::RefCell;
use std::sync::Arc;

/// Compiles expressions over the rows of a scope.
pub(super) struct Expressions<'s> {
    scope: &'s Scope,
    parameters: ParameterTypes,
    functions: SessionState,
    world: Arc<World>,
    search_path: Vec<String>,
    rights: Rights,
    /// A sequence of what was compiled that it may not take values of.
    refused_sequence: Option<String>,
}

impl<'s> Expressions<'s> {
    /// A compiler for this statement.
    pub(super) fn new(context: &StatementContext<'_>, scope: &'s Scope) -> Self {
        let declared = context.parameter_types.iter().copied().map(Some).collect();
        Self {
            scope,
            parameters: ParameterTypes(declared),
            functions: context.engine.template().clone(),
            world: Arc::clone(context.transaction.world()),
            search_path: context.settings.name_path().to_vec(),
            rights: context.rights(),
            refused_sequence: None,
        }
    }

    /// The sequence that kept an expression from being compiled, because nobody may take values of it here.
    pub(super) fn refused_sequence(&self) -> Option<&str> {
        self.refused_sequence.as_deref()
    }

    /// Hands a compiler for one expression to `compile`.
    fn with_compiler<T>(&mut self, compile: impl FnOnce(Compiler<'_>) -> T) -> T {
        // If the role may not take its values, the general path reports the error.
        let refused = RefCell::new(None);
        let sequences = |name: &str| {
            let sequence = find_sequence(&self.world, &self.search_path, name)?;
            if self.rights.may_take_values(&sequence) {
                return Some(sequence);
            }
            refused.replace(Some(sequence.name.name.clone()));
            None
        };
        let compiler = Compiler::new(self.scope, &mut self.parameters);
        let compiled = compile(compiler.with_fallback(&self.functions).with_sequences(&sequences));
        self.refused_sequence = refused.into_inner();
        compiled
    }

    /// The expression as the value of a column; `None` if it is, or may be, correct but cannot be evaluated
    /// row by row.
    ///
    /// # Errors
    /// What is wrong with it: `42703`, `42804`, a literal that does not parse.
    pub(super) fn column(
        &mut self,
        expression: &Expr,
        column: &ColumnDef,
    ) -> Result<Option<ColumnExpression>, SqlError> {
        if has_subquery(expression) {
            return Ok(None);
        }
        let given = given_to_column(expression, column.ty);
        let expression = given.as_ref();
        let direct = self.with_compiler(|mut compiler| compiler.assignment(expression, column));
        if let Some(scalar) = known(direct)? {
            return Ok(Some(ColumnExpression { scalar, cast: None }));
        }
        // Casts that the compiler does not have are made of the finished value.
        let finished = self.with_compiler(|mut compiler| compiler.scalar_like(expression, column.ty));
        let Some(scalar) = known(finished)? else { return Ok(None) };
        let cast = Some((scalar.ty(), column.ty));
        Ok(Some(ColumnExpression { scalar, cast }))
    }

    /// The expression as a condition.
    ///
    /// # Errors
    /// As for [`Self::column`]; `0A000` if it cannot be evaluated row by row.
    pub(super) fn condition(&mut self, expression: &Expr) -> Result<Scalar, SqlError> {
        refuse_subquery(expression)?;
        Ok(self.with_compiler(|mut compiler| compiler.condition(expression))?)
    }

    /// The expression as a result column.
    ///
    /// # Errors
    /// As for [`Self::condition`].
    pub(super) fn result(&mut self, expression: &Expr) -> Result<Scalar, SqlError> {
        refuse_subquery(expression)?;
        Ok(self.with_compiler(|mut compiler| compiler.scalar(expression))?)
    }
}

fn refuse_subquery(expression: &Expr) -> Result<(), SqlError> {
    if has_subquery(expression) { Err(SqlError::unsupported("a subquery in this clause")) } else { Ok(()) }
}

/// The sequence of this name: `nextval('s')` names it as identifiers are written.
fn find_sequence(world: &World, search_path: &[String], name: &str) -> Option<Arc<SequenceDef>> {
    let fold = |part: &str| match part.strip_prefix('"').and_then(|part| part.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => part.to_lowercase(),
    };
    let find =
        |schema: String, name: &str| match world.catalog().resolve(&QualifiedName::new(schema, fold(name))) {
            Some(ObjectRef::Sequence(id)) => world.catalog().sequence(id).cloned(),
            _ => None,
        };
    match name.split_once('.') {
        Some((schema, name)) => find(fold(schema), name),
        None => search_path.iter().find_map(|schema| find(schema.clone(), name)),
    }
}

fn known(result: Result<Scalar, Refusal>) -> Result<Option<Scalar>, SqlError> {
    match result {
        Ok(scalar) => Ok(Some(scalar)),
        Err(Refusal::Unsupported(_)) => Ok(None),
        Err(Refusal::Wrong(error)) if error.state == SqlState::FeatureNotSupported => Ok(None),
        Err(Refusal::Wrong(error)) => Err(error),
    }
}

/// An expression whose value goes into a column.
#[derive(Clone, Debug)]
pub(super) struct ColumnExpression {
    scalar: Scalar,
    /// The types of an assignment cast that is still to be made.
    cast: Option<(ColumnType, ColumnType)>,
}

impl ColumnExpression {
    /// Whether the value is the same for all rows.
    pub(super) fn is_constant(&self) -> bool {
        self.scalar.is_constant()
    }

    /// Whether it takes numbers of a sequence.
    pub(super) fn takes_numbers(&self) -> bool {
        self.scalar.takes_numbers()
    }

    /// The value for these inputs, of the column's type.
    ///
    /// # Errors
    /// What the operations of the expression or the cast refuse.
    pub(super) fn value(&self, inputs: Inputs<'_>, zone: chrono_tz::Tz) -> Result<Value, SqlError> {
        let value = self.scalar.eval(inputs)?.into_value();
        match self.cast {
            None => Ok(value),
            Some((from, to)) => types::assign(value, from, to, zone),
        }
    }
}

/// A row of the table where it lies, as the first of a scope.
pub(super) struct StoredRow<'a>(pub(super) RowRef<'a>);

impl RowSource for StoredRow<'_> {
    fn value(&self, _table: usize, column: usize) -> ValueRef<'_> {
        self.0.get(column)
    }
}

/// The rows of a scope with several tables, in their order.
pub(super) struct Rows<'a>(pub(super) &'a [&'a [Value]]);

impl RowSource for Rows<'_> {
    fn value(&self, table: usize, column: usize) -> ValueRef<'_> {
        self.0[table][column].borrow()
    }
}
