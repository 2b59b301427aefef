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
//! itself or by what computes a column of it. Of quotients that may be beyond their types it is kept which columns they divide, and how far these
//! may reach ([`reach`](super::reach)). A limit holds all conditions up. An aggregate lets those through that ask for its groups alone, and
//! a window those that ask for columns of its input. Where a condition can go in parts, each part counts as the whole.

use super::reach::Reach;
use super::unfailing::{Doubt, doubt_of, doubtful_quotients};
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
    /// The quotients that may.
    quotients: BTreeSet<Quotient>,
}

/// A quotient of which it is in doubt whether it is within its type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Quotient {
    /// What the dividend is computed of.
    dividend: Places,
    /// What the divisor is computed of.
    divisor: Places,
    /// How far the one may reach before the point and the other behind it, both together.
    digits: i32,
}

impl Quotient {
    /// The same of what its columns are computed by; `None` if it is not known how far that reaches.
    fn of_values<'v>(
        &self,
        value_of: &impl Fn(usize) -> Option<&'v Expr>,
        schema: &DFSchema,
    ) -> Option<Self> {
        let values = |places: &Places| -> Vec<&'v Expr> {
            places.iter().filter_map(|place| value_of(*place)).collect()
        };
        let (dividend, divisor) = (values(&self.dividend), values(&self.divisor));
        let before = Reach::beyond_columns(dividend.iter().copied(), schema)?.before;
        let behind = Reach::beyond_columns(divisor.iter().copied(), schema)?.behind;
        let places = |values: Vec<&'v Expr>| -> Places {
            values.into_iter().flat_map(|value| named(value, schema)).collect()
        };
        Some(Self {
            dividend: places(dividend),
            divisor: places(divisor),
            digits: self.digits - before - behind,
        })
    }

    /// The same of other places.
    fn with_places(&self, change: &impl Fn(&Places) -> Places) -> Self {
        Self { dividend: change(&self.dividend), divisor: change(&self.divisor), digits: self.digits }
    }

    /// Whether it is within its type, for all that is known of how far columns reach.
    fn has_room(&self, reach: &impl Fn(&Places) -> Option<Reach>) -> bool {
        let (dividend, divisor) = (reach(&self.dividend), reach(&self.divisor));
        dividend
            .zip(divisor)
            .is_some_and(|(dividend, divisor)| dividend.before + divisor.behind <= self.digits)
    }
}

impl Condition {
    fn of(expression: &Expr, schema: &DFSchema) -> Self {
        let places = named(expression, schema);
        let doubt = doubt_of(expression, schema);
        if doubt != Doubt::Quotients {
            return Self::of_places(places, doubt);
        }
        let Ok(found) = doubtful_quotients(expression, schema) else {
            return Self::of_places(places, Doubt::Values);
        };
        let quotients = found.into_iter().map(|quotient| Quotient {
            dividend: named(quotient.dividend, schema),
            divisor: named(quotient.divisor, schema),
            digits: quotient.digits,
        });
        Self { places, doubt, quotients: quotients.collect() }
    }

    /// One of which no more is known.
    const fn of_places(places: Places, doubt: Doubt) -> Self {
        Self { places, doubt, quotients: BTreeSet::new() }
    }

    /// The same of what its columns are computed by, of columns of this schema. What nothing is known of is left out.
    fn of_values<'v>(&self, value_of: &impl Fn(usize) -> Option<&'v Expr>, schema: &DFSchema) -> Self {
        let mut condition = Self::of_places(Places::new(), self.doubt);
        for quotient in &self.quotients {
            match quotient.of_values(value_of, schema) {
                Some(quotient) => {
                    condition.quotients.insert(quotient);
                }
                None => condition.doubt = Doubt::Values,
            }
        }
        for value in self.places.iter().filter_map(|place| value_of(*place)) {
            let value = Self::of(value, schema);
            condition.places.extend(value.places);
            condition.quotients.extend(value.quotients);
            condition.doubt = condition.doubt.max(value.doubt);
        }
        condition
    }

    /// The same where columns are elsewhere. Those that are nowhere are left out.
    fn moved(&self, to: &impl Fn(usize) -> Option<usize>) -> Self {
        self.with_places(&|places: &Places| places.iter().filter_map(|place| to(*place)).collect())
    }

    /// The same, which may be asked of equal columns too.
    fn with_equal(&self, equal: &[(usize, usize)]) -> Self {
        self.with_places(&|places: &Places| with_equal(places.clone(), equal))
    }

    /// The same of other places.
    fn with_places(&self, change: &impl Fn(&Places) -> Places) -> Self {
        Self {
            places: change(&self.places),
            doubt: self.doubt,
            quotients: self.quotients.iter().map(|quotient| quotient.with_places(change)).collect(),
        }
    }

    /// Whether it may fail where these are the columns, which an aggregate makes of others of this schema.
    fn may_fail_of<'v>(&self, result: &impl Fn(usize) -> Option<&'v Expr>, schema: &DFSchema) -> bool {
        let reach =
            |places: &Places| Reach::of_results(places.iter().filter_map(|place| result(*place)), schema);
        let has_means = || reach(&self.places).is_some_and(Reach::has_means);
        match self.doubt {
            Doubt::Nothing => false,
            Doubt::Means => !has_means(),
            Doubt::Quotients => {
                !has_means() || !self.quotients.iter().all(|quotient| quotient.has_room(&reach))
            }
            Doubt::Values => true,
        }
    }
}

/// These places, and those of columns that are equal to theirs.
fn with_equal(mut places: Places, equal: &[(usize, usize)]) -> Places {
    loop {
        let before = places.len();
        for (one, other) in equal {
            if places.contains(one) {
                places.insert(*other);
            } else if places.contains(other) {
                places.insert(*one);
            }
        }
        if places.len() == before {
            return places;
        }
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions(BTreeSet<Condition>);

impl Conditions {
    /// Those of whoever compares the rows of a query with something.
    pub(super) fn comparing(query: &LogicalPlan) -> Self {
        Self::of([Condition::of_places(all_places(query), Doubt::Nothing)])
    }

    /// Whether one that might fail asks for what an aggregate, which they are above, makes of its groups. One that asks for nothing but
    /// what is grouped by is asked of rows in any case.
    ///
    /// # Errors
    /// If the aggregate's grouping sets are malformed: a bug.
    pub(super) fn may_fail_of(&self, aggregate: &Aggregate) -> Result<bool> {
        let groups = grouping_set_to_exprlist(&aggregate.group_expr)?;
        let result = |place: usize| match groups.get(place) {
            Some(group) => Some(*group),
            None => aggregate.aggr_expr.get(place - groups.len()),
        };
        let may_fail = |condition: &Condition| {
            condition.places.iter().any(|place| *place >= groups.len())
                && condition.may_fail_of(&result, aggregate.input.schema())
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
                    true => Self::of([Condition::of_places(all_places(input), Doubt::Values)]),
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
                    all.0.insert(Condition::of_places(places, Doubt::Values));
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
