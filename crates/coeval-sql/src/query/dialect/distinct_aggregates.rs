// SPDX-License-Identifier: Apache-2.0
//! `array_agg(DISTINCT x ORDER BY y)`, which has no answer: of equal values of `x` there may be several of `y`.

use super::{are_same, plain_arguments, unqualified};
use crate::error::{SqlError, SqlState};
use crate::functions::is_aggregate;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Function, FunctionArgumentClause, FunctionArguments,
};

/// Refuses an order by what is no argument.
///
/// # Errors
/// `42P10`.
pub(super) fn check_order(function: &Function) -> Result<(), SqlError> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    // Of a function that is not there, that is said.
    let is_known = unqualified(&function.name).is_some_and(|name| is_aggregate(&name));
    if list.duplicate_treatment != Some(DuplicateTreatment::Distinct) || !is_known {
        return Ok(());
    }
    let arguments = plain_arguments(&list.args);
    let mut keys = list.clauses.iter().flat_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(keys) => keys.as_slice(),
        _ => &[],
    });
    if keys.all(|key| arguments.iter().any(|argument| are_same(argument, &key.expr))) {
        return Ok(());
    }
    let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
    Err(SqlError::new(SqlState::InvalidColumnReference, message))
}
