// SPDX-License-Identifier: Apache-2.0
//! Arithmetic as PostgreSQL has it: integers never wrap, nothing is divided by zero, nothing is cut off.
//!
//! DataFusion adds integers modulo their size, divides floats by zero, gives NaNs that are none to SQL and cuts off digits where a
//! number becomes an integer, takes local times for those of Greenwich, and reads numbers by recursion on their digits. After types
//! are settled this rule puts checked functions in place of those operators and casts.
//! Sums of decimals and integer division are checked by Arrow already.

use super::float_arithmetic::calculated;
use super::rewriting::{Below, rewrite_node, rewrite_plan};
use super::typing::{
    cast_by_zone, cast_of_any_numeric, quotient, refuse_unknown_cast, rewritten_values, rounded,
    settled_exclusive_or,
};
use crate::error::{SqlError, out_of_range};
use crate::scalar::cast_function::{digits_of_float, read_number, read_text};
use crate::types::{decimal_to_float, type_in_words};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

/// Puts checked functions in place of operators that wrap.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic;

impl CheckedArithmetic {
    /// The expression, whose types are settled, with checked functions.
    ///
    /// # Errors
    /// If a part of it has no type.
    pub(crate) fn of_expression(expression: Expr, schema: &DFSchema) -> Result<Expr> {
        expression.transform_up(|part| check_operator(part, schema)).map(|done| done.data)
    }
}

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // DataFusion's rule that makes types fit does not make all schemas anew above what it changes, in recursive queries for one.
        let mut check = |plan, _| match plan {
            plan @ LogicalPlan::Values(_) => rewritten_values(plan, &check_operator),
            plan => rewrite_node(plan, Below::Changed, may_be_checked, &check_operator),
        };
        rewrite_plan(plan, &mut check).map(|done| done.data)
    }

    fn name(&self) -> &'static str {
        "coeval_checked_arithmetic"
    }
}

/// Whether [`check_operator`] looks at a part of an expression.
fn may_be_checked(part: &Expr) -> bool {
    match part {
        Expr::BinaryExpr(operation) => {
            operation.op == Operator::BitwiseXor || function_of(operation.op).is_some()
        }
        Expr::Negative(_) | Expr::Cast(_) | Expr::TryCast(_) => true,
        _ => false,
    }
}

fn check_operator(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let checked = match &expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::BitwiseXor, right }) => {
            settled_exclusive_or(left, right, schema)?
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if function_of(*op).is_some() => {
            let (left_type, right_type) = (left.get_type(schema)?, right.get_type(schema)?);
            checked_binary(*op, left, &left_type, right, &right_type)
        }
        Expr::Negative(input) => {
            let ty = input.get_type(schema)?;
            // What is taken from `-0` changes its sign, zeros too, and is NaN without one.
            let zero = match ty {
                DataType::Float32 => Some(ScalarValue::Float32(Some(-0.0))),
                DataType::Float64 => Some(ScalarValue::Float64(Some(-0.0))),
                _ if ty.is_signed_integer() => Some(ScalarValue::new_zero(&ty)?),
                _ => None,
            };
            zero.and_then(|zero| checked_binary(Operator::Minus, &Expr::Literal(zero, None), &ty, input, &ty))
        }
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(schema)?;
            let to = cast.field.data_type();
            refuse_unknown_cast(&cast.expr, &from, to, schema)?;
            refuse_large(&cast.expr, to)?;
            if let Some(float) = float_of_literal(&cast.expr, to) {
                return Ok(Transformed::yes(float));
            }
            if let Some(numbers) = cast_of_any_numeric(&cast.expr, &from, to)? {
                return Ok(Transformed::yes(numbers));
            }
            let checked = match digits_of_float(&cast.expr, &from, to)? {
                Some(digits) => Some(digits),
                None => cast_by_zone(cast, &from)?.or_else(|| rounded(&cast.expr, &from, to)),
            };
            match checked {
                Some(checked) => Some(checked),
                None => match read_number(&cast.expr, &from, to)? {
                    Some(read) => Some(read),
                    None => read_text(&cast.expr, &from, to)?,
                },
            }
        }
        // It is NULL where a cast is an error, which only DataFusion's own can be.
        Expr::TryCast(cast)
            if cast.field.data_type().is_decimal() && cast.expr.get_type(schema)?.is_string() =>
        {
            return Err(SqlError::unsupported("TRY_CAST of a text to numeric").into());
        }
        _ => None,
    };
    Ok(checked.map_or_else(|| Transformed::no(expression), Transformed::yes))
}

