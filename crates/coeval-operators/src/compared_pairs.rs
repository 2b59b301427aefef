// SPDX-License-Identifier: Apache-2.0
//! What a join asks of pairs of rows beside their keys, compared by loops.
//!
//! A join makes a batch of the columns of pairs that its condition looks at, and has the condition evaluated as one expression: an array
//! for each comparison, of all pairs. A condition like that of TPC-H's query 19, three groups of conditions of which one has to hold, is two dozen
//! arrays. Of the parts that have to hold together those that are comparisons become one expression here, which is evaluated by the loops of
//! [`predicate`](crate::predicate), and comes first: comparisons do not fail, so they may guard the rest, of which DataFusion evaluates
//! no more than what is left, if that is little.
//!
//! A join takes NULL for false, as the loops do. A condition of which a part is volatile stays as it is.

use crate::join_filter::with_changed_filter;
use crate::predicate::{Predicate, operands};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::once;
use std::sync::{Arc, OnceLock};

#[cfg(test)]
mod tests;

/// The plan with the expression in the conditions of all joins that compare columns.
///
/// # Errors
///
/// Those of making the joins.
pub fn with_compared_pairs(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let compared = plan.transform_up(|node| {
        let join = with_changed_filter(node.as_ref(), |filter| Ok(compared(filter)))?;
        Ok(join.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(compared.data)
}

/// The filter with its comparisons first; `None` if it has none.
fn compared(filter: &JoinFilter) -> Option<JoinFilter> {
    let condition = filter.expression();
    if is_volatile(condition) {
        return None;
    }
    let parts = operands(condition, Operator::And).into_iter().cloned();
    let (compared, rest): (Vec<_>, Vec<_>) =
        parts.partition(|part| Predicate::of(part, filter.schema()).is_some());
    if compared.is_empty() {
        return None;
    }
    let compared: Arc<dyn PhysicalExpr> = Arc::new(ComparedCondition::new(conjunction(compared)));
    let condition = conjunction(once(compared).chain(rest));
    Some(JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema())))
}

/// A condition that is evaluated by loops, and false where it would be NULL.
#[derive(Debug)]
struct ComparedCondition {
    /// What it stands for.
    plain: Arc<dyn PhysicalExpr>,
    /// The columns that it looks at. Nobody else is to look further into it: what others put into it could not be read.
    columns: Vec<Arc<dyn PhysicalExpr>>,
    /// The condition for rows as they come, once they do.
    predicate: OnceLock<Option<Predicate>>,
}

impl ComparedCondition {
    fn new(plain: Arc<dyn PhysicalExpr>) -> Self {
        let mut columns: Vec<Column> = collect_columns(&plain).into_iter().collect();
        columns.sort_by_key(Column::index);
        let columns = columns.into_iter().map(|column| Arc::new(column) as Arc<dyn PhysicalExpr>).collect();
        Self { plain, columns, predicate: OnceLock::new() }
    }
}

// By hand: `derive` would move the plain expression out.
impl PartialEq for ComparedCondition {
    fn eq(&self, other: &Self) -> bool {
        self.plain.eq(&other.plain)
    }
}

impl Eq for ComparedCondition {}

impl Hash for ComparedCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.plain.hash(state);
    }
}

impl fmt::Display for ComparedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compared({})", self.plain)
    }
}

impl PhysicalExpr for ComparedCondition {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.plain.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.plain.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.plain.return_field(schema)
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        match self.predicate.get_or_init(|| Predicate::of(&self.plain, rows.schema_ref())) {
            Some(predicate) => {
                let passing = BooleanArray::new(predicate.passing(rows, None), None);
                Ok(ColumnarValue::Array(Arc::new(passing)))
            }
            None => self.plain.evaluate(rows),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.columns.iter().collect()
    }

    /// Of other columns, or of what stands in their places: then it is the plain expression.
    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let moved = |part: Arc<dyn PhysicalExpr>| {
            let place = self.columns.iter().position(|column| column.eq(&part));
            Ok(match place.and_then(|place| children.get(place)) {
                Some(child) => Transformed::new(Arc::clone(child), true, TreeNodeRecursion::Jump),
                None => Transformed::no(part),
            })
        };
        let plain = Arc::clone(&self.plain).transform_down(moved)?.data;
        let are_columns = children.iter().all(|child| child.is::<Column>());
        Ok(if are_columns { Arc::new(Self::new(plain)) } else { plain })
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt_sql(f)
    }
}
