// SPDX-License-Identifier: Apache-2.0
//! `coalesce` and its like as DataFusion has them, but with literals of arrays, enums and `uuid` among their arguments,
//! `coalesce(tags, '{}')`, with dates and times of several types, with literals among numbers, `coalesce(n, '0')`, and with other numbers
//! beside those without digits.
//!
//! While a query is planned such a literal is still a text; [`settle`](super::settle) makes an array, a label or a number of it then, and
//! refuses texts that are no literals.
//!
//! `nullif` of floats takes `0` for `-0`, as `=` does; DataFusion's compares their bits.
//!
//! DataFusion makes of `coalesce(a, b)` a CASE that names `a` twice, which would be computed twice: `coalesce(nextval('s'), 0)` is left a call.

use super::exact_types::is_any_numeric;
use crate::types::{column_type_of_field, common_arrow_type, require_common_type};
use crate::wrapped::as_wrapped;
use arrow::compute::kernels::cmp::eq;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{is_not_null, nullif};
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::{ColumnType, EnumType};
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{Result, internal_err};
use datafusion::functions::core;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature,
};
use std::sync::{Arc, LazyLock};

/// The functions, for the engine's registry.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [core::coalesce(), core::greatest(), core::least(), core::nullif()];
    all.into_iter().map(|general| ScalarUDF::new_from_impl(Coalesce::of(general)))
}

/// A call of `coalesce`.
pub(super) fn coalesced(arguments: Vec<Expr>) -> Expr {
    static COALESCE: LazyLock<ScalarUDF> =
        LazyLock::new(|| ScalarUDF::new_from_impl(Coalesce::of(core::coalesce())));
    COALESCE.call(arguments)
}

/// Whether DataFusion casts no text to a type.
fn is_cast_from_no_text(ty: &DataType) -> bool {
    EnumType::of_arrow(ty).is_some() || matches!(ty, DataType::FixedSizeBinary(_))
}

/// Whether texts beside values of a type are literals of it. DataFusion makes texts of numbers and truth values beside them.
fn reads_texts(ty: &DataType) -> bool {
    ty.is_temporal()
        || ty.is_numeric()
        || matches!(ty, DataType::Boolean | DataType::List(_))
        || matches!(ty, DataType::Binary | DataType::BinaryView | DataType::LargeBinary)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    general: Arc<ScalarUDF>,
    signature: Signature,
}

impl Coalesce {
    fn of(general: Arc<ScalarUDF>) -> Self {
        let mut signature = general.signature().clone();
        if general.name() == "nullif" {
            // Numerics without digits, too: DataFusion compares them with nothing. Where the call is settled others are refused.
            let all = vec![signature.type_signature, TypeSignature::UserDefined];
            signature = Signature::one_of(all, signature.volatility);
        }
        Self { general, signature }
    }

    /// Whether a call stays one, since its first argument may be another value when it is computed again. Others than constants and columns
    /// behind it are computed only where they are asked for, so that a CASE is made of these.
    fn stays(&self, arguments: &[Expr]) -> bool {
        let is_given = |argument: &Expr| matches!(argument, Expr::Literal(..) | Expr::Column(_));
        match arguments {
            [first, others @ ..] => {
                self.name() == "coalesce" && first.is_volatile() && others.iter().all(is_given)
            }
            [] => false,
        }
    }
}

/// Of each row the first of its values that is not NULL.
fn first_known(arguments: &[ColumnarValue], rows: usize) -> Result<ColumnarValue> {
    let [first, others @ ..] = arguments else { return internal_err!("coalesce has an argument") };
    let mut known = first.to_array(rows)?;
    for other in others {
        known = zip(&is_not_null(&known)?, &known, &other.to_array(rows)?)?;
    }
    Ok(ColumnarValue::Array(known))
}

