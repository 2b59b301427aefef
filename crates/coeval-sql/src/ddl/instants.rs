// SPDX-License-Identifier: Apache-2.0
//! Literals of instants in expressions that a definition keeps as text: they get the UTC offset that they have in the time zone
//! of the session that defines it.
//!
//! So `at < '2024-01-01'` in a view or a CHECK means one instant, whatever zone a reader or writer is in. A literal is one of
//! an instant if it is cast to that type, or compared with a column of it.

use crate::query::compares;
use crate::types::{format_value, parse_value};
use crate::walk::change_expressions;
use chrono_tz::Tz;
use coeval_store::{ColumnType, TableDef};
use datafusion::sql::sqlparser::ast::{DataType, Expr, TimezoneInfo, Value, ValueWithSpan, VisitMut};
use std::sync::Arc;

/// A zone that is hours away from the other one that texts are read in.
const FAR_AWAY: Tz = Tz::Asia__Tokyo;

/// Puts the offset of this zone behind literals of instants that have none; columns are those of these tables.
pub(super) fn fix<V: VisitMut>(syntax: &mut V, zone: Tz, tables: &[Arc<TableDef>]) {
    let fixer = Fixer { zone, tables };
    change_expressions(syntax, |expression| fixer.fix_within(expression));
}

struct Fixer<'t> {
    zone: Tz,
    tables: &'t [Arc<TableDef>],
}

impl Fixer<'_> {
    /// Whether the expression is a column that is an instant in all tables that have one of its name.
    fn is_instant(&self, expression: &Expr) -> bool {
        let name = match expression {
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(parts) => match parts.last() {
                Some(name) => name,
                None => return false,
            },
            Expr::Nested(inner) => return self.is_instant(inner),
            _ => return false,
        };
        let name = crate::names::fold(name);
        let columns = || {
            self.tables.iter().filter_map(|def| def.column_index(&name).map(|place| def.columns[place].ty))
        };
        columns().next().is_some() && columns().all(|ty| ty == ColumnType::TimestampTz)
    }

    fn fix_literal(&self, expression: &mut Expr) {
        match expression {
            Expr::Value(value) => self.fix_value(value),
            Expr::Nested(inner) => self.fix_literal(inner),
            _ => {}
        }
    }

    fn fix_value(&self, literal: &mut ValueWithSpan) {
        let Value::SingleQuotedString(text) = &literal.value else { return };
        let instant = |zone| parse_value(text, ColumnType::TimestampTz, zone).ok();
        // What is wrong with a text is said where it is read.
        let Some(meant) = instant(self.zone) else { return };
        if instant(Tz::UTC) == instant(FAR_AWAY) {
            return;
        }
        let mut fixed = String::new();
        format_value(meant.borrow(), ColumnType::TimestampTz, self.zone, &mut fixed);
        literal.value = Value::SingleQuotedString(fixed);
    }

    fn fix_beside(&self, sides: [&mut Expr; 2]) {
        let [left, right] = sides;
        if self.is_instant(left) {
            self.fix_literal(right);
        } else if self.is_instant(right) {
            self.fix_literal(left);
        }
    }

    fn fix_within(&self, expression: &mut Expr) {
        match expression {
            Expr::Cast { expr, data_type, .. } if is_instant_type(data_type) => self.fix_literal(expr),
            Expr::TypedString(typed) if is_instant_type(&typed.data_type) => self.fix_value(&mut typed.value),
            Expr::BinaryOp { left, op, right } if compares(op) => self.fix_beside([left, right]),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.fix_beside([left, right]);
            }
            Expr::Between { expr, low, high, .. } if self.is_instant(expr) => {
                self.fix_literal(low);
                self.fix_literal(high);
            }
            Expr::InList { expr, list, .. } if self.is_instant(expr) => {
                list.iter_mut().for_each(|member| self.fix_literal(member));
            }
            _ => {}
        }
    }
}

fn is_instant_type(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz))
}
