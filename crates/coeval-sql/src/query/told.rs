// SPDX-License-Identifier: Apache-2.0
//! What a statement itself says about the types of its parameters: `$1::int`, `LIMIT $1`, `NOT $1`, `left(x, $1)`.

use super::dialect::plain_type;
use crate::names::fold;
use crate::types::{NUMERIC_SCALE_DEFAULT, column_type};
use crate::walk::Walk;
use coeval_store::{ColumnType, NUMERIC_PRECISION_MAX};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    LimitClause, Query, Select, Statement, UnaryOperator, Value, Visitor,
};
use std::ops::ControlFlow;

/// The types of the parameters as far as they are known, or told by the statement. What is known stays.
pub(crate) fn told_types(statement: &Statement, known: &[Option<ColumnType>]) -> Vec<Option<ColumnType>> {
    let mut told = Told { types: known.to_vec() };
    // Nothing breaks off the visit.
    let _ = statement.walk(&mut told);
    told.types
}

struct Told {
    types: Vec<Option<ColumnType>>,
}

impl Told {
    /// Notes the type of an expression, if it is a parameter. The first type that is noted stays, as in PostgreSQL.
    fn tell(&mut self, expression: &Expr, ty: ColumnType) {
        match expression {
            Expr::Nested(inner) => self.tell(inner, ty),
            Expr::Value(value) => {
                if let Value::Placeholder(name) = &value.value
                    && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse::<u16>().ok())
                    && let Some(index) = usize::from(number).checked_sub(1)
                {
                    if self.types.len() <= index {
                        self.types.resize(index + 1, None);
                    }
                    self.types[index].get_or_insert(ty);
                }
            }
            _ => {}
        }
    }
}

impl Told {
    fn tell_arguments(&mut self, function: &Function) {
        let Some(name) = function.name.0.last().and_then(|part| part.as_ident()) else { return };
        let FunctionArguments::List(list) = &function.args else { return };
        for (argument, ty) in list.args.iter().zip(arguments_of(&fold(name), list.args.len())) {
            if let (FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)), Some(ty)) = (argument, ty) {
                self.tell(argument, *ty);
            }
        }
    }
}

/// The type of a parameter that is cast to this one; `None` if the cast has to do more than to read it.
fn read_as(ty: &DataType) -> Option<ColumnType> {
    match column_type(&plain_type(ty)?).ok()? {
        // The cast cuts the text off; a parameter of this type would refuse it.
        ColumnType::Varchar(_) | ColumnType::Char(_) => Some(ColumnType::Text),
        ty => Some(ty),
    }
}

impl Visitor for Told {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            let rows = limit.iter().chain(offset.iter().map(|offset| &offset.value));
            rows.for_each(|count| self.tell(count, ColumnType::BigInt));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let conditions = select.selection.iter().chain(&select.having);
        conditions.for_each(|condition| self.tell(condition, ColumnType::Boolean));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
                if let Some(ty) = read_as(data_type) {
                    self.tell(expr, ty);
                }
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr }
            | Expr::IsTrue(expr)
            | Expr::IsNotTrue(expr)
            | Expr::IsFalse(expr)
            | Expr::IsNotFalse(expr) => self.tell(expr, ColumnType::Boolean),
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                self.tell(left, ColumnType::Boolean);
                self.tell(right, ColumnType::Boolean);
            }
            Expr::Case { operand: None, conditions, .. } => {
                conditions.iter().for_each(|when| self.tell(&when.condition, ColumnType::Boolean));
            }
            // With commas; between FROM and FOR there may be patterns.
            Expr::Substring { substring_from, substring_for, special: true, .. } => {
                substring_from
                    .iter()
                    .chain(substring_for)
                    .for_each(|place| self.tell(place, ColumnType::Int));
            }
            Expr::Function(function) => self.tell_arguments(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// What the arguments of functions are whose other arguments do not say it; `None`: something else says it.
fn arguments_of(function: &str, count: usize) -> &'static [Option<ColumnType>] {
    const INT: Option<ColumnType> = Some(ColumnType::Int);
    const FLOAT: Option<ColumnType> = Some(ColumnType::Double);
    const TEXT: Option<ColumnType> = Some(ColumnType::Text);
    const NUMERIC: Option<ColumnType> =
        Some(ColumnType::Numeric { precision: NUMERIC_PRECISION_MAX, scale: NUMERIC_SCALE_DEFAULT });
    match (function, count) {
        ("substr" | "substring", 2 | 3) => &[None, INT, INT],
        ("left" | "right" | "repeat", 2) => &[None, INT],
        ("round" | "trunc", 2) => &[NUMERIC, INT],
        ("lpad" | "rpad", 2 | 3) => &[TEXT, INT, TEXT],
        ("split_part", 3) => &[TEXT, TEXT, INT],
        ("chr" | "ntile", 1) => &[INT],
        ("lag" | "lead", 2 | 3) | ("nth_value", 2) => &[None, INT],
        ("make_date", 3) => &[INT, INT, INT],
        ("power" | "pow", 2) => &[FLOAT, FLOAT],
        (
            "abs" | "sqrt" | "exp" | "ln" | "ceil" | "ceiling" | "floor" | "round" | "trunc" | "to_timestamp"
            | "pg_sleep",
            1,
        ) => &[FLOAT],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn told(sql: &str, known: &[Option<ColumnType>]) -> Vec<Option<ColumnType>> {
        told_types(&Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap()[0], known)
    }

    #[test]
    fn a_cast_and_a_limit_tell_the_type_of_a_parameter() {
        let sql = "SELECT $1::int + 1, CAST(($2) AS date), $3::varchar(3), $4::\"pg_catalog\".\"int8\", $5::regclass \
                   FROM t LIMIT $6 OFFSET $7";
        let cast = [ColumnType::Int, ColumnType::Date, ColumnType::Text, ColumnType::BigInt].map(Some);
        let counts = [ColumnType::BigInt; 2].map(Some);
        assert_eq!(told(sql, &[]), [&cast[..], &[None], &counts].concat());
    }

    #[test]
    fn conditions_and_functions_tell_the_types_of_their_parameters() {
        let sql = "SELECT NOT $1, CASE WHEN $2 THEN 1 END, substr(x, $3, $4), substring(x FROM $5 FOR 2), lpad($6, $7), \
                   pg_catalog.left(x, $8), power($9, 2), make_date(2026, $10, 1) FROM t WHERE $11 AND ($12 OR a)";
        let [boolean, int, text] = [ColumnType::Boolean, ColumnType::Int, ColumnType::Text].map(Some);
        let wanted = [
            boolean,
            boolean,
            int,
            int,
            None,
            text,
            int,
            int,
            Some(ColumnType::Double),
            int,
            boolean,
            boolean,
        ];
        assert_eq!(told(sql, &[]), wanted);
    }

    #[test]
    fn what_the_client_declares_stays() {
        assert_eq!(told("SELECT $1::int", &[Some(ColumnType::Text)]), [Some(ColumnType::Text)]);
        assert_eq!(told("SELECT $1::int, $1::text", &[None]), [Some(ColumnType::Int)]);
    }

    #[test]
    fn what_is_rounded_to_digits_is_numeric() {
        let numeric = ColumnType::Numeric { precision: NUMERIC_PRECISION_MAX, scale: NUMERIC_SCALE_DEFAULT };
        assert_eq!(told("SELECT round($1, $2)", &[]), [Some(numeric), Some(ColumnType::Int)]);
    }
}
