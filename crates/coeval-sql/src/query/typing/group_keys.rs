// SPDX-License-Identifier: Apache-2.0
//! Values that are equal though they are kept differently: documents (`1` and `1.0`), intervals (`1 mon` and `30 days`), numbers of
//! any number of digits (`1.0` and `1.00`), and rows of such values.
//!
//! What finds equal rows goes by a key of such a value: GROUP BY, DISTINCT, UNION, INTERSECT, EXCEPT, PARTITION BY and
//! `count(DISTINCT x)`. Of a group the first value is shown.
//!
//! ```text
//! Aggregate [j] [count(*)]  ->  Projection [first AS j, count(*)]
//!                                 Aggregate [key(j)] [count(*), coeval_any(j) AS first]
//! ```
//!
//! Columns that follow from others of the groups, as all of a table from its primary key, need none: DataFusion groups by them
//! only if they are shown. Beside keys it would keep them all, so there they are first values.
//!
//! GROUPING SETS, ROLLUP and CUBE go by what is kept, but for such numbers.

use super::any_of_group::any_of_group;
use super::exact_types::is_any_numeric;
use super::intervals::length;
use super::{any_numeric, array_keys, jsonb};
use crate::error::SqlError;
use arrow::datatypes::{DataType, Fields};
use coeval_store::EnumType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, get_required_group_by_exprs_indices};
use datafusion::functions::core::expr_fn::{get_field, r#struct};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, lit,
    when,
};
use std::sync::Arc;

/// How the names of the first values of groups begin, and of keys beside values: no names of a user's.
const FIRST: &str = "\u{1}first ";
const KEY: &str = "\u{1}key ";

/// What is compared in the place of a value; `None` if that is the value.
fn key_of(value: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let plain = || value.clone().unalias();
    if jsonb::is_jsonb(value, schema) {
        return Ok(Some(jsonb::ordered(plain())?));
    }
    Ok(match value.get_type(schema) {
        Ok(DataType::Interval(_)) => Some(length(plain())),
        Ok(ty) if is_any_numeric(&ty) => any_numeric::key(plain())?,
        Ok(ty) if EnumType::of_arrow(&ty).is_some() => None,
        Ok(DataType::Struct(fields)) => key_of_row(&plain(), &fields, schema)?,
        _ => None,
    })
}

/// The row of the keys of a row's values; `None` if none of them has one.
fn key_of_row(row: &Expr, fields: &Fields, schema: &DFSchema) -> Result<Option<Expr>> {
    let written = match row {
        Expr::ScalarFunction(call) if matches!(call.name(), "struct" | "row") => Some(&call.args),
        _ => None,
    };
    let read = || fields.iter().map(|field| get_field(row.clone(), field.name().as_str())).collect();
    let values: Vec<Expr> = written.cloned().unwrap_or_else(read);
    let keys = values.iter().map(|value| key_of_any(value, schema)).collect::<Result<Vec<_>>>()?;
    if keys.iter().all(Option::is_none) {
        return Ok(None);
    }
    let keyed = r#struct(keys.into_iter().zip(values).map(|(key, value)| key.unwrap_or(value)).collect());
    if written.is_some() {
        return Ok(Some(keyed));
    }
    // Of no row nothing is read, which is no row of NULLs.
    when(row.clone().is_not_null(), keyed).end().map(Some)
}

/// The keys of values; `None` if no value has one.
fn keys_of(values: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Option<Expr>>>> {
    let keys = values.iter().map(|value| key_of(value, schema)).collect::<Result<Vec<_>>>()?;
    Ok(keys.iter().any(Option::is_some).then_some(keys))
}

/// [`key_of`] where DataFusion takes `-0` and `0` for two floats, which it does not in GROUP BY.
pub(super) fn key_of_any(value: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    Ok(match value.get_type(schema) {
        Ok(DataType::Float64) => Some(value.clone() + lit(0.0_f64)),
        Ok(DataType::Float32) => Some(value.clone() + lit(0.0_f32)),
        _ => key_of(value, schema)?,
    })
}

/// A plan that finds groups or different rows, by keys.
pub(super) fn settle(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => settle_groups(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) => settle_different_rows(input),
        LogicalPlan::Distinct(Distinct::On(first_rows)) => settle_first_rows(first_rows),
        plan => Ok(Transformed::no(plan)),
    }
}

