// SPDX-License-Identifier: Apache-2.0
//! Functions of numbers that are called with a `numeric` without digits: they are other functions then, which compute with all digits.
//! So are roots, powers, logarithms and signs of any `numeric`, whose results have as many digits as it takes.

use super::exact_types::is_any_numeric;
use crate::functions::function;
use crate::wrapped::as_wrapped;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature,
};
use std::sync::Arc;

/// The functions, and what each is of such a number.
const FUNCTIONS: [(&str, &str); 12] = [
    ("abs", "numeric_abs"),
    ("signum", "numeric_sign"),
    ("round", "numeric_round"),
    ("trunc", "numeric_trunc"),
    ("ceil", "numeric_ceil"),
    ("floor", "numeric_floor"),
    ("sqrt", "numeric_sqrt"),
    ("exp", "numeric_exp"),
    ("ln", "numeric_ln"),
    ("log", "numeric_log"),
    ("log10", "numeric_log"),
    ("power", "numeric_power"),
];

/// Those of them that give a `numeric` without digits of one with digits, too.
const OF_ALL_NUMERICS: [&str; 7] = ["signum", "sqrt", "exp", "ln", "log", "log10", "power"];

/// The signature of a function that takes what another one takes, and such numbers. The function says itself that it takes them.
pub(super) fn with_numbers(general: &Signature) -> Signature {
    let types = match &general.type_signature {
        TypeSignature::UserDefined => TypeSignature::UserDefined,
        others => TypeSignature::OneOf(vec![others.clone(), TypeSignature::UserDefined]),
    };
    Signature::new(types, general.volatility)
}

/// Whether a function is one of these.
pub(super) fn is_one(name: &str) -> bool {
    FUNCTIONS.iter().any(|(function, _)| *function == name)
}

/// The functions of a registry, which know such numbers beside what they know already.
///
/// # Errors
/// If one of them is missing there: a bug.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<ScalarUDF>> {
    let known = FUNCTIONS.into_iter().map(|(name, own)| {
        let general = registry.udf(name)?;
        let signature = with_numbers(general.signature());
        Ok(ScalarUDF::new_from_impl(OfNumbers { general, own: function(own)?, signature }))
    });
    known.collect()
}

/// Whether such numbers stand beside floats, and become floats.
fn are_floats_to_be(types: &[DataType]) -> bool {
    types.iter().any(is_any_numeric) && types.iter().any(DataType::is_floating)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNumbers {
    general: Arc<ScalarUDF>,
    /// What it is of such a number.
    own: Arc<ScalarUDF>,
    signature: Signature,
}

impl OfNumbers {
    /// Whether arguments of these types are computed with all digits.
    fn is_own(&self, types: &[DataType]) -> bool {
        if types.iter().any(is_any_numeric) {
            return true;
        }
        let is_exact = |ty: &DataType| ty.is_signed_integer() || ty.is_decimal() || ty.is_null();
        // To a base there are logarithms of `numeric` alone.
        let has_base = self.name() == "log" && types.len() == 2;
        OF_ALL_NUMERICS.contains(&self.name())
            && types.iter().all(is_exact)
            && (has_base || types.iter().any(DataType::is_decimal))
    }

    /// The function for arguments of these types.
    fn of(&self, types: &[DataType]) -> &ScalarUDF {
        if self.is_own(types) { &self.own } else { &self.general }
    }
}

impl ScalarUDFImpl for OfNumbers {
    as_wrapped!(general: name, aliases, evaluate_bounds, output_ordering);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // Casts to floats are written once the types of all arguments are settled.
        if self.is_own(types) { Ok(types.to_vec()) } else { self.general.coerce_types(types) }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if are_floats_to_be(types) {
            return Ok(DataType::Float64);
        }
        self.of(types).return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if are_floats_to_be(&types) {
            return Ok(Arc::new(Field::new(self.name(), DataType::Float64, true)));
        }
        self.of(&types).return_field_from_args(arguments)
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let types =
            arguments.iter().map(|argument| info.get_data_type(argument)).collect::<Result<Vec<_>>>()?;
        if self.is_own(&types) {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        self.general.simplify(arguments, info)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = arguments.args.iter().map(ColumnarValue::data_type).collect();
        self.of(&types).invoke_with_args(arguments)
    }
}