/// `22003` for an integer literal that a shorter type has no room for.
fn refuse_large(input: &Expr, to: &DataType) -> Result<()> {
    let number = match input.as_literal() {
        Some(ScalarValue::Int64(Some(number))) => *number,
        Some(ScalarValue::Int32(Some(number))) => i64::from(*number),
        _ => return Ok(()),
    };
    let is_large = match to {
        DataType::Int16 => i16::try_from(number).is_err(),
        DataType::Int32 => i32::try_from(number).is_err(),
        _ => false,
    };
    if is_large { Err(out_of_range(&format!("{} out of range", type_in_words(to))).into()) } else { Ok(()) }
}

/// A decimal literal as the float that is nearest to it, which Arrow's quotient of two floats may miss; `None` for all other casts.
fn float_of_literal(input: &Expr, to: &DataType) -> Option<Expr> {
    let ScalarValue::Decimal128(Some(unscaled), _, scale) = input.as_literal()? else { return None };
    let float = || ScalarValue::Float64(Some(decimal_to_float(*unscaled, *scale)));
    (*to == DataType::Float64).then(|| Expr::Literal(float(), None))
}

/// What stands in an operator's place; `None` if it is right as it is.
fn checked_binary(
    operator: Operator,
    left: &Expr,
    left_type: &DataType,
    right: &Expr,
    right_type: &DataType,
) -> Option<Expr> {
    if let Some(moved) = super::local_moments::moved(operator, (left, left_type), (right, right_type)) {
        return Some(moved);
    }
    let function = function_of(operator)?;
    if operator == Operator::Divide && left_type.is_decimal() && right_type.is_decimal() {
        return quotient(left.clone(), left_type, right.clone(), right_type);
    }
    let is_division = matches!(operator, Operator::Divide | Operator::Modulo);
    let is_unchecked = left_type == right_type
        && (left_type.is_floating() || (left_type.is_signed_integer() && !is_division));
    is_unchecked.then(|| {
        let (function, arguments) = match LongChain::of(left) {
            Some(chain) => chain.extended(operator, right),
            None => (Arc::clone(function), vec![left.clone(), right.clone()]),
        };
        Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))
    })
}

/// The operators of a function that stands in the place of some; `None` of another function.
pub(crate) fn checked_operators(function: &ScalarUDF) -> Option<&[Operator]> {
    function.inner().downcast_ref::<Checked>().map(|checked| checked.operators.as_slice())
}

/// The function that stands in the place of these operators, between one operand more than there are of them; `None` if there
/// is no such function.
pub(crate) fn checked_function(operators: Vec<Operator>) -> Option<Arc<ScalarUDF>> {
    let are_known = !operators.is_empty() && operators.iter().all(|one| function_of(*one).is_some());
    are_known.then(|| Arc::new(ScalarUDF::new_from_impl(Checked::new(operators))))
}

/// The most operators that stand below each other as one function each. A longer chain is one function of many
/// operands: whatever walks over expressions would take the square, or worse, of its depth.
const CHAIN_DEPTH_MAX: usize = 16;

/// A chain that leans to the left and is as deep as it may be.
struct LongChain<'e> {
    operators: Vec<Operator>,
    operands: Vec<&'e Expr>,
}

impl<'e> LongChain<'e> {
    fn of(expression: &'e Expr) -> Option<Self> {
        let mut depth = 0;
        // From the last operand to the first one.
        let (mut operators, mut operands) = (Vec::new(), Vec::new());
        let mut first = expression;
        while let Some((of_function, of_operands)) = chain_of(first) {
            depth += of_function.len();
            operators.extend(of_function.iter().rev());
            let (next, others) = of_operands.split_first()?;
            operands.extend(others.iter().rev());
            first = next;
        }
        operands.push(first);
        operators.reverse();
        operands.reverse();
        (depth >= CHAIN_DEPTH_MAX).then_some(Self { operators, operands })
    }

    fn extended(mut self, operator: Operator, operand: &Expr) -> (Arc<ScalarUDF>, Vec<Expr>) {
        self.operators.push(operator);
        let operands = self.operands.into_iter().chain([operand]).cloned().collect();
        (Arc::new(ScalarUDF::new_from_impl(Checked::new(self.operators))), operands)
    }
}