/// Groups by sets of columns, of which those of `numeric` without digits lose the zeros at their ends before: there is no first value of
/// a group that is a total.
///
/// # Errors
/// `0A000` for such a number that is computed.
fn with_shortest_in_sets(aggregate: Aggregate) -> Result<Transformed<Aggregate>> {
    let schema = Arc::clone(aggregate.input.schema());
    let sets = aggregate.group_expr.iter().filter_map(|group| match group {
        Expr::GroupingSet(set) => Some(set.distinct_expr()),
        _ => None,
    });
    let is_number = |value: &&Expr| value.get_type(&schema).is_ok_and(|ty| is_any_numeric(&ty));
    let numbers: Vec<Expr> = sets.flatten().filter(is_number).cloned().collect();
    if numbers.is_empty() {
        return Ok(Transformed::no(aggregate));
    }
    if !numbers.iter().all(|number| matches!(number, Expr::Column(_))) {
        let what = "GROUPING SETS, ROLLUP and CUBE by a computed numeric without digits";
        return Err(SqlError::unsupported(what)
            .with_hint("Compute it in a subquery, and group by its column.")
            .into());
    }
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        if !numbers.contains(&column) {
            return Ok(column);
        }
        let number = any_numeric::shortest(column)?;
        Ok(number.alias_qualified(qualifier.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
    let input = LogicalPlan::Projection(Projection::try_new(columns, aggregate.input)?);
    Aggregate::try_new(Arc::new(input), aggregate.group_expr, aggregate.aggr_expr).map(Transformed::yes)
}

fn settle_groups(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let Transformed { data: aggregate, transformed: is_changed, .. } = with_shortest_in_sets(aggregate)?;
    let as_it_is = |aggregate| Transformed::new_transformed(LogicalPlan::Aggregate(aggregate), is_changed);
    let Some(keys) = keys_of(&aggregate.group_expr, aggregate.input.schema())? else {
        return Ok(as_it_is(aggregate));
    };
    let needed = needed_groups(&aggregate);
    let mut ways: Vec<Way> = keys.into_iter().map(Way::of).collect();
    for (place, way) in ways.iter_mut().enumerate() {
        if !needed.contains(&place) {
            *way = Way::FollowsFromOthers;
        }
    }
    if !ways.iter().any(|way| matches!(way, Way::ByKey(_))) {
        return Ok(as_it_is(aggregate));
    }
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
    let values = group_expr.into_iter().zip(ways).collect();
    Ok(Transformed::yes(grouped(input, values, aggr_expr, &schema)?))
}

/// The places of the values that the others of the groups follow from.
pub(super) fn needed_groups(aggregate: &Aggregate) -> Vec<usize> {
    let schema = aggregate.input.schema();
    let fields = schema.field_names();
    let names = aggregate.group_expr.iter().map(|value| value.schema_name().to_string()).enumerate();
    let (columns, others): (Vec<_>, Vec<_>) = names.partition(|(_, name)| fields.contains(name));
    let (places, names): (Vec<usize>, Vec<String>) = columns.into_iter().unzip();
    let needed = match get_required_group_by_exprs_indices(schema, &names) {
        Some(needed) => needed.into_iter().map(|column| places[column]).collect(),
        None => places,
    };
    needed.into_iter().chain(others.into_iter().map(|(place, _)| place)).collect()
}

/// DISTINCT of all columns, kept as such a node: INTERSECT and EXCEPT with ALL are recognized by it.
fn settle_different_rows(input: Arc<LogicalPlan>) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    let Some(keys) = keys_of(&columns, &schema)? else {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
    };
    let values = columns.into_iter().zip(keys.into_iter().map(Way::of)).collect();
    let different = grouped(input, values, Vec::new(), &schema)?;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::All(Arc::new(different)))))
}

