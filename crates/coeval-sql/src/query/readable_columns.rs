// SPDX-License-Identifier: Apache-2.0
//! Refuses queries that use columns which may not be read.
//!
//! Who has SELECT on some columns of a table names the table like any other, and is refused what uses another of its columns. The
//! plan is looked at as the statement says it, before anything is optimized away, so that what counts is what PostgreSQL counts:
//! each column that an expression names, and no column for `count(*)`.
//!
//! A column that may not be read is barred. From the scan of its table it goes up through operators that hand rows on as they are:
//!
//! | operator | barred columns of its inputs |
//! |---|---|
//! | filter, sort, limit, alias, DISTINCT, window, join | are barred above it too |
//! | projection, aggregate, DISTINCT ON | end there: whatever they give is an expression; but of a view, whose plan ends with a projection that says which of its columns are barred |
//! | any other, and the end of a query or subquery | are refused |
//!
//! A table whose alias names columns, `t AS a (x, y)`, is projected under them, which uses none of its columns: they are barred above it, too.
//! In a plan that is no other than `(SELECT c AS x, d AS y FROM t) a`, so it is looked for in the query.
//!
//! An expression that names one is refused wherever it stands. What is not known to be allowed is refused: an operator that comes to
//! be used later refuses too much, and shows nothing.

use crate::names::fold;
use crate::provider::CoevalTable;
use crate::rights::{Kind, denied};
use crate::stack::with_room;
use crate::walk::Walk;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, TableScan};
use datafusion::sql::sqlparser::ast::{Query, TableFactor, Visitor};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A relation of which not all columns may be read.
#[derive(Clone)]
struct Owner {
    kind: Kind,
    name: Arc<str>,
}

/// For each output of a plan the relation whose column it is, if that may not be read.
type Barred = Vec<Option<Owner>>;

/// What a barred column of a view is marked with; the value is the view's name.
const BARRED: &str = "coeval.barred";

/// The plan of a view, all but these of whose columns are barred.
///
/// # Errors
/// If they cannot be projected: a bug.
pub(super) fn barring(plan: LogicalPlan, view: &str, readable: &[usize]) -> Result<LogicalPlan> {
    let mark = FieldMetadata::new(BTreeMap::from([(BARRED.to_owned(), view.to_owned())]));
    let columns = plan.schema().columns().into_iter().enumerate();
    let outputs: Vec<Expr> = columns
        .map(|(place, column)| {
            let name = column.name.clone();
            let is_barred = !readable.contains(&place);
            Expr::Column(column).alias_with_metadata(name, is_barred.then(|| mark.clone()))
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(outputs)?.build()
}

/// What expressions see.
struct Scope {
    schema: DFSchemaRef,
    barred: Barred,
}

/// The aliases of the tables of a query that name columns, with these names.
#[derive(Default)]
struct Renamed(HashSet<(String, Vec<String>)>);

impl Renamed {
    fn of(query: &Query) -> Self {
        let mut renamed = Self::default();
        // Nothing breaks off the walk.
        let _ = query.walk(&mut renamed);
        renamed
    }

    /// The plan of the table, if this one gives the columns of a table the names of its alias and does nothing else.
    fn table<'p>(&self, plan: &'p LogicalPlan) -> Option<&'p LogicalPlan> {
        let LogicalPlan::SubqueryAlias(alias) = plan else { return None };
        let LogicalPlan::Projection(projection) = alias.input.as_ref() else { return None };
        // What bars columns of a view is no such projection.
        let is_own = |(output, own): (&Expr, Column)| match output {
            Expr::Alias(alias) => alias.metadata.is_none() && *alias.expr == Expr::Column(own),
            output => *output == Expr::Column(own),
        };
        let own = projection.input.schema().columns();
        if own.len() != projection.expr.len() || !projection.expr.iter().zip(own).all(is_own) {
            return None;
        }
        let names = projection.schema.fields().iter().map(|field| field.name().clone()).collect();
        let is_known = self.0.contains(&(alias.alias.table().to_owned(), names));
        is_known.then_some(projection.input.as_ref())
    }
}

impl Visitor for Renamed {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { alias: Some(alias), .. } = factor
            && !alias.columns.is_empty()
        {
            let columns = alias.columns.iter().map(|column| fold(&column.name)).collect();
            self.0.insert((fold(&alias.name), columns));
        }
        ControlFlow::Continue(())
    }
}

