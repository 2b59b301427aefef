// SPDX-License-Identifier: Apache-2.0
//! What a statement itself says about the types of its parameters: `$1::int`, `LIMIT $1`, `NOT $1`, `left(x, $1)`.

use super::arguments::arguments_of;
use super::known::note_type;
use super::numbers::index_of;
use super::operands::read_as;
use crate::names::fold;
use crate::types::column_type;
use crate::walk::Walk;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    LimitClause, Query, Select, Statement, UnaryOperator, Visitor,
};
use std::ops::ControlFlow;

/// The type of the column that a cast to a type is one to; `None` if the cast is to what no column has.
type CastType = fn(&DataType) -> Option<DataType>;

/// The types of the parameters as far as they are known, or stated by the statement. What is known stays.
pub(crate) fn stated_types(
    statement: &Statement,
    known: &[Option<ColumnType>],
    cast_type: CastType,
) -> Vec<Option<ColumnType>> {
    let mut stated = Stated { types: known.to_vec(), cast_type };
    // Nothing breaks off the visit.
    let _ = statement.walk(&mut stated);
    stated.types
}

struct Stated {
    types: Vec<Option<ColumnType>>,
    cast_type: CastType,
}

impl Stated {
    /// Notes the type of an expression, if it is a parameter.
    fn note(&mut self, expression: &Expr, ty: ColumnType) {
        if let Some(index) = index_of(expression) {
            note_type(&mut self.types, index, Some(ty));
        }
    }

    fn note_arguments(&mut self, function: &Function) {
        let Some(name) = function.name.0.last().and_then(|part| part.as_ident()) else { return };
        let FunctionArguments::List(list) = &function.args else { return };
        for (argument, ty) in list.args.iter().zip(arguments_of(&fold(name), list.args.len())) {
            if let (FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)), Some(ty)) = (argument, ty) {
                self.note(argument, *ty);
            }
        }
    }
}

impl Visitor for Stated {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            let rows = limit.iter().chain(offset.iter().map(|offset| &offset.value));
            rows.for_each(|count| self.note(count, ColumnType::BigInt));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let conditions = select.selection.iter().chain(&select.having);
        conditions.for_each(|condition| self.note(condition, ColumnType::Boolean));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
                if let Some(ty) = (self.cast_type)(data_type).and_then(|plain| column_type(&plain).ok()) {
                    self.note(expr, read_as(ty));
                }
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr }
            | Expr::IsTrue(expr)
            | Expr::IsNotTrue(expr)
            | Expr::IsFalse(expr)
            | Expr::IsNotFalse(expr) => self.note(expr, ColumnType::Boolean),
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                self.note(left, ColumnType::Boolean);
                self.note(right, ColumnType::Boolean);
            }
            Expr::Case { operand: None, conditions, .. } => {
                conditions.iter().for_each(|when| self.note(&when.condition, ColumnType::Boolean));
            }
            // With commas; between FROM and FOR there may be patterns.
            Expr::Substring { substring_from, substring_for, special: true, .. } => {
                substring_from
                    .iter()
                    .chain(substring_for)
                    .for_each(|place| self.note(place, ColumnType::Int));
            }
            Expr::Function(function) => self.note_arguments(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests;
