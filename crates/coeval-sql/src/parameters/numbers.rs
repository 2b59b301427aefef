// SPDX-License-Identifier: Apache-2.0
//! Which parameter a name stands for, and which parameters a statement names.

use crate::error::{SqlError, SqlState};
use crate::walk::Walk;
use datafusion::sql::sqlparser::ast::{Expr, Statement, Value, ValueWithSpan, Visit, Visitor};
use std::ops::ControlFlow;

/// The index of the parameter of this name, of which `$1` has 0; `None` if it is none of `$1` to `$65535`.
pub(crate) fn index_of_name(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse::<u16>().ok()?.checked_sub(1).map(usize::from)
}

/// The index of the parameter that an expression is, within parentheses or not.
pub(crate) fn index_of(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Nested(inner) => index_of(inner),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => index_of_name(name),
            _ => None,
        },
        _ => None,
    }
}

/// The indexes of the parameters that syntax names, in the order of their places, each as often as it is named.
///
/// # Errors
/// `42P02` for parameters that are not `$1`, `$2`, ...
pub(crate) fn named_in<S: Visit>(syntax: &S) -> Result<Vec<usize>, SqlError> {
    struct Named(Vec<usize>);
    impl Visitor for Named {
        type Break = SqlError;
        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<SqlError> {
            if let Value::Placeholder(name) = &value.value {
                match index_of_name(name) {
                    Some(index) => self.0.push(index),
                    None => return ControlFlow::Break(no_parameter(name)),
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut named = Named(Vec::new());
    match syntax.walk(&mut named) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(named.0),
    }
}

/// How often syntax names each parameter, up to the one with the highest number.
///
/// # Errors
/// As [`named_in`].
pub(crate) fn places_in<S: Visit>(syntax: &S) -> Result<Vec<usize>, SqlError> {
    let named = named_in(syntax)?;
    let mut places = vec![0; named.iter().max().map_or(0, |index| index + 1)];
    named.into_iter().for_each(|index| places[index] += 1);
    Ok(places)
}

/// How many parameters syntax has: the highest number among them.
///
/// # Errors
/// As [`named_in`].
pub(crate) fn count<S: Visit>(syntax: &S) -> Result<usize, SqlError> {
    Ok(places_in(syntax)?.len())
}

/// Refuses parameters in a statement that is run without any.
///
/// # Errors
/// `42P02`, naming the parameter.
pub(crate) fn refuse_parameters(statement: &Statement) -> Result<(), SqlError> {
    match count(statement)? {
        0 => Ok(()),
        number => Err(no_parameter(&format!("${number}"))),
    }
}

fn no_parameter(name: &str) -> SqlError {
    SqlError::new(SqlState::UndefinedParameter, format!("there is no parameter {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn a_parameter_has_a_number_from_one_on() {
        assert_eq!(["$1", "$65535"].map(index_of_name), [Some(0), Some(65_534)]);
        assert_eq!(["$0", "$65536", "$a", "1", "$"].map(index_of_name), [None; 5]);
    }

    #[test]
    fn parameters_are_found_wherever_they_stand() {
        let parsed = |sql: &str| Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
        let insert = parsed("INSERT INTO t SELECT ($3), a FROM u WHERE b = $1 LIMIT $1");
        assert_eq!((named_in(&insert).unwrap(), count(&insert).unwrap()), (vec![2, 0, 0], 3));
        assert_eq!(refuse_parameters(&insert).unwrap_err().message, "there is no parameter $3");
        assert_eq!(named_in(&parsed("SELECT $0")).unwrap_err().state, SqlState::UndefinedParameter);
    }
}
