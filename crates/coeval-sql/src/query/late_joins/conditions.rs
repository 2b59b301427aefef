// SPDX-License-Identifier: Apache-2.0
//! What conditions above a node of a plan ask of its rows.
//!
//! DataFusion puts conditions as far down as they can go: below queries that compute their columns, which are put in the places of these,
//! and to that side of a join that has all they ask for. Behind a late join that is the aggregate, whose groups are asked before those
//! without a partner are left out. Of one that might fail (`HAVING 100 / sum(x) > 1`) that would be an error that nobody would have seen.
//! Where the groups are found in two steps, the second is behind the join, and no condition on what it makes comes below it.
//!
//! So conditions are followed from the root of a plan down, to each place that they might come to in any pass of the optimizer: filters, what
//! joins compare, and what is equal to their columns by a join. Of each is kept which columns it asks for, and what may go wrong with it, by
//! itself or by what computes a column of it. A limit holds all of them up. An aggregate lets those through that ask for its groups alone,
//! and a window those that ask for columns of its input. Where a condition can go in parts, each part counts as the whole.

use super::unfailing::{Doubt, doubt_of, may_fail_of_results};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, Join, JoinType, LogicalPlan, Operator, Window,
};
use std::collections::BTreeSet;

/// Places of columns among those of a node.
type Places = BTreeSet<usize>;

/// One of them, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Condition {
    /// What it asks for.
    places: Places,
    /// What may go wrong where it is asked.
    doubt: Doubt,
}

impl Condition {
    fn of(expression: &Expr, schema: &DFSchema) -> Self {
        Self { places: named(expression, schema), doubt: doubt_of(expression, schema) }
    }

