// SPDX-License-Identifier: Apache-2.0
//! Parameters that are arrays. Their values are texts like `{1,2}`, which the statement reads as arrays: so it says
//! itself, or so the client declared them.

use crate::parameters::index_of;
use crate::types::{ParameterType, array_elements};
use crate::walk::{any_expression, change_expressions, try_change_expressions};
use coeval_store::Value;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, Value as Literal};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Members that are looked up one by one at most; more are for a scan.
const MEMBERS_MAX: usize = 1_000;

/// The statement with a cast at each parameter that was declared an array, but where it is compared with: there it is
/// read as an array of the type of what it is compared with.
pub(super) fn with_casts(mut statement: Statement, types: &[Option<ParameterType>]) -> Statement {
    let cast_lists = |expression: &mut Expr| {
        if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expression
            && let Expr::Cast { expr, .. } = right.as_mut()
            && index_of(expr)
                .is_some_and(|place| matches!(types.get(place), Some(Some(ParameterType::List(_)))))
        {
            let compared = expr.as_ref().clone();
            **right = compared;
        } else if let Some(place) = index_of(expression)
            && let Some(Some(ParameterType::List(element))) = types.get(place)
        {
            let text = format!("${}::{element}[]", place + 1);
            let cast = Parser::new(&PostgreSqlDialect {})
                .try_with_sql(&text)
                .and_then(|mut parser| parser.parse_expr());
            *expression = cast.expect("a type's name is read again");
        }
    };
    if types.iter().any(|ty| matches!(ty, Some(ParameterType::List(_)))) {
        change_expressions(&mut statement, cast_lists);
    }
    statement
}

/// The parameter that `= ANY` compares with, with or without a cast.
fn compared(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => compared(inner),
        other => index_of(other),
    }
}

/// The statement with `x = ANY($1)` as `x IN ('1', '2')`, so that its rows can be found by key; `None` if it has no such
/// condition, or one with too many members.
pub(super) fn spelled_out(statement: &Statement, values: &[Value]) -> Option<Statement> {
    let (mut spelled, mut found) = (statement.clone(), false);
    let done = try_change_expressions(&mut spelled, |expression| {
        let Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } = expression else {
            return Ok(());
        };
        let Some(Value::Text(text)) = compared(right).and_then(|place| values.get(place)) else {
            return Ok(());
        };
        match array_elements(text) {
            Ok(members) if !members.is_empty() && members.len() <= MEMBERS_MAX => {
                let list = members.into_iter().map(literal).collect();
                let expr = Box::new(left.as_ref().clone());
                *expression = Expr::InList { expr, list, negated: false };
                found = true;
                Ok(())
            }
            Ok(_) | Err(_) => Err(()),
        }
    });
    (done.is_ok() && found).then_some(spelled)
}

/// Whether the statement compares with an array that is a parameter.
pub(super) fn compares_with_lists(statement: &Statement) -> bool {
    any_expression(statement, |expression| match expression {
        Expr::AnyOp { compare_op: BinaryOperator::Eq, right, .. } => compared(right).is_some(),
        _ => false,
    })
}

fn literal(member: Option<String>) -> Expr {
    let value = member.map_or(Literal::Null, Literal::SingleQuotedString);
    Expr::Value(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::ColumnType;

    fn parse(sql: &str) -> Statement {
        Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap().parse_statement().unwrap()
    }

    #[test]
    fn declared_arrays_are_cast_where_they_stand() {
        let list = |ty| Some(ParameterType::List(ty));
        let types = [list(ColumnType::Int), None, list(ColumnType::TimestampTz)];
        let cast = with_casts(parse("SELECT $2, unnest($1) FROM t WHERE a = ANY($3) AND $3 IS NULL"), &types);
        let expected = "SELECT $2, unnest($1::INTEGER[]) FROM t WHERE a = ANY($3) \
             AND $3::TIMESTAMP WITH TIME ZONE[] IS NULL";
        assert_eq!(cast.to_string(), expected);
    }

    #[test]
    fn comparisons_with_arrays_are_spelled_out() {
        let text = |text: &str| Value::Text(text.into());
        let statement = parse("SELECT 1 FROM t WHERE a = ANY($1::int[]) AND b = ANY($2)");
        assert!(compares_with_lists(&statement));
        let spelled = spelled_out(&statement, &[text("{1,NULL}"), text("{x,\"y,\"}")]).unwrap();
        assert_eq!(spelled.to_string(), "SELECT 1 FROM t WHERE a IN ('1', NULL) AND b IN ('x', 'y,')");
        assert_eq!(spelled_out(&statement, &[text("{}"), text("{x}")]), None);
        assert_eq!(spelled_out(&statement, &[Value::Null, Value::Null]), None);
        assert!(!compares_with_lists(&parse("SELECT 1 FROM t WHERE a = ANY(ARRAY[1])")));
    }
}
