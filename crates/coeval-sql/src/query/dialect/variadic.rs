// SPDX-License-Identifier: Apache-2.0
//! Calls whose last arguments are the elements of an array: `concat_ws(', ', VARIADIC names)`.

use super::{call, text, unqualified};
use crate::error::SqlError;
use crate::functions::{FORMAT_ELEMENTS, NULL_ELEMENTS, OTHER_ELEMENTS};
use crate::names::fold;
use crate::parse::VARIADIC;
use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

/// What does the same with the array as a whole; `None` of a call without such an array.
///
/// # Errors
/// `0A000` where nothing does.
pub(super) fn rewritten(function: &Function) -> Result<Option<Expr>, SqlError> {
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let Some((FunctionArg::Named { name, arg: FunctionArgExpr::Expr(array), .. }, others)) =
        list.args.split_last()
    else {
        return Ok(None);
    };
    if fold(name) != VARIADIC {
        return Ok(None);
    }
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    let refused = || SqlError::unsupported(format!("VARIADIC in a call of {}", function.name));
    let others: Option<Vec<Expr>> = others.iter().map(plain).collect();
    let (Some(others), Some(called)) = (others, unqualified(&function.name)) else { return Err(refused()) };
    let array = array.clone();
    let whole = match (called.as_str(), <[Expr; 1]>::try_from(others)) {
        ("concat", Err(none)) if none.is_empty() => call("array_to_string", vec![array, text("")]),
        ("jsonb_build_array", Err(none)) if none.is_empty() => call("to_jsonb", vec![array]),
        ("json_build_array" | "json_build_object" | "jsonb_build_object", Err(none)) if none.is_empty() => {
            call(&format!("coeval_{called}"), vec![array])
        }
        ("num_nulls", Err(none)) if none.is_empty() => call(NULL_ELEMENTS, vec![array]),
        ("num_nonnulls", Err(none)) if none.is_empty() => call(OTHER_ELEMENTS, vec![array]),
        ("concat_ws", Ok([delimiter])) => call("array_to_string", vec![array, delimiter]),
        ("format", Ok([pattern])) => call(FORMAT_ELEMENTS, vec![pattern, array]),
        ("json_extract_path" | "jsonb_extract_path", Ok([document])) => {
            call("coeval_json_path", vec![document, array])
        }
        ("json_extract_path_text" | "jsonb_extract_path_text", Ok([document])) => {
            call("coeval_json_path_text", vec![document, array])
        }
        _ => return Err(refused()),
    };
    Ok(Some(whole))
}