/// The order goes by keys even if the rows are told apart without: the first ones are chosen by it. The values of ON are the
/// first ones of the order, with what an array's place of NULL has become.
fn settle_first_rows(first_rows: DistinctOn) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(first_rows.input.schema());
    let keyed =
        |value: &Expr| -> Result<Expr> { Ok(key_of(value, &schema)?.unwrap_or_else(|| value.clone())) };
    let mut on = first_rows.on_expr.iter().map(keyed).collect::<Result<Vec<_>>>()?;
    let mut order = first_rows.sort_expr.clone();
    if let Some(order) = &mut order {
        for sort in order.iter_mut() {
            sort.expr = keyed(&sort.expr)?;
        }
        let mut rest = order.split_off(on.len().min(order.len()));
        if array_keys::settle_keys(order, &schema) {
            on = order.iter().map(|sort| sort.expr.clone()).collect();
        }
        array_keys::settle_keys(&mut rest, &schema);
        order.append(&mut rest);
    }
    if on == first_rows.on_expr && order == first_rows.sort_expr {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(first_rows))));
    }
    let first_rows = DistinctOn::try_new(on, first_rows.select_expr, order, first_rows.input)?;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(first_rows))))
}

/// How a value takes part in telling groups apart.
enum Way {
    ByValue,
    ByKey(Expr),
    FollowsFromOthers,
}

impl Way {
    fn of(key: Option<Expr>) -> Self {
        key.map_or(Self::ByValue, Self::ByKey)
    }
}

/// Groups by the keys of values, or the values themselves, with the columns of this schema.
fn grouped(
    input: Arc<LogicalPlan>,
    values: Vec<(Expr, Way)>,
    mut aggregates: Vec<Expr>,
    schema: &DFSchema,
) -> Result<LogicalPlan> {
    let mut groups = Vec::with_capacity(values.len());
    let mut shown: Vec<Expr> =
        schema.iter().map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field)))).collect();
    for (place, (value, way)) in values.into_iter().enumerate() {
        match way {
            Way::ByValue => {
                groups.push(value);
                continue;
            }
            Way::ByKey(key) => groups.push(key),
            Way::FollowsFromOthers => {}
        }
        let name = format!("{FIRST}{place}");
        let (qualifier, field) = schema.qualified_field(place);
        shown[place] =
            Expr::Column(Column::from_name(&name)).alias_qualified(qualifier.cloned(), field.name());
        aggregates.push(any_of_group(value).alias(name));
    }
    let groups = LogicalPlan::Aggregate(Aggregate::try_new(input, groups, aggregates)?);
    Ok(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(groups))?))
}

/// The columns of two plans that are compared by keys: those that have a key in both.
pub(super) fn keyed_columns(left: &LogicalPlan, right: &LogicalPlan) -> Result<Vec<usize>> {
    let keys = |plan: &LogicalPlan| -> Result<Vec<Option<Expr>>> {
        let columns = plan.schema().columns().into_iter().map(Expr::Column);
        columns.map(|column| key_of_any(&column, plan.schema())).collect()
    };
    let (left, right) = (keys(left)?, keys(right)?);
    let both = left.iter().zip(&right).enumerate();
    Ok(both.filter(|(_, (left, right))| left.is_some() && right.is_some()).map(|(place, _)| place).collect())
}

/// The plan with the keys of some columns beside them, and what its rows are compared by.
pub(super) fn with_keys(plan: Arc<LogicalPlan>, keyed: &[usize]) -> Result<(Arc<LogicalPlan>, Vec<Column>)> {
    let columns = plan.schema().columns();
    if keyed.is_empty() {
        return Ok((plan, columns));
    }
    let mut outputs: Vec<Expr> = columns.iter().cloned().map(Expr::Column).collect();
    let mut compared = columns;
    for &place in keyed {
        let name = format!("{KEY}{place}");
        if let Some(key) = key_of_any(&outputs[place], plan.schema())? {
            outputs.push(key.alias(&name));
            compared[place] = Column::from_name(name);
        }
    }
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(plan)).project(outputs)?.build()?;
    Ok((Arc::new(plan), compared))
}

/// A `count(DISTINCT x)` by keys; `None` if it is right as it is.
pub(super) fn settle_count(call: &AggregateFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    match call.params.args.as_slice() {
        [argument] if call.params.distinct && call.func.name() == "count" => key_of_any(argument, schema),
        _ => Ok(None),
    }
}

/// A window function that partitions by the keys of its values; `None` if it is right as it is.
pub(super) fn settle_window(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    let mut keyed = None;
    for (place, value) in call.params.partition_by.iter().enumerate() {
        if let Some(key) = key_of_any(value, schema)? {
            keyed.get_or_insert_with(|| call.clone()).params.partition_by[place] = key;
        }
    }
    Ok(keyed)
}
