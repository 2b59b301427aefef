// SPDX-License-Identifier: Apache-2.0
//! Arithmetic as PostgreSQL has it: integers never wrap, nothing is divided by zero, sums of `bigint` are
//! exact.
//!
//! DataFusion adds integers modulo their size and divides floats by zero. After types are settled this rule
//! puts checked functions in place of those operators. Exact decimals and integer division are checked by
//! Arrow already.

use crate::error::{SqlError, division_by_zero, out_of_range};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum};
use arrow::compute::kernels::numeric::{add, div, mul, rem, sub};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::DFSchema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use std::sync::{Arc, LazyLock};

/// Digits of a sum of `bigint`, as many as there are.
const SUM_PRECISION: u8 = 38;

/// Puts checked functions in place of operators that wrap.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| rewrite_node(plan, &check_operator)).map(|done| done.data)
    }

    fn name(&self) -> &'static str {
        "coeval_checked_arithmetic"
    }
}

/// The plan with every `sum` over `bigint` made a sum of `numeric`, as in PostgreSQL.
pub(super) fn with_exact_sums(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) {
            found = true;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !found {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|plan| rewrite_node(plan, &widen_sum)).map(|done| done.data)
}

type Rewrite = dyn Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

/// The node with its expressions rewritten, and its schema made anew.
fn rewrite_node(plan: LogicalPlan, rewrite: &Rewrite) -> Result<Transformed<LogicalPlan>> {
    if matches!(plan, LogicalPlan::TableScan(_) | LogicalPlan::Values(_)) {
        return Ok(Transformed::no(plan));
    }
    let mut schema = merge_schema(&plan.inputs());
    schema.merge(plan.schema());
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expression| {
        let name = names.save(&expression);
        let done = expression.transform_up(|part| rewrite(part, &schema))?;
        Ok(if done.transformed { done.update_data(|expression| name.restore(expression)) } else { done })
    })?;
    rewritten.map_data(LogicalPlan::recompute_schema)
}

fn widen_sum(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::AggregateFunction(call) = &expression else {
        return Ok(Transformed::no(expression));
    };
    let [argument] = &call.params.args[..] else {
        return Ok(Transformed::no(expression));
    };
    if call.func.name() != "sum" || argument.get_type(schema).ok() != Some(DataType::Int64) {
        return Ok(Transformed::no(expression));
    }
    let wide = Expr::Cast(Cast::new(Box::new(argument.clone()), DataType::Decimal128(SUM_PRECISION, 0)));
    let AggregateFunction { func, params } = call.clone();
    let params = datafusion::logical_expr::expr::AggregateFunctionParams { args: vec![wide], ..params };
    Ok(Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params })))
}

fn check_operator(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expression else {
        return Ok(Transformed::no(expression));
    };
    let Some(function) = function_of(*op) else {
        return Ok(Transformed::no(expression));
    };
    let (left_type, right_type) = (left.get_type(schema)?, right.get_type(schema)?);
    let is_division = matches!(op, Operator::Divide | Operator::Modulo);
    let is_unchecked = left_type == right_type
        && if is_division { left_type.is_floating() } else { left_type.is_signed_integer() };
    if !is_unchecked {
        return Ok(Transformed::no(expression));
    }
    let arguments = vec![left.as_ref().clone(), right.as_ref().clone()];
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), arguments))))
}

fn function_of(operator: Operator) -> Option<&'static Arc<ScalarUDF>> {
    static FUNCTIONS: LazyLock<Vec<(Operator, Arc<ScalarUDF>)>> = LazyLock::new(|| {
        [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo]
            .into_iter()
            .map(|operator| (operator, Arc::new(ScalarUDF::new_from_impl(Checked::new(operator)))))
            .collect()
    });
    FUNCTIONS.iter().find(|(known, _)| *known == operator).map(|(_, function)| function)
}

/// One operator on two numbers of one type, checked.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operator: Operator,
    signature: Signature,
}

impl Checked {
    fn new(operator: Operator) -> Self {
        Self { operator, signature: Signature::any(2, Volatility::Immutable) }
    }

    fn text(&self, arguments: &[Expr], show: impl Fn(&Expr) -> String) -> String {
        match arguments {
            [left, right] => format!("{} {} {}", show(left), self.operator, show(right)),
            _ => self.name().to_owned(),
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Plus => "checked_add",
            Operator::Minus => "checked_subtract",
            Operator::Multiply => "checked_multiply",
            Operator::Divide => "checked_divide",
            _ => "checked_modulo",
        }
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(self.text(arguments, ToString::to_string))
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(self.text(arguments, |argument| argument.schema_name().to_string()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &arguments.args[..] else {
            return Err(SqlError::internal("an operator has two operands").into());
        };
        let ty = left.data_type();
        let done = match self.operator {
            Operator::Plus => apply(left, right, add),
            Operator::Minus => apply(left, right, sub),
            Operator::Multiply => apply(left, right, mul),
            Operator::Divide => apply(left, right, |left, right| float_division(left, right, div)),
            _ => apply(left, right, |left, right| float_division(left, right, rem)),
        };
        done.map_err(|error| overflow_of(error, &ty))
    }

    fn output_ordering(
        &self,
        _: &[datafusion::logical_expr::sort_properties::ExprProperties],
    ) -> Result<datafusion::logical_expr::sort_properties::SortProperties> {
        Ok(datafusion::logical_expr::sort_properties::SortProperties::Unordered)
    }
}

/// An overflow, named after the type as PostgreSQL does.
fn overflow_of(
    error: datafusion::error::DataFusionError,
    ty: &DataType,
) -> datafusion::error::DataFusionError {
    match &error {
        datafusion::error::DataFusionError::ArrowError(arrow, _)
            if matches!(**arrow, ArrowError::ArithmeticOverflow(_)) =>
        {
            let name =
                crate::types::column_type_of_arrow(ty).map_or_else(|| ty.to_string(), |ty| ty.to_string());
            out_of_range(&format!("{name} out of range")).into()
        }
        _ => error,
    }
}

fn float_division(
    left: &dyn Datum,
    right: &dyn Datum,
    operation: impl Fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    let (divisors, _) = right.get();
    let (dividends, _) = left.get();
    let all_null = dividends.len() == dividends.null_count() && !dividends.is_empty();
    let has_zero = match divisors.data_type() {
        DataType::Float32 => has_zero::<Float32Type>(divisors, |value| value == 0.0),
        DataType::Float64 => has_zero::<Float64Type>(divisors, |value| value == 0.0),
        _ => false,
    };
    if has_zero && !all_null {
        return Err(ArrowError::ExternalError(Box::new(division_by_zero())));
    }
    operation(left, right)
}

fn has_zero<T: ArrowPrimitiveType>(array: &dyn Array, is_zero: impl Fn(T::Native) -> bool) -> bool {
    let array = array.as_primitive::<T>();
    if array.null_count() == 0 {
        array.values().iter().any(|value| is_zero(*value))
    } else {
        array.iter().flatten().any(is_zero)
    }
}
