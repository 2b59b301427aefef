// SPDX-License-Identifier: Apache-2.0
//! Conditions that guard those behind them: `b <> 0 AND 10 / b > 5` divides by no zero.
//!
//! DataFusion may compute both sides of AND and OR for all rows of a batch, and fails by rows that the left side has
//! already decided. PostgreSQL computes one side, mostly the cheaper one, and the other only where that leaves the answer
//! open; people rely on it. So a condition is computed as DataFusion does, and only if that fails, once more with one side after
//! the other: as it is written, then the smaller one first. Whose condition has nothing to guard pays nothing, and one that fails
//! is computed three times, however many sides it has.

use crate::wrapped::as_wrapped;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{and_kleene, or_kleene};
use coeval_operators::join_filter::with_changed_filter;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Lets conditions of filters, joins and projections guard each other. To come last: what other rules look for in a
/// condition is hidden behind it.
#[derive(Debug)]
pub(crate) struct GuardConditions;

impl PhysicalOptimizerRule for GuardConditions {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(guard_node).map(|done| done.data)
    }

    fn name(&self) -> &'static str {
        "coeval_guard_conditions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn guard_node(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let guarded: Option<Arc<dyn ExecutionPlan>> = if let Some(filter) = node.downcast_ref::<FilterExec>() {
        match changed(filter.predicate())? {
            Some(predicate) => {
                Some(Arc::new(FilterExecBuilder::from(filter).with_predicate(predicate).build()?))
            }
            None => None,
        }
    } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        guarded_projection(projection)?
    } else {
        with_changed_filter(node.as_ref(), guarded_filter)?
    };
    Ok(guarded.map_or_else(|| Transformed::no(node), Transformed::yes))
}

fn guarded_filter(filter: &JoinFilter) -> Result<Option<JoinFilter>> {
    let guarded = changed(filter.expression())?;
    Ok(guarded.map(|condition| {
        JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    }))
}

fn guarded_projection(projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let guarded = |output: &ProjectionExpr| {
        changed(&output.expr).map(|expr| expr.map(|expr| ProjectionExpr::new(expr, output.alias.clone())))
    };
    let outputs = projection.expr();
    let replaced = outputs.iter().map(guarded).collect::<Result<Vec<_>>>()?;
    if replaced.iter().all(Option::is_none) {
        return Ok(None);
    }
    let outputs = outputs.iter().zip(replaced).map(|(old, new)| new.unwrap_or_else(|| old.clone()));
    let (input, schema) = (Arc::clone(projection.input()), projection.schema());
    let projection = ProjectionExec::try_new_with_schema_metadata(outputs, input, &schema)?;
    Ok(Some(Arc::new(projection)))
}

/// The condition with guards; as it is if one of its parts cannot be made anew.
pub(crate) fn guarded(condition: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    changed(&condition).ok().flatten().unwrap_or(condition)
}

/// The expression with guards; `None` if it needs none.
///
/// # Errors
/// If a part of it cannot be made anew with other operands.
fn changed(expression: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    // What is below a guard is its own.
    let guard = |part: Arc<dyn PhysicalExpr>| {
        Ok(if needs_guard(&part) {
            let guarded = Guarded { logic: part, way: Way::Any };
            Transformed::new(Arc::new(guarded) as _, true, TreeNodeRecursion::Jump)
        } else {
            Transformed::no(part)
        })
    };
    let done = Arc::clone(expression).transform_down(guard)?;
    Ok(done.transformed.then_some(done.data))
}

/// The expression with all its sides in turn.
fn in_turn(expression: &Arc<dyn PhysicalExpr>, order: Order) -> Result<Arc<dyn PhysicalExpr>> {
    let turn = |part: Arc<dyn PhysicalExpr>| {
        Ok(match part.downcast_ref::<BinaryExpr>().filter(|_| needs_guard(&part)) {
            Some(logic) => {
                let is_turned = order == Order::SmallerFirst && size(logic.right()) < size(logic.left());
                let way = if is_turned { Way::RightFirst } else { Way::LeftFirst };
                Transformed::yes(Arc::new(Guarded { logic: part, way }) as _)
            }
            None => Transformed::no(part),
        })
    };
    Arc::clone(expression).transform_up(turn).map(|done| done.data)
}

/// Whether any part of an expression, itself included, is of this kind. However deep it is, that takes no more of the stack.
fn any_part(
    expression: &Arc<dyn PhysicalExpr>,
    mut is_one: impl FnMut(&Arc<dyn PhysicalExpr>) -> bool,
) -> bool {
    let mut left = vec![expression];
    while let Some(part) = left.pop() {
        if is_one(part) {
            return true;
        }
        left.extend(part.children());
    }
    false
}

