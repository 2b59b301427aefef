// SPDX-License-Identifier: Apache-2.0
//! Constants that are about to become a column: their copies are counted first.
//!
//! `SELECT string_to_array(repeat('a,', 100000), ',') FROM t` makes one array, and DataFusion copies it for each row of a
//! batch, gigabytes at once, before anybody sees a batch. The same goes for a constant beside a column in a function that
//! takes columns only. So this rule puts a function round such a constant that gives it as it is, and asks
//! before that for the memory of as many copies as there are rows.
//!
//! It comes where expressions are as they will run, so here `||` becomes the function that asks, too
//! (`query/concatenation.rs`), LIKE the one that looks (`query/likes.rs`), and aggregates over windows become those that look and ask (`query/windowed.rs`).
//!
//! Where a constant stays one value (`=`, `LIKE`, a function that reads it row by row) it is left alone.

use super::concatenation::counted_concatenations;
use super::matching::heeding_matches;
use super::rewriting::has_concern;
use super::windowed::windowed;
use crate::allowance::Meter;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Case, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TableScan, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Smaller literals are not counted: a batch of copies is some megabytes.
const LITERAL_BYTES_MIN: usize = 4 << 10;

/// Functions of DataFusion that make a column of each constant that stands beside a column.
const SPREADS: [&str; 29] = [
    "array_append",
    "array_concat",
    "array_distance",
    "array_except",
    "array_intersect",
    "array_prepend",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_union",
    "btrim",
    "coalesce",
    "concat",
    "concat_ws",
    "greatest",
    "least",
    "left",
    "ltrim",
    "make_array",
    "named_struct",
    "right",
    "rtrim",
    "strpos",
    "struct",
    "substr",
    "translate",
];

/// The name of the function that counts.
pub(super) const COUNTED: &str = "coeval_counted";

/// The rule. To come last: what other rules look for in an expression is hidden behind the function.
#[derive(Debug)]
pub(crate) struct CountSpreading;

impl OptimizerRule for CountSpreading {
    fn name(&self) -> &'static str {
        "coeval_count_spreading"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_column = match &plan {
            // Each row of it is a batch of its own.
            LogicalPlan::Values(_) => return Ok(Transformed::no(plan)),
            // What is pushed into it leaves out parts of files, by what operators mean, and is computed again above.
            LogicalPlan::TableScan(scan) if is_of_files(scan) => return Ok(Transformed::no(plan)),
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::TableScan(_) => false,
            _ => true,
        };
        if !has_concern(&plan, may_be_counted)? {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        let schema = match &plan {
            LogicalPlan::TableScan(scan) => schema_of_filters(scan)?,
            _ => merge_schema(&plan.inputs()),
        };
        let counted = plan.map_expressions(|expression| match expression {
            // Its name need not be written down.
            plain if !plain.exists(|part| Ok(may_be_counted(part)))? => Ok(Transformed::no(plain)),
            // Its parts are the columns.
            Expr::GroupingSet(sets) => Expr::GroupingSet(sets).map_children(|part| {
                let name = names.save(&part);
                Ok(counted_part(part, &schema)?.update_data(|part| name.restore(part)))
            }),
            expression => {
                let name = names.save(&expression);
                let counted = counted_part(expression, &schema)?;
                let counted = if is_column { counted.transform_data(counted_column)? } else { counted };
                Ok(counted.update_data(|expression| name.restore(expression)))
            }
        })?;
        let is_changed = counted.transformed;
        let plan = if is_changed { counted.data.recompute_schema()? } else { counted.data };
        Ok(Transformed::new_transformed(plan, is_changed))
    }
}

/// Whether a part of an expression may ask, or be a constant that does. Most nodes compare and compute with columns, and nothing else.
fn may_be_counted(part: &Expr) -> bool {
    match part {
        Expr::Literal(value, _) => value.size() > LITERAL_BYTES_MIN,
        Expr::BinaryExpr(operation) => !has_short_results(operation.op),
        Expr::Column(_)
        | Expr::Alias(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Between(_)
        | Expr::InList(_) => false,
        _ => true,
    }
}

/// Whether an operator gives truth values, numbers or times, and matches no pattern.
const fn has_short_results(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::And
            | Operator::Or
            | Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::Plus
            | Operator::Minus
            | Operator::Multiply
            | Operator::Divide
            | Operator::Modulo
    )
}

fn is_of_files(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|table| table.downcast_ref::<ListingTable>().is_some())
}

/// The columns that filters of a scan speak of: those of the table, whatever the scan gives. It may have hundreds of others.
pub(super) fn schema_of_filters(scan: &TableScan) -> Result<DFSchema> {
    let named: HashSet<&str> =
        scan.filters.iter().flat_map(Expr::column_refs).map(|column| column.name.as_str()).collect();
    let schema = scan.source.schema();
    let fields: Vec<FieldRef> =
        schema.fields().iter().filter(|field| named.contains(field.name().as_str())).cloned().collect();
    DFSchema::try_from_qualified_schema(scan.table_name.clone(), &Schema::new(fields))
}

