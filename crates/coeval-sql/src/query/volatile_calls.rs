// SPDX-License-Identifier: Apache-2.0
//! Volatile functions with constant arguments, as `nextval('s')`, kept from being taken for constants.
//!
//! DataFusion's physical plans take an expression for a constant if all its children are constants, whatever function is called.
//! Then rows that are to be sorted, grouped or merged by it are not: `SELECT nextval('s') AS n FROM t ORDER BY n DESC` gave them
//! as they came. What has no children is no constant there. So this rule puts a function round the first argument of such a call
//! that gives it as it is, and whose second argument is a call without arguments:
//!
//! ```text
//! nextval('s')  ->  nextval(coeval_each_row('s', coeval_each_row()))
//! ```
//! An argument that is a column counts as well: a filter may have made a constant of it.

use super::rewriting::has_concern;
use super::spreading::COUNTED;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::{Arc, LazyLock};

/// The name of the function.
const EACH_ROW: &str = "coeval_each_row";

/// The rule. To come behind those that look into calls.
#[derive(Debug)]
pub(crate) struct VolatileCalls;

impl OptimizerRule for VolatileCalls {
    fn name(&self) -> &'static str {
        "coeval_volatile_calls"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // Lists of values are computed while they are read, and what is volatile is not pushed into scans.
        let is_leaf = matches!(plan, LogicalPlan::Values(_) | LogicalPlan::TableScan(_));
        let is_call = |part: &Expr| matches!(part, Expr::ScalarFunction(call) if seems_constant(call));
        if is_leaf || !has_concern(&plan, is_call)? {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        let named = |expression: Expr| -> Result<Transformed<Expr>> {
            let name = names.save(&expression);
            Ok(expression.transform_up(for_each_row)?.update_data(|expression| name.restore(expression)))
        };
        let done = plan.map_expressions(|expression| match expression {
            // Its parts are the columns.
            sets @ Expr::GroupingSet(_) => sets.map_children(&named),
            expression => named(expression),
        })?;
        if done.transformed { done.map_data(LogicalPlan::recompute_schema) } else { Ok(done) }
    }
}

/// Whether a call gives something else for each row, and DataFusion may not see it.
fn seems_constant(call: &ScalarFunction) -> bool {
    // A constant that is counted is one.
    let is_ours = matches!(call.func.name(), EACH_ROW | COUNTED);
    !is_ours
        && call.func.signature().volatility == Volatility::Volatile
        && !call.args.is_empty()
        && !call.args.iter().any(is_for_each_row)
}

fn is_for_each_row(argument: &Expr) -> bool {
    matches!(argument, Expr::ScalarFunction(call) if call.func.name() == EACH_ROW)
}

/// The call, if this part of an expression is one, with the function round its first argument.
fn for_each_row(part: Expr) -> Result<Transformed<Expr>> {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::from(EachRow::new()));
    match part {
        Expr::ScalarFunction(mut call) if seems_constant(&call) => {
            let first = std::mem::take(&mut call.args[0]);
            call.args[0] = FUNCTION.call(vec![first, FUNCTION.call(Vec::new())]);
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        part => Ok(Transformed::no(part)),
    }
}

/// The function. It is volatile, so that no rule computes it before the statement runs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EachRow {
    signature: Signature,
}

impl EachRow {
    fn new() -> Self {
        let arguments = vec![TypeSignature::Any(2), TypeSignature::Nullary];
        Self { signature: Signature::one_of(arguments, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for EachRow {
    fn name(&self) -> &'static str {
        EACH_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nothing = || Arc::new(Field::new(self.name(), DataType::Null, true));
        Ok(arguments.arg_fields.first().cloned().unwrap_or_else(nothing))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let nothing = ColumnarValue::Scalar(ScalarValue::Null);
        Ok(arguments.args.into_iter().next().unwrap_or(nothing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use arrow::datatypes::Schema;
    use coeval_store::{Store, StoreOptions};
    use datafusion::common::DFSchema;
    use datafusion::common::config::ConfigOptions;
    use datafusion::logical_expr::lit;
    use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, ScalarFunctionExpr};
    use std::collections::BTreeSet;

    /// To break it: leave one of them out of [`seems_constant`].
    #[test]
    fn no_volatile_function_is_a_constant_of_its_arguments() {
        let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
        let (state, properties) = (engine.template(), EquivalenceProperties::new(Arc::new(Schema::empty())));
        let is_constant = |call: &ScalarFunction| {
            let first = state.create_physical_expr(call.args[0].clone(), &DFSchema::empty()).unwrap();
            let field = Arc::new(Field::new("value", DataType::Int64, true));
            let (function, options) = (Arc::clone(&call.func), Arc::new(ConfigOptions::new()));
            let call = ScalarFunctionExpr::new(call.func.name(), function, vec![first], field, options);
            let call: Arc<dyn PhysicalExpr> = Arc::new(call);
            properties.is_expr_constant(&call).is_some()
        };
        let mut volatile = BTreeSet::new();
        for function in state.scalar_functions().values() {
            if function.signature().volatility != Volatility::Volatile {
                continue;
            }
            volatile.insert(function.name());
            let plain = ScalarFunction::new_udf(Arc::clone(function), vec![lit("s")]);
            assert!(is_constant(&plain), "{}", function.name());
            let done = for_each_row(Expr::ScalarFunction(plain)).unwrap();
            let Expr::ScalarFunction(call) = &done.data else { panic!("it is a call") };
            assert!(done.transformed && !is_constant(call), "{}", function.name());
            // The rules go over a plan several times.
            assert!(!for_each_row(done.data).unwrap().transformed, "{}", function.name());
        }
        for name in ["nextval", "currval", "setval", "pg_sleep", "random", "coeval_backup"] {
            assert!(volatile.contains(name), "{name} of {volatile:?}");
        }
    }
}
