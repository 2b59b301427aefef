// SPDX-License-Identifier: Apache-2.0
//! What is known of a query's outputs beside their types: the columns of tables that they are, and which are of types that only the
//! catalog has.

use crate::catalog::{column_oids, set_origin};
use crate::parameters::{are_object_ids, special_types};
use crate::provider::CoevalTable;
use crate::relations::CatalogType;
use crate::types::ParameterType;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Column;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};
use std::cell::Cell;
use std::sync::Arc;

/// How deep an output is followed.
const DEPTH_MAX: usize = 64;

/// How many expressions and plans are looked at for the type of one output: of queries within each other, each of which has a CASE of
/// columns of the one within it, a column is found by as many ways as there are combinations of branches.
const STEPS_MAX: usize = 10_000;

/// Functions that are called for what they do. What they give is a text of no letters, which clients are told of as `void`.
const VOID_FUNCTIONS: [&str; 9] = [
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_unlock_all",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_drop_replication_slot",
    "pg_sleep",
    "pg_wal_replay_pause",
    "pg_wal_replay_resume",
];

/// The shown columns, each with the column of a table that it is, if it is one, and with the type of a column of the
/// catalog.
pub(super) fn with_origins(columns: &SchemaRef, plan: &LogicalPlan) -> SchemaRef {
    let fields = columns.fields().iter().enumerate().map(|(place, field)| {
        // DataFusion keeps marks where the type has changed, and forgets them where it has not.
        let field = CatalogType::unmark(field.as_ref().clone());
        let field = match origin(plan, place, 0) {
            Some((table, column)) => set_origin(field, table, column),
            None => field,
        };
        match catalog_type(plan, place) {
            Some(ty) => ty.mark(field),
            None => field,
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Where an output comes from.
enum Source<'p> {
    /// An expression over the outputs of this plan.
    Expression(&'p Expr, &'p LogicalPlan),
    /// The output of another plan at a place.
    Below(&'p LogicalPlan, usize),
}

/// What the output of a plan at a place is made from, if that is one thing.
fn source(plan: &LogicalPlan, place: usize) -> Option<Source<'_>> {
    Some(match plan {
        LogicalPlan::Projection(projection) => {
            Source::Expression(projection.expr.get(place)?, &projection.input)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let groups = &aggregate.group_expr;
            if matches!(groups[..], [Expr::GroupingSet(_)]) {
                return None;
            }
            let aggregated = || aggregate.aggr_expr.get(place - groups.len());
            Source::Expression(groups.get(place).or_else(aggregated)?, &aggregate.input)
        }
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            Source::Expression(distinct.select_expr.get(place)?, &distinct.input)
        }
        LogicalPlan::SubqueryAlias(alias) => Source::Below(&alias.input, place),
        LogicalPlan::Filter(filter) => Source::Below(&filter.input, place),
        LogicalPlan::Sort(sort) => Source::Below(&sort.input, place),
        LogicalPlan::Limit(limit) => Source::Below(&limit.input, place),
        // Its own columns come after those of its input.
        LogicalPlan::Window(window) if place < window.input.schema().fields().len() => {
            Source::Below(&window.input, place)
        }
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            if join.schema.fields().len() != left + join.right.schema().fields().len() {
                return None;
            }
            if place < left {
                Source::Below(&join.left, place)
            } else {
                Source::Below(&join.right, place - left)
            }
        }
        _ => return None,
    })
}

/// The ids of table and column that the output at this place is.
fn origin(plan: &LogicalPlan, place: usize, depth: usize) -> Option<(i32, i16)> {
    if depth > DEPTH_MAX {
        return None;
    }
    if let LogicalPlan::TableScan(scan) = plan {
        let provider = source_as_provider(&scan.source).ok()?;
        let table = provider.downcast_ref::<CoevalTable>()?;
        let name = scan.projected_schema.field(place).name();
        return column_oids(table.def(), table.def().column_index(name)?);
    }
    match source(plan, place)? {
        Source::Below(plan, place) => origin(plan, place, depth + 1),
        Source::Expression(expression, input) => {
            let place = input.schema().maybe_index_of_column(plain_column(expression)?)?;
            origin(input, place, depth + 1)
        }
    }
}

/// The column that an expression is, whatever it is called.
fn plain_column(expression: &Expr) -> Option<&Column> {
    match expression {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => plain_column(&alias.expr),
        _ => None,
    }
}

/// The type of the output at this place, if only the catalog has it.
pub(super) fn catalog_type(plan: &LogicalPlan, place: usize) -> Option<CatalogType> {
    type_of_output(plan, place, Way::new(&Cell::new(STEPS_MAX)))
}

/// The way to what an output is made from.
#[derive(Clone, Copy)]
struct Way<'s> {
    depth: usize,
    steps_left: &'s Cell<usize>,
}