fn function_of(operator: Operator) -> Option<&'static Arc<ScalarUDF>> {
    static FUNCTIONS: LazyLock<Vec<(Operator, Arc<ScalarUDF>)>> = LazyLock::new(|| {
        [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo]
            .into_iter()
            .map(|operator| (operator, Arc::new(ScalarUDF::new_from_impl(Checked::new(vec![operator])))))
            .collect()
    });
    FUNCTIONS.iter().find(|(known, _)| *known == operator).map(|(_, function)| function)
}

/// Operators between numbers of one type, from left to right, checked; mostly there is one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operators: Vec<Operator>,
    signature: Signature,
}

impl Checked {
    fn new(operators: Vec<Operator>) -> Self {
        let signature = Signature::any(operators.len() + 1, Volatility::Immutable);
        Self { operators, signature }
    }

    /// The operands of a chain that leans to the left are written one after the other: each into the text of those
    /// before it would take the square of its length, at each of its levels.
    fn text(&self, arguments: &[Expr], show: impl Fn(&Expr) -> String) -> String {
        let Some((mut first, others)) = arguments.split_first() else { return self.name().to_owned() };
        let mut behind: Vec<_> = self.operators.iter().zip(others).rev().collect();
        while let Some((operators, operands)) = chain_of(first) {
            let Some((next, others)) = operands.split_first() else { break };
            behind.extend(operators.iter().zip(others).rev());
            first = next;
        }
        let mut text = show(first);
        for (operator, right) in behind.into_iter().rev() {
            let _ = write!(text, " {operator} {}", show(right));
        }
        text
    }
}

/// The operators and the operands of an expression that is such a function.
fn chain_of(expression: &Expr) -> Option<(&[Operator], &[Expr])> {
    let Expr::ScalarFunction(function) = expression else { return None };
    let checked = function.func.inner().downcast_ref::<Checked>()?;
    Some((&checked.operators, &function.args))
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operators[..] {
            [Operator::Plus] => "checked_add",
            [Operator::Minus] => "checked_subtract",
            [Operator::Multiply] => "checked_multiply",
            [Operator::Divide] => "checked_divide",
            [Operator::Modulo] => "checked_modulo",
            _ => "checked_chain",
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
        let mut operands = arguments.args.into_iter();
        let first = operands.next();
        let first = first.ok_or_else(|| SqlError::internal("an operator has operands"))?;
        let ty = first.data_type();
        let mut operators = self.operators.iter().zip(operands);
        operators
            .try_fold(first, |left, (operator, right)| {
                apply(&left, &right, |left, right| calculated(*operator, left, right))
            })
            .map_err(|error| overflow_of(error, &ty))
    }

    /// What zero is added to keeps its order. Windows over floats add it, so that `-0` is `0`.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (&self.operators[..], inputs) {
            ([Operator::Plus], [number, zero]) if is_zero(zero) => number.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

/// Whether an operand is the float `0`.
fn is_zero(operand: &ExprProperties) -> bool {
    let bounds = [operand.range.lower(), operand.range.upper()];
    operand.sort_properties == SortProperties::Singleton
        && bounds.iter().all(|bound| match bound {
            ScalarValue::Float32(Some(bound)) => *bound == 0.0,
            ScalarValue::Float64(Some(bound)) => *bound == 0.0,
            _ => false,
        })
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
            out_of_range(&format!("{} out of range", type_in_words(ty))).into()
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::compute::SortOptions;
    use datafusion::logical_expr::interval_arithmetic::Interval;

    #[test]
    fn what_zero_is_added_to_keeps_its_order() {
        let ordered = SortProperties::Ordered(SortOptions::default());
        let column = ExprProperties::new_unknown().with_order(ordered);
        let constant = |number: f64| {
            let number = ScalarValue::Float64(Some(number));
            let range = Interval::try_new(number.clone(), number).expect("a range of one number");
            ExprProperties::new_unknown().with_order(SortProperties::Singleton).with_range(range)
        };
        let order_of = |operator, other| {
            let function = function_of(operator).expect("it is an operator of numbers");
            function.output_ordering(&[column.clone(), other]).expect("two operands")
        };
        assert_eq!(order_of(Operator::Plus, constant(0.0)), ordered);
        assert_eq!(order_of(Operator::Plus, constant(f64::INFINITY)), SortProperties::Unordered);
        assert_eq!(order_of(Operator::Multiply, constant(0.0)), SortProperties::Unordered);
        assert_eq!(order_of(Operator::Plus, column.clone()), SortProperties::Unordered);
    }
}
