// SPDX-License-Identifier: Apache-2.0
//! Whether syntax holds a subquery or calls what gives something else each time, and how deep subqueries are in each other.

use super::dependencies::subquery_of;
use crate::error::{SqlError, SqlState};
use crate::walk::{any_expression, any_query};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, ObjectNamePart, Query, Visit};

/// Whether there is a query anywhere in it: then it needs the database.
pub(crate) fn has_subquery<V: Visit>(syntax: &V) -> bool {
    any_query(syntax, |_| true)
}

/// Functions that give something else each time.
const VOLATILE: [&str; 8] = [
    "clock_timestamp",
    "gen_random_uuid",
    "nextval",
    "random",
    "setval",
    "timeofday",
    "uuid_generate_v4",
    "uuidv4",
];

/// Whether a query calls a function that gives something else each time.
pub(crate) fn calls_volatile(query: &Query) -> bool {
    any_expression(query, |expression| {
        let Expr::Function(function) = expression else { return false };
        let name = function.name.0.last().and_then(ObjectNamePart::as_ident);
        name.is_some_and(|name| VOLATILE.contains(&crate::names::fold(name).as_str()))
    })
}

/// Most subqueries within each other in expressions. What DataFusion checks of a plan it checks of each subquery and once more of
/// all within it, which doubles with each level; tables in FROM are no such level.
const SUBQUERY_DEPTH_MAX: usize = 14;

/// Refuses a plan whose subqueries are too deep in each other, whatever views they come from.
///
/// # Errors
/// `54001`.
pub(super) fn refuse_deep_subqueries(plan: &LogicalPlan) -> Result<()> {
    refuse_deeper(plan, SUBQUERY_DEPTH_MAX)
}

/// Costs a walk over the plan: each subquery is gone into once.
fn refuse_deeper(plan: &LogicalPlan, levels: usize) -> Result<()> {
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                match (subquery_of(part), levels.checked_sub(1)) {
                    (Some(inner), Some(levels)) => refuse_deeper(inner, levels)?,
                    (Some(_), None) => return Err(too_deep().into()),
                    (None, _) => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map(|_| ())
}

fn too_deep() -> SqlError {
    let hint = format!(
        "At most {SUBQUERY_DEPTH_MAX} may be within each other in expressions. Put inner ones into FROM, or name them by WITH."
    );
    SqlError::new(SqlState::StatementTooComplex, "subqueries are nested too deeply").with_hint(hint)
}