    /// The same of what its columns are computed by, of columns of this schema. What nothing is known of is left out.
    fn of_values<'v>(&self, value_of: &impl Fn(usize) -> Option<&'v Expr>, schema: &DFSchema) -> Self {
        let mut condition = Self { places: Places::new(), doubt: self.doubt };
        for value in self.places.iter().filter_map(|place| value_of(*place)) {
            let value = Self::of(value, schema);
            condition.places.extend(value.places);
            condition.doubt = condition.doubt.max(value.doubt);
        }
        condition
    }

    /// The same where columns are elsewhere. Those that are nowhere are left out.
    fn moved(&self, to: &impl Fn(usize) -> Option<usize>) -> Self {
        let places = self.places.iter().filter_map(|place| to(*place)).collect();
        Self { places, doubt: self.doubt }
    }

    /// The same, which may be asked of equal columns too.
    fn with_equal(mut self, equal: &[(usize, usize)]) -> Self {
        loop {
            let before = self.places.len();
            for (one, other) in equal {
                if self.places.contains(one) {
                    self.places.insert(*other);
                } else if self.places.contains(other) {
                    self.places.insert(*one);
                }
            }
            if self.places.len() == before {
                return self;
            }
        }
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions(BTreeSet<Condition>);

impl Conditions {
    /// Those of whoever compares the rows of a query with something.
    pub(super) fn comparing(query: &LogicalPlan) -> Self {
        Self::of([Condition { places: all_places(query), doubt: Doubt::Nothing }])
    }

    /// Whether one that might fail asks for what an aggregate, which they are above, makes of its groups. One that asks for nothing but
    /// what is grouped by is asked of rows in any case.
    ///
    /// # Errors
    /// If the aggregate's grouping sets are malformed: a bug.
    pub(super) fn may_fail_of(&self, aggregate: &Aggregate) -> Result<bool> {
        let groups = grouping_set_to_exprlist(&aggregate.group_expr)?.len();
        let may_fail = |condition: &Condition| {
            condition.places.iter().any(|place| *place >= groups)
                && may_fail_of_results(aggregate, condition.doubt)
        };
        Ok(self.0.iter().any(may_fail))
    }

    /// Those above each input of a node that these are above, with its own.
    ///
    /// # Errors
    /// If an aggregate's grouping sets are malformed: a bug.
    pub(super) fn below(&self, node: &LogicalPlan) -> Result<Vec<Self>> {
        Ok(match node {
            LogicalPlan::Projection(projection) => {
                vec![self.of_values(|place| projection.expr.get(place), projection.input.schema())]
            }
            LogicalPlan::Aggregate(aggregate) => {
                let groups = grouping_set_to_exprlist(&aggregate.group_expr)?;
                vec![self.of_values(|place| groups.get(place).copied(), aggregate.input.schema())]
            }
            LogicalPlan::Filter(filter) => {
                let mut below = self.clone();
                below.add(&filter.predicate, filter.input.schema());
                vec![below]
            }
            LogicalPlan::Window(Window { input, .. }) => {
                let width = input.schema().fields().len();
                vec![self.moved(|place| (place < width).then_some(place))]
            }
            LogicalPlan::Join(join) => self.below_join(join),
            LogicalPlan::Limit(_) => vec![Self::default()],
            LogicalPlan::Sort(sort) if sort.fetch.is_some() => vec![Self::default()],
            LogicalPlan::Sort(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => vec![self.clone(); node.inputs().len()],
            // Of other nodes it is not known where their columns come from, nor what those ask that are not DataFusion's.
            other => {
                let may_ask = !self.0.is_empty() || matches!(other, LogicalPlan::Extension(_));
                let of_input = |input: &LogicalPlan| match may_ask {
                    true => Self::of([Condition { places: all_places(input), doubt: Doubt::Values }]),
                    false => Self::default(),
                };
                other.inputs().into_iter().map(of_input).collect()
            }
        })
    }

    /// Those above the two sides of a join: what one side's columns are equal to is asked of the other side as well.
    fn below_join(&self, join: &Join) -> Vec<Self> {
        let (left, right) = (join.left.schema(), join.right.schema());
        let (width, right_width) = (left.fields().len(), right.fields().len());
        // Places of both sides from here on, those of the left one first. Whether there is a partner is a column of neither.
        let mut all = self.moved(|place| match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (place < width).then_some(place),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                (place < right_width).then_some(width + place)
            }
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => Some(place),
        });
        let mut equal = Vec::new();
        for (of_left, of_right) in &join.on {
            all.0.insert(Condition::of(of_left, left));
            all.0.insert(Condition::of(of_right, right).moved(&|place| Some(width + place)));
            if let (Expr::Column(one), Expr::Column(other)) = (of_left, of_right)
                && let Some(one) = left.maybe_index_of_column(one)
                && let Some(other) = right.maybe_index_of_column(other)
            {
                equal.push((one, width + other));
            }
        }
        if let Some(filter) = &join.filter {
            match left.join(right) {
                Ok(schema) => all.add(filter, &schema),
                Err(_) => {
                    let places = (0..width + right_width).collect();
                    all.0.insert(Condition { places, doubt: Doubt::Values });
                }
            }
        }
        let all = Self::of(all.0.into_iter().map(|condition| condition.with_equal(&equal)));
        vec![all.moved(|place| (place < width).then_some(place)), all.moved(|place| place.checked_sub(width))]
    }

    /// Adds a condition over columns of this schema, each part of a conjunction by itself.
    fn add(&mut self, condition: &Expr, schema: &DFSchema) {
        let mut waiting = vec![condition];
        while let Some(part) = waiting.pop() {
            match part {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                    waiting.push(left);
                    waiting.push(right);
                }
                part => {
                    self.0.insert(Condition::of(part, schema));
                }
            }
        }
    }

    /// Those that ask for something.
    fn of(conditions: impl IntoIterator<Item = Condition>) -> Self {
        Self(conditions.into_iter().filter(|condition| !condition.places.is_empty()).collect())
    }

    fn of_values<'v>(&self, value_of: impl Fn(usize) -> Option<&'v Expr>, schema: &DFSchema) -> Self {
        Self::of(self.0.iter().map(|condition| condition.of_values(&value_of, schema)))
    }

    fn moved(&self, to: impl Fn(usize) -> Option<usize>) -> Self {
        Self::of(self.0.iter().map(|condition| condition.moved(&to)))
    }
}

fn all_places(plan: &LogicalPlan) -> Places {
    (0..plan.schema().fields().len()).collect()
}

/// The columns that an expression names, among those of this schema. A subquery names more than can be seen.
fn named(expression: &Expr, schema: &DFSchema) -> Places {
    let names_more = |part: &Expr| match part {
        Expr::ScalarSubquery(query) => !query.outer_ref_columns.is_empty(),
        other => matches!(other, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)),
    };
    // Nothing in the visit fails.
    if expression.exists(|part| Ok(names_more(part))).unwrap_or(true) {
        return (0..schema.fields().len()).collect();
    }
    let columns = expression.column_refs().into_iter();
    columns.filter_map(|column| schema.maybe_index_of_column(column)).collect()
}
