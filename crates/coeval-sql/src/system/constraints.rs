// SPDX-License-Identifier: Apache-2.0
//! `information_schema` on constraints.

use super::DATABASE_NAME;
use super::rows::{Rows, integer, table_defs, text, yes_or_no};
use crate::parse::as_given;
use coeval_store::{
    ColumnType, Deferral, ForeignKeyDef, ReferentialAction, TableDef, Transaction, Uniqueness, ValueRef,
};

const TEXT: ColumnType = ColumnType::Text;
const INT: ColumnType = ColumnType::Int;

/// A constraint of a table as the standard's views list them.
struct Listed<'a> {
    name: String,
    kind: &'static str,
    columns: Vec<usize>,
    foreign_key: Option<&'a ForeignKeyDef>,
}

/// The constraints of a table: keys, checks and, as PostgreSQL lists them, NOT NULL.
fn constraints(def: &TableDef) -> Vec<Listed<'_>> {
    let mut all = Vec::new();
    let mut push = |name: &str, kind, columns: &[usize], foreign_key| {
        all.push(Listed { name: name.to_owned(), kind, columns: columns.to_vec(), foreign_key });
    };
    if def.has_declared_primary_key() {
        push(&def.primary_key_name, "PRIMARY KEY", &def.primary_key, None);
    }
    for index in def.indexes.iter().filter(|index| index.uniqueness == Uniqueness::Constraint) {
        push(&index.name, "UNIQUE", &index.columns, None);
    }
    for foreign_key in &def.foreign_keys {
        push(&foreign_key.name, "FOREIGN KEY", &foreign_key.columns, Some(foreign_key));
    }
    for check in &def.checks {
        push(&check.name, "CHECK", &crate::stored::columns_named(def, &check.expression), None);
    }
    for (_, column) in def.live_columns().filter(|(_, column)| column.not_null) {
        push(&format!("{}_{}_not_null", def.name.name, column.name), "CHECK", &[], None);
    }
    all
}

pub(super) fn table_constraints(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "constraint_catalog constraint_schema constraint_name table_catalog table_schema"),
        (TEXT, "table_name constraint_type is_deferrable initially_deferred enforced"),
    ]);
    for (name, def) in table_defs(transaction) {
        for constraint in constraints(&def) {
            let deferral = constraint.foreign_key.map_or(Deferral::Never, |key| key.deferral);
            rows.push([
                text(DATABASE_NAME),
                text(&name.schema),
                text(&constraint.name),
                text(DATABASE_NAME),
                text(&name.schema),
                text(&name.name),
                text(constraint.kind),
                yes_or_no(deferral.is_deferrable()),
                yes_or_no(deferral == Deferral::Deferred),
                yes_or_no(true),
            ]);
        }
    }
    rows
}

pub(super) fn key_column_usage(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "constraint_catalog constraint_schema constraint_name table_catalog table_schema"),
        (TEXT, "table_name column_name"),
        (INT, "ordinal_position position_in_unique_constraint"),
    ]);
    for (name, def) in table_defs(transaction) {
        for constraint in constraints(&def).iter().filter(|constraint| constraint.kind != "CHECK") {
            for (position, &column) in constraint.columns.iter().enumerate() {
                let position = i32::try_from(position + 1).ok();
                rows.push([
                    text(DATABASE_NAME),
                    text(&name.schema),
                    text(&constraint.name),
                    text(DATABASE_NAME),
                    text(&name.schema),
                    text(&name.name),
                    text(&def.columns[column].name),
                    integer(position),
                    integer(constraint.foreign_key.and(position)),
                ]);
            }
        }
    }
    rows
}

