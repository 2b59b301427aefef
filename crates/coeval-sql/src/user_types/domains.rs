// SPDX-License-Identifier: Apache-2.0
//! Domains in statements: a cast to one is a cast to the type below, and a look at what the domain asks of the value.

use crate::column_name::IN_DOMAIN;
use crate::parse::parse_expression;
use crate::select::call;
use crate::types::resolved_enum;
use crate::walk::change_expressions;
use coeval_store::{ColumnType, DomainDef};
use datafusion::sql::sqlparser::ast::{DataType, Expr, Value};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// A domain's check with an expression where it says `VALUE`.
pub(crate) fn with_value(mut check: Expr, value: &Expr) -> Expr {
    change_expressions(&mut check, |expression| {
        let is_value = matches!(&*expression, Expr::Identifier(ident)
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("value"));
        if is_value {
            *expression = nested(value);
        }
    });
    check
}

/// The type of a domain's values, as a cast to it names it.
pub(crate) fn base_type(domain: &DomainDef) -> DataType {
    if let ColumnType::Enum(ty) = domain.ty {
        return resolved_enum(ty);
    }
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).try_with_sql(&domain.declared);
    // It was written by the parser itself.
    parser.and_then(|mut parser| parser.parse_data_type()).unwrap_or(DataType::Text)
}

/// A cast to the type of a domain's values, with all that the domain asks of them.
pub(super) fn checked(cast: &Expr, domain: &DomainDef) -> Expr {
    let name = domain.name.to_string();
    let mut checked = cast.clone();
    if domain.not_null {
        let condition = Expr::IsNotNull(Box::new(nested(cast)));
        checked = in_domain(checked, condition, "", &name);
    }
    for check in &domain.checks {
        // What cannot be read lets nothing pass.
        let nothing = |_| Expr::Value(Value::Boolean(false).into());
        let condition = with_value(parse_expression(&check.expression).unwrap_or_else(nothing), cast);
        checked = in_domain(checked, nested(&condition), &check.name, &name);
    }
    // The function knows no lengths: the type has them.
    crate::select::cast(nested(&checked), base_type(domain))
}

/// The value, if it is in a domain by this condition. A check without a name is that for NOT NULL.
fn in_domain(value: Expr, condition: Expr, check: &str, domain: &str) -> Expr {
    let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
    call(IN_DOMAIN, vec![value, condition, text(check), text(domain)])
}

fn nested(expression: &Expr) -> Expr {
    Expr::Nested(Box::new(expression.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_stands_wherever_a_check_says_so() {
        let check = parse_expression("length(VALUE) > 2 AND \"value\" <> value").unwrap();
        let value = parse_expression("a + 1").unwrap();
        assert_eq!(with_value(check, &value).to_string(), "length((a + 1)) > 2 AND \"value\" <> (a + 1)");
    }
}
