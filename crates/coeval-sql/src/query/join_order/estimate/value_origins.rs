// SPDX-License-Identifier: Apache-2.0
//! How many values the fields of any plan have, and how many groups they make, by the columns of tables that they are made of.
//!
//! Wherever a subquery has a column from, through filters, joins and groups and under whatever name, it has no other values than those of
//! the column, and all of them unless the filters of its table leave some out. Of a union the parts that are of one column of a table mostly
//! have the same values, as the customers of shops and of the web; those of other columns, and constants, have their own. What is computed
//! is not looked into.
//!
//! Columns of one table mostly follow from each other: a customer's name and birthday from the customer's number. So they do not
//! make more groups together than the table has rows, and behind a column that has as many values nothing is asked of the others.

use super::{Table, named_values, scan_of};
use crate::query::typing::value_of_any;
use crate::stack::with_room;
use coeval_store::SpaceId;
use datafusion::common::{Column, JoinType};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, Join, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where values of a field are from.
#[derive(Clone, Copy, Debug)]
enum Origin<'p> {
    /// A field of a table, which may be under another name and filters.
    Field(&'p LogicalPlan, usize),
    /// Constants, at most so many.
    Constants(usize),
}

/// About how many values a field of a plan has; `None` if it is not known what they are.
pub(super) fn values_of(plan: &LogicalPlan, field: usize, config: &dyn OptimizerConfig) -> Option<f64> {
    values_from(&origins_of(plan, field)?, config)
}

/// About how many groups an aggregate or DISTINCT makes of any number of rows; `None` if it is not known what the groups are made of.
pub(super) fn groups_of(plan: &LogicalPlan, config: &dyn OptimizerConfig) -> Option<f64> {
    let values: Vec<Vec<Origin<'_>>> = match plan {
        LogicalPlan::Aggregate(aggregate) => origins_of_all(&aggregate.group_expr, &aggregate.input)?,
        LogicalPlan::Distinct(Distinct::On(first)) => origins_of_all(&first.on_expr, &first.input)?,
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let fields = 0..input.schema().fields().len();
            fields.map(|field| origins_of(input, field)).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let mut tables: Vec<GroupsOfTable<'_>> = Vec::new();
    let mut groups = 1.0;
    for origins in &values {
        let tables_of_value = origins.iter().filter_map(Origin::table);
        let Some(first) = tables_of_value.clone().next() else {
            groups *= values_from(origins, config)?.max(1.0);
            continue;
        };
        let known = tables.iter().position(|known| std::ptr::eq(known.table, first));
        let place = known.unwrap_or(tables.len());
        if known.is_none() {
            let mut rows = 0.0;
            for table in tables_of_value {
                rows += Table::of(table, config)?.rows_left(table, config);
            }
            tables.push(GroupsOfTable { table: first, rows, groups: 1.0 });
        }
        let of_table = &mut tables[place];
        if of_table.groups < of_table.rows {
            of_table.groups = (of_table.groups * values_from(origins, config)?).min(of_table.rows);
        }
    }
    Some(groups * tables.iter().map(|of_table| of_table.groups).product::<f64>())
}

/// The groups that fields of one table make.
struct GroupsOfTable<'p> {
    table: &'p LogicalPlan,
    /// Those that its filters leave; of a union those of all of its parts.
    rows: f64,
    groups: f64,
}

impl<'p> Origin<'p> {
    /// The table that has the field.
    fn table(&self) -> Option<&'p LogicalPlan> {
        match *self {
            Self::Field(table, _) => Some(table),
            Self::Constants(_) => None,
        }
    }
}

impl Table {
    /// Rows that the filters leave which are within the relation.
    fn rows_left(&self, plan: &LogicalPlan, config: &dyn OptimizerConfig) -> f64 {
        (self.summary.rows as f64 * self.share(plan, &[], config)).max(1.0)
    }

    /// About how many values a field has in these rows.
    fn values_left(&self, plan: &LogicalPlan, field: usize, config: &dyn OptimizerConfig) -> Option<f64> {
        let column = Column::new_unqualified(plan.schema().field(field).name());
        let values = named_values(plan, &[], &column).or_else(|| self.values_of(field))?;
        Some(values.min(self.rows_left(plan, config)))
    }
}