/// An expression with what asks in it.
fn counted_part(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expression
        .transform_up(|part| counted_concatenations(part, schema)?.transform_data(heeding_matches))?
        .transform_data(|expression| expression.transform_down(counted_below))
}

/// An expression that is a column of its node.
fn counted_column(expression: Expr) -> Result<Transformed<Expr>> {
    match expression {
        Expr::Alias(mut alias) => {
            let inner = counted_constant(*alias.expr);
            alias.expr = Box::new(inner.data);
            Ok(Transformed::new_transformed(Expr::Alias(alias), inner.transformed))
        }
        expression => Ok(counted_constant(expression)),
    }
}

/// What stands below this part and becomes a column there.
fn counted_below(part: Expr) -> Result<Transformed<Expr>> {
    if is_constant(&part) {
        // It is computed once, with all that is in it.
        return Ok(Transformed::new(part, false, TreeNodeRecursion::Jump));
    }
    Ok(match part {
        Expr::ScalarFunction(ScalarFunction { func, args }) if SPREADS.contains(&func.name()) => {
            counted_all(args).update_data(|args| Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            let args = counted_all(std::mem::take(&mut params.args));
            args.update_data(|args| {
                params.args = args;
                Expr::AggregateFunction(AggregateFunction { func, params })
            })
        }
        Expr::WindowFunction(function) => {
            let WindowFunction { fun, mut params } = *function;
            let args = counted_all(std::mem::take(&mut params.args));
            let looking = windowed(&fun, params.filter.as_deref());
            let is_changed = args.transformed || looking.is_some();
            let fun = looking.unwrap_or(fun);
            Transformed::new_transformed(args.data, is_changed).update_data(|args| {
                params.args = args;
                Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
            })
        }
        Expr::Case(case) => counted_branches(case),
        part => Transformed::no(part),
    })
}

fn counted_branches(case: Case) -> Transformed<Expr> {
    let Case { expr, when_then_expr, else_expr } = case;
    let mut is_changed = false;
    let mut counted = |branch: Box<Expr>| {
        let branch = counted_constant(*branch);
        is_changed |= branch.transformed;
        Box::new(branch.data)
    };
    let branches = when_then_expr.into_iter().map(|(when, then)| (when, counted(then))).collect();
    let otherwise = else_expr.map(&mut counted);
    Transformed::new_transformed(Expr::Case(Case::new(expr, branches, otherwise)), is_changed)
}

fn counted_all(arguments: Vec<Expr>) -> Transformed<Vec<Expr>> {
    let mut is_changed = false;
    let counted = arguments.into_iter().map(|argument| {
        let argument = counted_constant(argument);
        is_changed |= argument.transformed;
        argument.data
    });
    let counted = counted.collect();
    Transformed::new_transformed(counted, is_changed)
}

/// The expression with the function round it if it is a constant that may be large.
fn counted_constant(expression: Expr) -> Transformed<Expr> {
    static COUNTED: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Counted::new())));
    if may_be_large(&expression) && is_constant(&expression) {
        let call = ScalarFunction { func: Arc::clone(&COUNTED), args: vec![expression] };
        return Transformed::yes(Expr::ScalarFunction(call));
    }
    Transformed::no(expression)
}

fn may_be_large(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(value, _) => value.size() > LITERAL_BYTES_MIN,
        Expr::Column(_) => false,
        // What has no type here names columns.
        other => other.get_type(&DFSchema::empty()).is_ok_and(|ty| !has_one_width(&ty)),
    }
}

fn has_one_width(ty: &DataType) -> bool {
    ty.is_primitive() || matches!(ty, DataType::Null | DataType::Boolean | DataType::FixedSizeBinary(_))
}

/// Whether an expression has one value for all rows.
fn is_constant(expression: &Expr) -> bool {
    let is_plain = |part: &Expr| match part {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Volatile,
        Expr::Literal(..)
        | Expr::BinaryExpr(_)
        | Expr::Alias(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::Negative(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_) => true,
        _ => false,
    };
    expression.exists(|part| Ok(!is_plain(part))).is_ok_and(|is_other| !is_other)
}

/// The function. It is no constant, so that it is there when the statement runs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Counted {
    signature: Signature,
}

impl Counted {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Counted {
    fn name(&self) -> &'static str {
        COUNTED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&arguments.arg_fields[0]))
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = arguments.args.swap_remove(0);
        if let ColumnarValue::Scalar(scalar) = &value {
            let meter = Meter::begin(&arguments.config_options, "copies of a constant");
            meter.take(scalar.size().saturating_mul(arguments.number_rows))?;
        }
        Ok(value)
    }
}