/// Refuses the plan of a query that uses columns which may not be read.
///
/// # Errors
/// `42501`.
pub(super) fn check(plan: &LogicalPlan, query: &Query) -> Result<()> {
    refuse_all(&barred_of(plan, &Renamed::of(query), &mut Vec::new())?)
}

/// The barred outputs of a plan, whose outer references name what is around it.
fn barred_of(plan: &LogicalPlan, renamed: &Renamed, around: &mut Vec<Scope>) -> Result<Barred> {
    with_room(|| {
        if let Some(table) = renamed.table(plan) {
            return barred_of(table, renamed, around);
        }
        if let LogicalPlan::TableScan(scan) = plan {
            return Ok(barred_by_table(scan));
        }
        let outside = around.len();
        for input in plan.inputs() {
            // Of a join, the right side sees the left one if it is LATERAL.
            let barred = barred_of(input, renamed, around)?;
            around.push(Scope { schema: Arc::clone(input.schema()), barred });
        }
        refuse_expressions(plan, renamed, around, outside)?;
        let inputs = around.split_off(outside);
        handed_on(plan, inputs)
    })
}

/// The columns of a table that may not be read.
fn barred_by_table(scan: &TableScan) -> Barred {
    let provider = source_as_provider(&scan.source).ok();
    let table = provider.as_ref().and_then(|provider| provider.downcast_ref::<CoevalTable>());
    let barred = |name: &str| table.filter(|table| !table.is_readable(name));
    let fields = scan.projected_schema.fields().iter();
    let owner =
        |table: &CoevalTable| Owner { kind: Kind::Table, name: table.def().name.name.as_str().into() };
    fields.map(|field| barred(field.name()).map(owner)).collect()
}

/// Refuses barred columns in the expressions of one operator, and in their subqueries.
fn refuse_expressions(
    plan: &LogicalPlan,
    renamed: &Renamed,
    around: &mut Vec<Scope>,
    outside: usize,
) -> Result<()> {
    let (outer, inputs) = around.split_at(outside);
    plan.apply_expressions(|expression| {
        expression.apply(|part| {
            match part {
                Expr::Column(column) => refuse_column(column, inputs)?,
                Expr::OuterReferenceColumn(_, column) => refuse_column(column, outer)?,
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    plan.apply_subqueries(|subquery| {
        refuse_all(&barred_of(subquery, renamed, around)?)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Refuses a name that may be that of a barred column.
fn refuse_column(column: &Column, scopes: &[Scope]) -> Result<()> {
    let is_of = |qualifier: Option<&TableReference>| match (&column.relation, qualifier) {
        (Some(named), Some(qualifier)) => named.resolved_eq(qualifier),
        _ => true,
    };
    for scope in scopes {
        for ((qualifier, field), barred) in scope.schema.iter().zip(&scope.barred) {
            if let Some(owner) = barred
                && *field.name() == column.name
                && is_of(qualifier)
            {
                return Err(refused(owner));
            }
        }
    }
    Ok(())
}

/// The barred outputs of an operator over these inputs, whose expressions name none of them.
fn handed_on(plan: &LogicalPlan, inputs: Vec<Scope>) -> Result<Barred> {
    let width = plan.schema().fields().len();
    let barred: Barred = inputs.into_iter().flat_map(|input| input.barred).collect();
    match plan {
        LogicalPlan::Projection(projection) => Ok(projection.expr.iter().map(barred_by_view).collect()),
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(Distinct::On(_)) => Ok(vec![None; width]),
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(Distinct::All(_))
        | LogicalPlan::Join(_)
            if barred.len() == width =>
        {
            Ok(barred)
        }
        // Its own columns come behind those of its input.
        LogicalPlan::Window(_) if barred.len() <= width => {
            let mut barred = barred;
            barred.resize(width, None);
            Ok(barred)
        }
        _ => refuse_all(&barred).map(|()| vec![None; width]),
    }
}

/// The view that an output is a barred column of. Above the projection that says so its field has the mark, too, but not the expression.
fn barred_by_view(output: &Expr) -> Option<Owner> {
    let Expr::Alias(alias) = output else { return None };
    let name = alias.metadata.as_ref()?.inner().get(BARRED)?;
    Some(Owner { kind: Kind::View, name: name.as_str().into() })
}

/// Refuses barred columns.
fn refuse_all(barred: &[Option<Owner>]) -> Result<()> {
    match barred.iter().flatten().next() {
        Some(owner) => Err(refused(owner)),
        None => Ok(()),
    }
}

fn refused(owner: &Owner) -> DataFusionError {
    denied(owner.kind, &owner.name).into()
}