impl<'s> Way<'s> {
    fn new(steps_left: &'s Cell<usize>) -> Self {
        Self { depth: 0, steps_left }
    }

    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// One more step; `None` if it leads too far.
    fn step(self) -> Option<()> {
        self.steps_left.set(self.steps_left.get().checked_sub(1)?);
        (self.depth <= DEPTH_MAX).then_some(())
    }
}

fn type_of_output(plan: &LogicalPlan, place: usize, way: Way<'_>) -> Option<CatalogType> {
    way.step()?;
    match plan {
        LogicalPlan::TableScan(scan) => CatalogType::of_field(scan.projected_schema.field(place)),
        LogicalPlan::Distinct(Distinct::All(input)) => type_of_output(input, place, way.deeper()),
        LogicalPlan::RecursiveQuery(recursive) => type_of_output(&recursive.static_term, place, way.deeper()),
        LogicalPlan::Union(union) => {
            same(union.inputs.iter().map(|input| type_of_output(input, place, way.deeper())))
        }
        other => match source(other, place)? {
            Source::Below(plan, place) => type_of_output(plan, place, way.deeper()),
            Source::Expression(expression, input) => type_of(expression, input, way.deeper()),
        },
    }
}

/// The type of an expression over the outputs of a plan, if only the catalog has it.
fn type_of(expression: &Expr, input: &LogicalPlan, way: Way<'_>) -> Option<CatalogType> {
    match expression {
        Expr::Column(column) => type_of_output(input, input.schema().maybe_index_of_column(column)?, way),
        Expr::Alias(alias) => type_of(&alias.expr, input, way),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            let is_null =
                |result: &Expr| matches!(without_casts(result), Expr::Literal(scalar, _) if scalar.is_null());
            same(results.filter(|result| !is_null(result)).map(|result| type_of(result, input, way)))
        }
        Expr::ScalarSubquery(subquery) => type_of_output(&subquery.subquery, 0, way),
        Expr::AggregateFunction(function) => {
            let argument = type_of(function.params.args.first()?, input, way)?;
            match function.func.name() {
                "array_agg" => argument.array(),
                "min" | "max" => Some(argument),
                _ => None,
            }
        }
        Expr::ScalarFunction(function) => match function.name() {
            crate::json::PATH => Some(CatalogType::Path),
            "coeval_no_oids" => Some(CatalogType::ObjectIds),
            "coeval_array" => are_object_ids(&function.args).then_some(CatalogType::ObjectIds),
            "coeval_or_empty" | "coalesce" => type_of(function.args.first()?, input, way),
            "coeval_apply" => {
                let (_, field) = expression.to_field(input.schema()).ok()?;
                CatalogType::of_field(&field)
            }
            name => VOID_FUNCTIONS.contains(&name).then_some(CatalogType::Void),
        },
        _ => None,
    }
}

/// What all of them are.
fn same(mut types: impl Iterator<Item = Option<CatalogType>>) -> Option<CatalogType> {
    let first = types.next()??;
    types.all(|ty| ty == Some(first)).then_some(first)
}

/// For each parameter its type, if the query reads it as an array or compares it with object ids.
pub(super) fn special_parameters(plan: &LogicalPlan, count: usize) -> Vec<Option<ParameterType>> {
    special_types(plan, count, |expression, input| {
        let steps = Cell::new(STEPS_MAX);
        type_of(without_casts(expression), input, Way::new(&steps)) == Some(CatalogType::ObjectId)
    })
}

fn without_casts(expression: &Expr) -> &Expr {
    match expression {
        Expr::Cast(cast) => without_casts(&cast.expr),
        Expr::Alias(alias) => without_casts(&alias.expr),
        other => other,
    }
}