/// The columns that constraints use: their own, and for a foreign key those of the parent.
pub(super) fn constraint_column_usage(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "table_catalog table_schema table_name column_name constraint_catalog"),
        (TEXT, "constraint_schema constraint_name"),
    ]);
    for (name, def) in table_defs(transaction) {
        for constraint in constraints(&def) {
            let (table, columns) = used(transaction, &def, &constraint);
            for column in columns {
                rows.push([
                    text(DATABASE_NAME),
                    text(&table.name.schema),
                    text(&table.name.name),
                    text(&table.columns[column].name),
                    text(DATABASE_NAME),
                    text(&name.schema),
                    text(&constraint.name),
                ]);
            }
        }
    }
    rows
}

/// The tables that constraints use.
pub(super) fn constraint_table_usage(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "table_catalog table_schema table_name constraint_catalog constraint_schema"),
        (TEXT, "constraint_name"),
    ]);
    for (name, def) in table_defs(transaction) {
        for constraint in constraints(&def).iter().filter(|constraint| constraint.kind != "CHECK") {
            let table = used(transaction, &def, constraint).0;
            rows.push([
                text(DATABASE_NAME),
                text(&table.name.schema),
                text(&table.name.name),
                text(DATABASE_NAME),
                text(&name.schema),
                text(&constraint.name),
            ]);
        }
    }
    rows
}

/// The table whose columns a constraint uses, and the columns.
fn used<'a>(
    transaction: &'a Transaction,
    def: &'a TableDef,
    constraint: &Listed<'a>,
) -> (&'a TableDef, Vec<usize>) {
    match constraint.foreign_key {
        Some(foreign_key) => match transaction.table_def(foreign_key.parent) {
            Ok(parent) => (parent, foreign_key.parent_columns.clone()),
            Err(_) => (def, Vec::new()),
        },
        None => (def, constraint.columns.clone()),
    }
}

/// What the checks say.
pub(super) fn check_constraints(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[(TEXT, "constraint_catalog constraint_schema constraint_name check_clause")]);
    for (name, def) in table_defs(transaction) {
        let checks = def.checks.iter();
        let checks = checks.map(|check| (check.name.clone(), format!("({})", as_given(&check.expression))));
        let not_null = def.live_columns().filter(|(_, column)| column.not_null).map(|(_, column)| {
            let constraint = format!("{}_{}_not_null", def.name.name, column.name);
            (constraint, format!("{} IS NOT NULL", column.name))
        });
        for (constraint, clause) in checks.chain(not_null) {
            rows.push([text(DATABASE_NAME), text(&name.schema), text(&constraint), text(&clause)]);
        }
    }
    rows
}

pub(super) fn referential_constraints(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "constraint_catalog constraint_schema constraint_name unique_constraint_catalog"),
        (TEXT, "unique_constraint_schema unique_constraint_name match_option update_rule delete_rule"),
    ]);
    for (name, def) in table_defs(transaction) {
        for foreign_key in &def.foreign_keys {
            let parent = transaction.table_def(foreign_key.parent).ok();
            let schema = parent.map(|parent| parent.name.schema.as_str());
            let key = parent.and_then(|parent| key_name(parent, &foreign_key.parent_columns));
            rows.push([
                text(DATABASE_NAME),
                text(&name.schema),
                text(&foreign_key.name),
                text(DATABASE_NAME),
                schema.map_or(ValueRef::Null, text),
                key.map_or(ValueRef::Null, text),
                text("NONE"),
                text(rule(foreign_key.on_update)),
                text(rule(foreign_key.on_delete)),
            ]);
        }
    }
    rows
}

/// The unique constraint or index of the parent that a foreign key relies on.
fn key_name<'a>(parent: &'a TableDef, columns: &[usize]) -> Option<&'a str> {
    if parent.primary_key == columns {
        return Some(&parent.primary_key_name);
    }
    let mut indexes = parent.indexes.iter();
    indexes.find(|index| index.uniqueness.is_unique() && index.columns == columns).map(|index| &*index.name)
}

fn rule(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "NO ACTION",
        ReferentialAction::Restrict => "RESTRICT",
        ReferentialAction::Cascade => "CASCADE",
        ReferentialAction::SetNull => "SET NULL",
        ReferentialAction::SetDefault => "SET DEFAULT",
    }
}