/// Of each row the first of two floats, or NULL if the other one equals it.
fn unequal_float(arguments: &[ColumnarValue], rows: usize) -> Result<ColumnarValue> {
    let [float, other] = arguments else { return internal_err!("nullif has two arguments") };
    let (float, other) = (float.to_array(rows)?, other.to_array(rows)?);
    let are_equal = eq(&normalize_float_zero(&float), &normalize_float_zero(&other))?;
    Ok(ColumnarValue::Array(nullif(&float, &are_equal)?))
}

impl ScalarUDFImpl for Coalesce {
    as_wrapped!(general: name, return_type);

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.name() {
            "coalesce" => first_known(&arguments.args, arguments.number_rows),
            "nullif" if arguments.args.iter().all(|argument| argument.data_type().is_floating()) => {
                unequal_float(&arguments.args, arguments.number_rows)
            }
            _ => self.general.invoke_with_args(arguments),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = || arguments.arg_fields.iter().map(|field| field.data_type());
        // Numbers beside those without digits are made of one type once the plan is settled.
        let number = || {
            let is_chosen = self.name() != "nullif" && types().any(is_any_numeric);
            is_chosen.then(|| common_arrow_type(types().filter(|ty| !ty.is_string()))).flatten()
        };
        if let Some(ty) = types().find(|ty| is_cast_from_no_text(ty)).cloned().or_else(number) {
            let is_nullable =
                self.name() == "nullif" || arguments.arg_fields.iter().all(|field| field.is_nullable());
            return Ok(Arc::new(Field::new(self.name(), ty, is_nullable)));
        }
        // What Arrow does not tell of the type is the same of all that is known.
        let documents = arguments
            .arg_fields
            .iter()
            .any(|field| matches!(column_type_of_field(field), Some(ColumnType::Json | ColumnType::Jsonb)));
        // A literal among documents is one.
        let is_read = |place: usize| {
            let literal = arguments.scalar_arguments.get(place).copied().flatten();
            documents && literal.is_some_and(|literal| literal.data_type().is_string())
        };
        let mut marks = arguments
            .arg_fields
            .iter()
            .enumerate()
            .filter(|(place, field)| !field.data_type().is_null() && !is_read(*place))
            .map(|(_, field)| field.metadata().clone());
        let mark = marks.next().filter(|first| self.name() == "nullif" || marks.all(|other| other == *first));
        let field = self.general.return_field_from_args(arguments)?;
        match mark.filter(|mark| !mark.is_empty()) {
            Some(mark) => Ok(Arc::new(field.as_ref().clone().with_metadata(mark))),
            None => Ok(field),
        }
    }

    /// Texts among arrays are arrays. Those among enums and `uuid` stay until it is known that they are literals, since nothing
    /// casts them.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if self.name() == "nullif" {
            let is_of_such = types.len() == 2 && types.iter().any(is_any_numeric);
            return if is_of_such { Ok(types.to_vec()) } else { self.general.coerce_types(types) };
        }
        if let Some(ty) = types.iter().find(|ty| is_cast_from_no_text(ty))
            && types.iter().any(DataType::is_string)
            && types.iter().all(|other| other.is_string() || other.is_null() || other == ty)
        {
            return Ok(types.to_vec());
        }
        let others = types.iter().filter(|ty| !ty.is_string());
        require_common_type(&self.name().to_uppercase(), others)?;
        let common = common_arrow_type(types.iter().filter(|ty| !ty.is_string()));
        if let Some(common) = &common
            && types.iter().any(is_any_numeric)
        {
            // Arrow makes no such numbers of decimals, and no floats of them.
            let known = |ty: &DataType| if ty.is_null() { common.clone() } else { ty.clone() };
            return Ok(types.iter().map(known).collect());
        }
        let has_texts = types.iter().any(DataType::is_string);
        match common.filter(|common| !has_texts || reads_texts(common)) {
            Some(common) => Ok(vec![common; types.len()]),
            None => self.general.coerce_types(types),
        }
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if self.stays(&arguments) {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        self.general.simplify(arguments, info)
    }

    fn conditional_arguments<'a>(&self, arguments: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.general.conditional_arguments(arguments)
    }

    fn short_circuits(&self) -> bool {
        self.general.short_circuits()
    }
}