/// How many parts an expression has.
fn size(expression: &Arc<dyn PhysicalExpr>) -> usize {
    let mut count = 0;
    any_part(expression, |_| {
        count += 1;
        false
    });
    count
}

/// Whether an expression is an AND or OR of which something may fail.
fn needs_guard(expression: &Arc<dyn PhysicalExpr>) -> bool {
    expression.downcast_ref().is_some_and(|logic: &BinaryExpr| is_logic(*logic.op())) && can_fail(expression)
}

fn is_logic(operator: Operator) -> bool {
    matches!(operator, Operator::And | Operator::Or)
}

/// Whether an operator orders its operands or tells whether they are the same.
pub(crate) fn is_comparison(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// Whether an operator makes a condition, which never fails by itself: it compares its operands, or joins conditions.
pub(crate) fn is_condition(operator: Operator) -> bool {
    is_logic(operator) || is_comparison(operator)
}

/// Whether an expression may fail by the values of a row, as far as its kind tells.
fn can_fail(expression: &Arc<dyn PhysicalExpr>) -> bool {
    any_part(expression, |part| {
        let is_plain = part.downcast_ref::<BinaryExpr>().is_some_and(|binary| is_condition(*binary.op()))
            || part.is::<Column>()
            || part.is::<Literal>()
            || part.is::<NotExpr>()
            || part.is::<IsNullExpr>()
            || part.is::<IsNotNullExpr>();
        !is_plain
    })
}

/// Which side comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    AsWritten,
    SmallerFirst,
}

/// How an AND or OR is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// As DataFusion does, and if that fails, in turn.
    Any,
    /// The right side where the left one leaves the answer open.
    LeftFirst,
    /// The left side where the right one leaves the answer open.
    RightFirst,
}

/// AND or OR that is computed in this way.
#[derive(Debug, Eq)]
struct Guarded {
    logic: Arc<dyn PhysicalExpr>,
    way: Way,
}

impl Guarded {
    fn logic(&self) -> &BinaryExpr {
        self.logic.downcast_ref().expect("only binary expressions are guarded")
    }

    fn evaluate_in_turn(
        &self,
        rows: &RecordBatch,
        [first, second]: [&Arc<dyn PhysicalExpr>; 2],
    ) -> Result<ColumnarValue> {
        let is_and = *self.logic().op() == Operator::And;
        let first = first.evaluate(rows)?.into_array(rows.num_rows())?;
        let first = as_boolean_array(&first)?;
        let open = first.iter().map(|answer| Some(answer.is_none_or(|yes| yes == is_and)));
        // The other rows get NULL, which changes nothing of an answer that is decided.
        let second = second.evaluate_selection(rows, &open.collect::<BooleanArray>())?;
        let second = second.into_array(rows.num_rows())?;
        let second = as_boolean_array(&second)?;
        let answers = if is_and { and_kleene(first, second)? } else { or_kleene(first, second)? };
        Ok(ColumnarValue::Array(Arc::new(answers)))
    }
}

// By hand: `derive` would move the inner expression out.
impl PartialEq for Guarded {
    fn eq(&self, other: &Self) -> bool {
        self.logic.eq(&other.logic) && self.way == other.way
    }
}

impl Hash for Guarded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.logic.hash(state);
        self.way.hash(state);
    }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.logic.fmt(f)
    }
}

