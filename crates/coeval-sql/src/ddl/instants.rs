// SPDX-License-Identifier: Apache-2.0
//! Literals of instants in expressions that a definition keeps as text, and in statements that are prepared: they get the UTC offset that
//! they have in the time zone of the session that defines or prepares them.
//!
//! So `at < '2024-01-01'` in a view or a CHECK means one instant, whatever zone a reader or writer is in, and in a prepared statement
//! whatever zone its session has when it runs. A literal is one of an instant if it is cast to that type, compared with a column of it
//! or with `now()`, a choice beside such a one in CASE, `coalesce` and their like, or put into a column of it.

use crate::names::{fold, split_name};
use crate::query::compares;
use crate::types::{format_value, parse_value};
use crate::walk::{Walk, WalkMut};
use chrono_tz::Tz;
use coeval_store::{ColumnType, TableDef};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, Insert, ObjectName, ObjectNamePart, OnConflictAction, OnInsert, SetExpr, Statement, TableObject,
    TimezoneInfo, Value, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A zone that is hours away from the other one that texts are read in.
const FAR_AWAY: Tz = Tz::Asia__Tokyo;

/// Functions that give the time.
const TIMES_OF_NOW: [&str; 5] =
    ["now", "current_timestamp", "transaction_timestamp", "statement_timestamp", "clock_timestamp"];

/// Functions whose arguments are of one type.
const OF_ONE_TYPE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Puts the offset of this zone behind literals of instants that have none; columns are those of these tables.
pub(crate) fn fix<V: VisitMut>(syntax: &mut V, zone: Tz, tables: &[Arc<TableDef>]) {
    // Nothing breaks off the visit.
    let _ = syntax.walk_mut(&mut Fixer { zone, tables });
}

/// Whether there is a literal that would be another instant in another time zone, if it is one of an instant.
pub(crate) fn has_local<V: Visit>(syntax: &V) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            let literal = match expression {
                Expr::Value(value) => value,
                Expr::TypedString(typed) => &typed.value,
                _ => return ControlFlow::Continue(()),
            };
            match &literal.value {
                Value::SingleQuotedString(text) if is_local(text) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    syntax.walk(&mut Search).is_break()
}

/// Whether a text is a time without an offset.
fn is_local(text: &str) -> bool {
    let instant = |zone| parse_value(text, ColumnType::TimestampTz, zone).ok();
    instant(Tz::UTC) != instant(FAR_AWAY)
}

struct Fixer<'t> {
    zone: Tz,
    tables: &'t [Arc<TableDef>],
}

impl Fixer<'_> {
    /// Whether a name is that of a column that is an instant in all tables that have one of it.
    fn is_column_of_instants(&self, name: &Ident) -> bool {
        let name = fold(name);
        let columns = || {
            self.tables.iter().filter_map(|def| def.column_index(&name).map(|place| def.columns[place].ty))
        };
        columns().next().is_some() && columns().all(|ty| ty == ColumnType::TimestampTz)
    }

    fn is_instant(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Identifier(name) => self.is_column_of_instants(name),
            Expr::CompoundIdentifier(parts) => {
                parts.last().is_some_and(|name| self.is_column_of_instants(name))
            }
            Expr::Nested(inner) => self.is_instant(inner),
            Expr::Cast { data_type, .. } => is_instant_type(data_type),
            Expr::TypedString(typed) => is_instant_type(&typed.data_type),
            Expr::Function(function) => is_any(function, &TIMES_OF_NOW),
            _ => false,
        }
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
        // What is wrong with a text is said where it is read.
        let Ok(meant) = parse_value(text, ColumnType::TimestampTz, self.zone) else { return };
        if !is_local(text) {
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
}

impl Fixer<'_> {
    /// Of several expressions of one type.
    fn fix_choices(&self, choices: &mut [&mut Expr]) {
        if choices.iter().any(|choice| self.is_instant(choice)) {
            choices.iter_mut().for_each(|choice| self.fix_literal(choice));
        }
    }

    fn fix_arguments(&self, function: &mut Function) {
        let FunctionArguments::List(list) = &mut function.args else { return };
        let arguments = list.args.iter_mut().filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
            _ => None,
        });
        self.fix_choices(&mut arguments.collect::<Vec<_>>());
    }

    fn fix_assignments(&self, assignments: &mut [Assignment]) {
        for Assignment { target, value } in assignments {
            if let AssignmentTarget::ColumnName(column) = target
                && last_name(column).is_some_and(|name| self.is_column_of_instants(name))
            {
                self.fix_literal(value);
            }
        }
    }

    /// What is put into the columns of a table.
    fn fix_insert(&self, insert: &mut Insert) {
        if let Some(OnInsert::OnConflict(clause)) = &mut insert.on
            && let OnConflictAction::DoUpdate(update) = &mut clause.action
        {
            self.fix_assignments(&mut update.assignments);
        }
        let (TableObject::TableName(name), Some(source)) = (&insert.table, &mut insert.source) else {
            return;
        };
        let Ok((_, name)) = split_name(name) else { return };
        let Some(def) = self.tables.iter().find(|def| def.name.name == name) else { return };
        let types: Vec<Option<ColumnType>> = if insert.columns.is_empty() {
            def.live_columns().map(|(_, column)| Some(column.ty)).collect()
        } else {
            let named = |column: &ObjectName| def.column_index(&fold(last_name(column)?));
            insert.columns.iter().map(|column| named(column).map(|place| def.columns[place].ty)).collect()
        };
        let SetExpr::Values(values) = source.body.as_mut() else { return };
        for row in &mut values.rows {
            for (value, ty) in row.content.iter_mut().zip(&types) {
                if *ty == Some(ColumnType::TimestampTz) {
                    self.fix_literal(value);
                }
            }
        }
    }
}

fn last_name(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(ObjectNamePart::as_ident)
}

fn is_any(function: &Function, names: &[&str]) -> bool {
    last_name(&function.name).is_some_and(|name| names.contains(&fold(name).as_str()))
}

fn is_instant_type(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz))
}

impl VisitorMut for Fixer<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
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
            Expr::Function(function) if is_any(function, &OF_ONE_TYPE) => self.fix_arguments(function),
            Expr::Case { conditions, else_result, .. } => {
                let results = conditions.iter_mut().map(|when| &mut when.result);
                self.fix_choices(&mut results.chain(else_result.as_deref_mut()).collect::<Vec<_>>());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        match statement {
            Statement::Insert(insert) => self.fix_insert(insert),
            Statement::Update(update) => self.fix_assignments(&mut update.assignments),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
