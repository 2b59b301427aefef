// SPDX-License-Identifier: Apache-2.0
//! What a statement itself says about the types of its parameters: `$1::int`, `LIMIT $1`.

use super::dialect::plain_type;
use crate::types::column_type;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, LimitClause, Query, Statement, Value, Visit, Visitor,
};
use std::ops::ControlFlow;

/// The types of the parameters as far as they are known, or told by the statement. What is known stays.
pub(crate) fn told_types(statement: &Statement, known: &[Option<ColumnType>]) -> Vec<Option<ColumnType>> {
    let mut told = Told { types: known.to_vec() };
    // Nothing breaks off the visit.
    let _ = statement.visit(&mut told);
    told.types
}

struct Told {
    types: Vec<Option<ColumnType>>,
}

impl Told {
    /// The expression is of this type, if it is a parameter. Who is told first is right, as in PostgreSQL.
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

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } = expression
            && let Some(ty) = read_as(data_type)
        {
            self.tell(expr, ty);
        }
        ControlFlow::Continue(())
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
    fn what_the_client_declares_stays() {
        assert_eq!(told("SELECT $1::int", &[Some(ColumnType::Text)]), [Some(ColumnType::Text)]);
        assert_eq!(told("SELECT $1::int, $1::text", &[None]), [Some(ColumnType::Int)]);
    }
}