/// About how many values there are of all of these origins.
fn values_from(origins: &[Origin<'_>], config: &dyn OptimizerConfig) -> Option<f64> {
    let mut of_columns: BTreeMap<(SpaceId, usize), f64> = BTreeMap::new();
    let mut constants = 0.0;
    for origin in origins {
        match *origin {
            Origin::Constants(count) => constants += count as f64,
            Origin::Field(plan, field) => {
                let table = Table::of(plan, config)?;
                let values = table.values_left(plan, field, config)?;
                let most = of_columns.entry((table.view.def().id, table.columns[field])).or_insert(0.0);
                *most = most.max(values);
            }
        }
    }
    Some(constants + of_columns.into_values().sum::<f64>())
}

/// The origins of each of these values over a plan.
fn origins_of_all<'p>(values: &'p [Expr], input: &'p LogicalPlan) -> Option<Vec<Vec<Origin<'p>>>> {
    values.iter().map(|value| origins_of_value(value, input)).collect()
}

/// The origins of a value over a plan.
fn origins_of_value<'p>(value: &'p Expr, input: &'p LogicalPlan) -> Option<Vec<Origin<'p>>> {
    match value {
        Expr::Column(column) => origins_of(input, input.schema().maybe_index_of_column(column)?),
        Expr::Alias(alias) => origins_of_value(&alias.expr, input),
        Expr::Cast(cast) => origins_of_value(&cast.expr, input),
        Expr::Literal(..) => Some(vec![Origin::Constants(1)]),
        _ => None,
    }
}

/// The origins of a field of a plan: several of a union, none of what has no rows.
fn origins_of(plan: &LogicalPlan, field: usize) -> Option<Vec<Origin<'_>>> {
    if scan_of(plan).is_some() {
        return Some(vec![Origin::Field(plan, field)]);
    }
    let (input, field) = match plan {
        LogicalPlan::SubqueryAlias(alias) => (&alias.input, field),
        LogicalPlan::Filter(filter) => (&filter.input, field),
        LogicalPlan::Sort(sort) => (&sort.input, field),
        LogicalPlan::Limit(limit) => (&limit.input, field),
        LogicalPlan::Repartition(divided) => (&divided.input, field),
        LogicalPlan::Distinct(Distinct::All(input)) => (input, field),
        LogicalPlan::Window(window) => {
            let is_below = field < window.input.schema().fields().len();
            (is_below.then_some(&window.input)?, field)
        }
        LogicalPlan::Join(join) => field_of_side(join, field)?,
        LogicalPlan::Distinct(Distinct::On(first)) => {
            return origins_of_value(first.select_expr.get(field)?, &first.input);
        }
        LogicalPlan::Projection(selected) => {
            return with_room(|| origins_of_value(selected.expr.get(field)?, &selected.input));
        }
        LogicalPlan::Aggregate(aggregate) => {
            let value = value_of_groups(aggregate, field)?;
            return with_room(|| origins_of_value(value, &aggregate.input));
        }
        LogicalPlan::Union(union) => {
            let parts = union.inputs.iter().map(|input| with_room(|| origins_of(input, field)));
            return Some(parts.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect());
        }
        LogicalPlan::Values(values) => return Some(vec![Origin::Constants(values.values.len())]),
        LogicalPlan::EmptyRelation(_) => return Some(Vec::new()),
        _ => return None,
    };
    with_room(|| origins_of(input, field))
}

/// What an aggregate groups by, or shows of a group all of whose rows have the same, in this field.
fn value_of_groups(aggregate: &Aggregate, field: usize) -> Option<&Expr> {
    if matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]) {
        return None;
    }
    match field.checked_sub(aggregate.group_expr.len()) {
        None => aggregate.group_expr.get(field),
        Some(place) => value_of_any(aggregate.aggr_expr.get(place)?),
    }
}

/// The side of a join that a field is of, and its place there.
fn field_of_side(join: &Join, field: usize) -> Option<(&Arc<LogicalPlan>, usize)> {
    let [left, right] = [&join.left, &join.right].map(|side| side.schema().fields().len());
    match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            (field < left).then_some((&join.left, field))
        }
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            (field < right).then_some((&join.right, field))
        }
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            Some(if field < left { (&join.left, field) } else { (&join.right, field - left) })
        }
    }
}

#[cfg(test)]
mod tests;
