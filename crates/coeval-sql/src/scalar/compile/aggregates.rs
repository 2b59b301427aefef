// SPDX-License-Identifier: Apache-2.0
//! Aggregate calls inside expressions over groups.
//!
//! An expression over groups is evaluated over a row of its own: first the group's keys, then the results of
//! the aggregate calls, in the order in which the compiler met them.

use super::functions::plain_arguments;
use super::{Compiler, Refusal, Typed};
use crate::scalar::node::{Node, Scalar};
use crate::scalar::promotion::numeric;
use crate::types::numeric::{QUOTIENT_PRECISION, quotient_shape};
use coeval_store::{ColumnType, NUMERIC_PRECISION_MAX};
use datafusion::sql::sqlparser::ast::{
    self, DuplicateTreatment, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
};

/// What an aggregate computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    /// How many inputs are not NULL; how many rows, without an input.
    Count,
    /// The sum; NULL without inputs.
    Sum,
    /// The least input.
    Min,
    /// The greatest input.
    Max,
    /// The mean.
    Average,
}

/// Whether equal inputs count once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DistinctInput {
    /// All inputs count.
    All,
    /// `DISTINCT`.
    Once,
}

/// One aggregate call.
#[derive(Clone, Debug)]
pub(crate) struct AggregateCall {
    /// What it computes.
    pub(crate) function: AggregateFunction,
    /// Whether equal inputs count once.
    pub(crate) distinct: DistinctInput,
    /// Its input, evaluated over the rows; `None` for `count(*)`.
    pub(crate) input: Option<Scalar>,
    /// `FILTER (WHERE ...)`.
    pub(crate) filter: Option<Scalar>,
    /// The type of its result.
    pub(crate) ty: ColumnType,
}

/// The keys and aggregate calls of a query over groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct AggregateScope {
    keys: Vec<(Expr, Scalar)>,
    /// The calls so far.
    pub(crate) calls: Vec<AggregateCall>,
}

impl AggregateScope {
    /// Groups by these compiled expressions.
    #[must_use]
    pub(crate) fn new(keys: Vec<(Expr, Scalar)>) -> Self {
        Self { keys, calls: Vec::new() }
    }

    /// The expressions grouped by.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Scalar> {
        self.keys.iter().map(|(_, scalar)| scalar)
    }

    /// Where the value of a column is that is itself a key.
    pub(super) fn key_of_column(&self, table: usize, column: usize) -> Option<Node> {
        let wanted =
            |node: &Node| matches!(node, Node::Column { table: t, column: c } if *t == table && *c == column);
        let place = self.keys().position(|key| wanted(&key.node))?;
        Some(Node::Column { table: 0, column: place })
    }
}

impl Compiler<'_> {
    /// A whole expression that is grouped by.
    pub(super) fn group_key(&self, expression: &Expr) -> Option<Typed> {
        let aggregates = self.aggregates.as_ref()?;
        let place = aggregates.keys.iter().position(|(key, _)| key == expression)?;
        Some(Typed::known(Node::Column { table: 0, column: place }, aggregates.keys[place].1.ty))
    }

    /// An aggregate call, if the name is one of an aggregate.
    pub(super) fn aggregate(&mut self, name: &str, call: &ast::Function) -> Result<Option<Typed>, Refusal> {
        let function = match name {
            "count" => AggregateFunction::Count,
            "sum" => AggregateFunction::Sum,
            "min" => AggregateFunction::Min,
            "max" => AggregateFunction::Max,
            "avg" => AggregateFunction::Average,
            _ => return Ok(None),
        };
        // Inside the arguments the names are those of the rows again.
        let Some(aggregates) = self.aggregates.take() else {
            return Err(Refusal::unsupported("an aggregate here"));
        };
        let compiled = self.aggregate_call(function, call);
        let place = aggregates.keys.len() + aggregates.calls.len();
        let result = compiled.map(|compiled| {
            let typed = Typed::known(Node::Column { table: 0, column: place }, compiled.ty);
            aggregates.calls.push(compiled);
            Some(typed)
        });
        self.aggregates = Some(aggregates);
        result
    }

    fn aggregate_call(
        &mut self,
        function: AggregateFunction,
        call: &ast::Function,
    ) -> Result<AggregateCall, Refusal> {
        let filter = call.filter.as_deref().map(|filter| self.condition(filter)).transpose()?;
        let unfiltered = ast::Function { filter: None, ..call.clone() };
        let FunctionArguments::List(list) = &unfiltered.args else {
            return Err(Refusal::unsupported("an aggregate of a subquery"));
        };
        let distinct = match list.duplicate_treatment {
            Some(DuplicateTreatment::Distinct) => DistinctInput::Once,
            Some(DuplicateTreatment::All) | None => DistinctInput::All,
        };
        if function == AggregateFunction::Count
            && matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
        {
            let ty = ColumnType::BigInt;
            return Ok(AggregateCall { function, distinct: DistinctInput::All, input: None, filter, ty });
        }
        let mut plain = unfiltered.clone();
        if let FunctionArguments::List(list) = &mut plain.args {
            list.duplicate_treatment = None;
        }
        let arguments = plain_arguments(&plain);
        let Some([input]) = arguments.as_deref() else {
            return Err(Refusal::unsupported("these arguments of an aggregate"));
        };
        let input = self.scalar(input)?;
        if distinct == DistinctInput::Once && matches!(input.ty, ColumnType::Json | ColumnType::Jsonb) {
            return Err(Refusal::unsupported("different documents"));
        }
        let ty = result_type(function, input.ty)
            .ok_or_else(|| Refusal::unsupported(format!("{function:?} of {}", input.ty)))?;
        Ok(AggregateCall { function, distinct, input: Some(input), filter, ty })
    }
}

fn mean_of_scale(scale: i8) -> ColumnType {
    numeric(i32::from(QUOTIENT_PRECISION), i32::from(quotient_shape(scale, 0)))
}

/// The type of an aggregate, as DataFusion has it, so that both paths agree.
fn result_type(function: AggregateFunction, input: ColumnType) -> Option<ColumnType> {
    match function {
        AggregateFunction::Count => Some(ColumnType::BigInt),
        AggregateFunction::Min | AggregateFunction::Max => match input {
            ColumnType::Boolean
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Char(_)
            | ColumnType::Uuid
            | ColumnType::Bit(_)
            | ColumnType::Varbit(_)
            | ColumnType::Array(_) => None,
            other => Some(other),
        },
        AggregateFunction::Sum => match input {
            ColumnType::SmallInt | ColumnType::Int => Some(ColumnType::BigInt),
            ColumnType::BigInt => Some(numeric(i32::from(NUMERIC_PRECISION_MAX), 0)),
            ColumnType::Numeric { precision, scale } => {
                Some(numeric(i32::from(precision) + 10, i32::from(scale)))
            }
            ColumnType::Real | ColumnType::Double => Some(ColumnType::Double),
            _ => None,
        },
        AggregateFunction::Average => match input {
            ColumnType::Real | ColumnType::Double => Some(ColumnType::Double),
            ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt => Some(mean_of_scale(0)),
            ColumnType::Numeric { scale, .. } => Some(mean_of_scale(scale)),
            _ => None,
        },
    }
}
