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

/// How often syntax names each parameter, by its index, up to the one with the highest number.
///
/// # Errors
/// `42P02` for parameters that are not `$1`, `$2`, ...
pub(crate) fn places_in<S: Visit>(syntax: &S) -> Result<Vec<usize>, SqlError> {
    struct Places(Vec<usize>);
    impl Visitor for Places {
        type Break = SqlError;
        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<SqlError> {
            if let Value::Placeholder(name) = &value.value {
                let Some(index) = index_of_name(name) else { return ControlFlow::Break(no_parameter(name)) };
                self.0.resize(self.0.len().max(index + 1), 0);
                self.0[index] += 1;
            }
            ControlFlow::Continue(())
        }
    }
    let mut places = Places(Vec::new());
    syntax.try_walk(&mut places)?;
    Ok(places.0)
}

/// How many parameters syntax has: the highest number among them.
///
/// # Errors
/// As [`places_in`].
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
        assert_eq!((places_in(&insert).unwrap(), count(&insert).unwrap()), (vec![2, 0, 1], 3));
        assert_eq!(refuse_parameters(&insert).unwrap_err().message, "there is no parameter $3");
        assert_eq!(places_in(&parsed("SELECT $0")).unwrap_err().state, SqlState::UndefinedParameter);
    }
}
