// SPDX-License-Identifier: Apache-2.0
//! Types that do not go together in a plan: what DataFusion finds when it makes a plan better that it has made before.

use super::asked::{fit, has_sign, no_function, no_sign};
use super::operators::refused;
use crate::error::{SqlError, SqlState, own_error};
use crate::query::typing::{is_condition, no_operator};
use crate::types::{cannot_cast, no_condition, type_in_words};
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::type_coercion::binary::like_coercion;
use datafusion::logical_expr::type_coercion::functions::UDFCoercionExt;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, Like, Limit, LogicalPlan, Operator,
    WindowFunctionDefinition,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

/// The error for the first such place in a plan; `None` if there is none that is known here.
pub(super) fn in_plan(plan: &LogicalPlan) -> Option<SqlError> {
    let checked = plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expression| {
            check(expression, &schema)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        match node {
            LogicalPlan::Filter(filter) => check_condition("WHERE", &filter.predicate, &schema)?,
            LogicalPlan::Join(join) => {
                join.filter.iter().try_for_each(|filter| check_condition("JOIN/ON", filter, &schema))?;
            }
            LogicalPlan::Limit(limit) => check_counts(limit)?,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    checked.err().and_then(|error| own_error(&error).cloned())
}

/// The same in an expression of columns of this schema.
pub(super) fn in_expression(expression: &Expr, schema: &DFSchema) -> Option<SqlError> {
    check(expression, schema).err().and_then(|error| own_error(&error).cloned())
}

/// Refuses what has a type, and is no condition.
///
/// # Errors
/// `42804`.
fn check_condition(clause: &str, condition: &Expr, schema: &DFSchema) -> Result<()> {
    match condition.get_type(schema) {
        Ok(ty) if !is_condition(&ty) => Err(no_condition(clause, &type_in_words(&ty)).into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What is around an operand without a type has none, so that the innermost mistake is the one that is found.
fn check(expression: &Expr, schema: &DFSchema) -> Result<()> {
    expression
        .apply(|part| match mistake(part, schema) {
            Some(error) => Err(error.into()),
            None => Ok(TreeNodeRecursion::Continue),
        })
        .map(|_| ())
}

fn mistake(part: &Expr, schema: &DFSchema) -> Option<SqlError> {
    let type_of = |operand: &Expr| operand.get_type(schema).ok();
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => refused(&type_of(left)?, *op, &type_of(right)?),
        Expr::Not(operand) => {
            let ty = type_of(operand)?;
            (!is_condition(&ty)).then(|| no_condition("NOT", &type_in_words(&ty)))
        }
        Expr::Negative(operand) => {
            let ty = type_of(operand)?;
            (!has_sign(&ty)).then(|| no_sign(&ty))
        }
        Expr::Like(like) => {
            let (text, pattern) = (type_of(&like.expr)?, type_of(&like.pattern)?);
            let is_known = like_coercion(&text, &pattern).is_some();
            (!is_known).then(|| no_operator(&text, &operator_of(like), &pattern))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let ty = type_of(expr)?;
            let (above, below) =
                if *negated { (Operator::Lt, Operator::Gt) } else { (Operator::GtEq, Operator::LtEq) };
            refused(&ty, above, &type_of(low)?).or_else(|| refused(&ty, below, &type_of(high)?))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let ty = type_of(expr)?;
            let operator = if *negated { Operator::NotEq } else { Operator::Eq };
            list.iter().find_map(|member| refused(&ty, operator, &type_of(member)?))
        }
        Expr::InSubquery(within) => {
            let members = within.subquery.subquery.schema();
            refused(&type_of(&within.expr)?, Operator::Eq, members.fields().first()?.data_type())
        }
        Expr::Cast(Cast { expr, field }) => {
            let (from, to) = (type_of(expr)?, field.data_type());
            (!can_cast_types(&from, to)).then(|| cannot_cast(&type_in_words(&from), &type_in_words(to)))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            // One that is asked has an error of its own.
            let own = part.to_field(schema).err().and_then(|error| own_error(&error).cloned());
            own.or_else(|| of_call(func.as_ref(), args, schema))
        }
        Expr::AggregateFunction(call) => of_call(call.func.as_ref(), &call.params.args, schema),
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => {
                of_call(function.as_ref(), &call.params.args, schema)
            }
            WindowFunctionDefinition::WindowUDF(function) => {
                of_call(function.as_ref(), &call.params.args, schema)
            }
        },
        _ => None,
    }
}

/// The operator that stands for a form of LIKE.
fn operator_of(like: &Like) -> &'static str {
    match (like.negated, like.case_insensitive) {
        (false, false) => "~~",
        (false, true) => "~~*",
        (true, false) => "!~~",
        (true, true) => "!~~*",
    }
}

fn of_call<F: UDFCoercionExt>(function: &F, arguments: &[Expr], schema: &DFSchema) -> Option<SqlError> {
    let fields: Option<Vec<FieldRef>> =
        arguments.iter().map(|argument| argument.to_field(schema).ok().map(|(_, field)| field)).collect();
    let fields = fields?;
    let own = fit(function, &fields).err()?;
    // What the user has called has another name.
    let is_hidden = function.name().starts_with("coeval_");
    own.or_else(|| (!is_hidden).then(|| no_function(function.name(), &fields)))
}

/// Refuses numbers of rows below none.
///
/// # Errors
/// `2201W` and `2201X`.
fn check_counts(limit: &Limit) -> Result<()> {
    let is_negative =
        |count: &Option<Box<Expr>>| count.as_deref().and_then(number).is_some_and(|count| count < 0);
    let error = if is_negative(&limit.fetch) {
        SqlError::new(SqlState::InvalidRowCountInLimitClause, "LIMIT must not be negative")
    } else if is_negative(&limit.skip) {
        SqlError::new(SqlState::InvalidRowCountInResultOffsetClause, "OFFSET must not be negative")
    } else {
        return Ok(());
    };
    Err(error.into())
}

/// The number that an expression of constants is.
fn number(expression: &Expr) -> Option<i64> {
    let context = SimplifyContext::builder().with_schema(Arc::new(DFSchema::empty())).build();
    match ExprSimplifier::new(context).simplify(expression.clone()).ok()? {
        Expr::Literal(number, _) => match number.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(number) => number,
            _ => None,
        },
        _ => None,
    }
}