impl PhysicalExpr for Guarded {
    as_wrapped!(logic: data_type, nullable, return_field, fmt_sql);

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        let (left, right) = (self.logic().left(), self.logic().right());
        match self.way {
            Way::LeftFirst => self.evaluate_in_turn(rows, [left, right]),
            Way::RightFirst => self.evaluate_in_turn(rows, [right, left]),
            Way::Any => {
                let turned = |order| in_turn(&self.logic, order)?.evaluate(rows);
                let plain = self.logic.evaluate(rows).or_else(|_| turned(Order::AsWritten));
                plain.or_else(|_| turned(Order::SmallerFirst))
            }
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.logic.children()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let logic = Arc::clone(&self.logic).with_new_children(children)?;
        Ok(Arc::new(Self { logic, way: self.way }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int32Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, lit};

    /// `left operator 10 / b = 5`, over `b` = 0, 1, 2, NULL.
    fn answers(
        left: &dyn Fn(&Schema) -> Arc<dyn PhysicalExpr>,
        operator: Operator,
    ) -> Result<Vec<Option<bool>>> {
        let schema = Arc::new(Schema::new(vec![Field::new("b", DataType::Int32, true)]));
        let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(0), Some(1), Some(2), None]));
        let rows = RecordBatch::try_new(Arc::clone(&schema), vec![column])?;
        let quotient = binary(lit(10_i32), Operator::Divide, col("b", &schema)?, &schema)?;
        let right = binary(quotient, Operator::Eq, lit(5_i32), &schema)?;
        let condition = guarded(binary(left(&schema), operator, right, &schema)?);
        let answers = condition.evaluate(&rows)?.into_array(4)?;
        Ok(as_boolean_array(&answers)?.iter().collect())
    }

    fn compared(operator: Operator, number: i32) -> impl Fn(&Schema) -> Arc<dyn PhysicalExpr> {
        move |schema| {
            let column = col("b", schema).expect("there is the column");
            binary(column, operator, lit(number), schema).expect("types are the same")
        }
    }

    #[test]
    fn the_right_side_is_asked_where_the_left_one_leaves_the_answer_open() {
        let guarded = answers(&compared(Operator::NotEq, 0), Operator::And).expect("no zero is divided by");
        assert_eq!(guarded, [Some(false), Some(false), Some(true), None]);
        let guarded = answers(&compared(Operator::Eq, 0), Operator::Or).expect("no zero is divided by");
        assert_eq!(guarded, [Some(true), Some(false), Some(true), None]);
    }

    #[test]
    fn what_is_open_and_fails_is_an_error() {
        assert!(answers(&compared(Operator::Lt, 1), Operator::And).is_err());
        assert!(answers(&compared(Operator::Gt, 0), Operator::Or).is_err());
        // NULL leaves it open, too.
        let unknown = |_: &Schema| lit(datafusion::common::ScalarValue::Boolean(None));
        assert!(answers(&unknown, Operator::And).is_err());
        assert!(answers(&unknown, Operator::Or).is_err());
    }

    /// Would each side try both orders by itself, this would take three times as long with each of them.
    #[test]
    fn an_error_among_many_sides_is_soon_there() {
        let schema = Schema::new(vec![Field::new("b", DataType::Int32, true)]);
        let many = |schema: &Schema| {
            let side = |number: i32, so_far| {
                let operator = if number % 2 == 0 { Operator::And } else { Operator::Or };
                let open = if number % 2 == 0 { Operator::Gt } else { Operator::Lt };
                binary(so_far, operator, compared(open, -1)(schema), schema).expect("both are conditions")
            };
            let quotient = binary(lit(10_i32), Operator::Divide, lit(0_i32), schema).expect("of numbers");
            let failing = binary(quotient, Operator::Eq, lit(5_i32), schema).expect("of numbers");
            (0..60).fold(failing, |so_far, number| side(number, so_far))
        };
        assert_eq!(size(&many(&schema)), 5 + 60 * 4);
        assert!(answers(&many, Operator::And).is_err());
    }

    #[test]
    fn sides_below_other_parts_guard_each_other_too() {
        let negated = |schema: &Schema| {
            let quotient = binary(lit(10_i32), Operator::Divide, col("b", schema)?, schema)?;
            let above = binary(quotient, Operator::Gt, lit(5_i32), schema)?;
            let either = binary(compared(Operator::Eq, 0)(schema), Operator::Or, above, schema)?;
            datafusion::physical_expr::expressions::not(either)
        };
        let negated = |schema: &Schema| negated(schema).expect("its parts are conditions");
        let guarded = answers(&negated, Operator::And).expect("no zero is divided by");
        assert_eq!(guarded, [Some(false), Some(false), Some(true), None]);
    }

    /// Each level took a part of the stack.
    #[test]
    fn an_expression_is_looked_at_however_deep_it_is() {
        const LEVELS: usize = 100_000;
        let plain: Arc<dyn PhysicalExpr> = lit(true);
        let deep = (0..LEVELS).fold(plain, |inner, _| Arc::new(NotExpr::new(inner)) as _);
        assert_eq!(size(&deep), LEVELS + 1);
        assert!(!can_fail(&deep));
        // To drop it would take the stack that looking does not.
        std::mem::forget(deep);
    }

    #[test]
    fn what_cannot_fail_is_left_as_it_is() {
        let schema = Schema::new(vec![Field::new("b", DataType::Int32, true)]);
        let plain = compared(Operator::Gt, 1)(&schema);
        let both = binary(Arc::clone(&plain), Operator::And, plain, &schema).expect("both are conditions");
        assert!(changed(&both).expect("it can be looked at").is_none());
    }
}
