// SPDX-License-Identifier: Apache-2.0
//! `pg_constraint`, `pg_depend` and the rules of views that dependencies go by, and constraints by their ids.

use super::classes::{column_number, column_numbers};
use super::deparse::{self, Style};
use super::objects::{Class, Kind, Objects};
use super::rows::{Cell, Table};
use crate::oids;
use coeval_store::{
    CheckDef, ColumnDef, Deferral, ForeignKeyDef, ReferentialAction, TableDef, Uniqueness, Validity, ViewDef,
};
use std::sync::Arc;

/// Whether this module knows the relation.
pub(super) fn has(name: &str) -> bool {
    matches!(name, "pg_constraint" | "pg_depend" | "pg_rewrite")
}

/// Fills the relation if this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, objects: &Objects) {
    match name {
        "pg_constraint" => objects.tables().flat_map(of_table).for_each(|one| push(table, &one, objects)),
        "pg_depend" => push_dependencies(table, objects),
        "pg_rewrite" => push_rules(table, objects),
        _ => {}
    }
}

/// What kind of constraint it is.
#[derive(Clone, Debug)]
enum Rule {
    PrimaryKey,
    /// By the place of its index.
    Unique(usize),
    Check(CheckDef),
    ForeignKey(ForeignKeyDef),
}

/// A constraint of a table.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    pub(super) oid: i32,
    pub(super) name: String,
    table: Arc<TableDef>,
    rule: Rule,
}

/// The constraints of a table.
pub(super) fn of_table(table: &Arc<TableDef>) -> Vec<Constraint> {
    let one = |name: &str, rule| Constraint {
        oid: oids::of_constraint(table.id, name),
        name: name.to_owned(),
        table: table.clone(),
        rule,
    };
    let mut all = Vec::new();
    if table.has_declared_primary_key() {
        all.push(one(&table.primary_key_name, Rule::PrimaryKey));
    }
    let indexes = table.indexes.iter().enumerate();
    let unique = indexes.filter(|(_, index)| index.uniqueness == Uniqueness::Constraint);
    all.extend(unique.map(|(place, index)| one(&index.name, Rule::Unique(place))));
    all.extend(table.checks.iter().map(|check| one(&check.name, Rule::Check(check.clone()))));
    let references = table.foreign_keys.iter();
    all.extend(references.map(|reference| one(&reference.name, Rule::ForeignKey(reference.clone()))));
    all
}

/// The constraint with this id.
pub(super) fn by_oid(objects: &Objects, oid: i32) -> Option<Constraint> {
    objects.tables().flat_map(of_table).find(|constraint| constraint.oid == oid)
}

impl Constraint {
    /// What it says, as it stands behind its name.
    pub(super) fn definition(&self, objects: &Objects, style: Style) -> String {
        let text = match &self.rule {
            Rule::PrimaryKey => deparse::key("PRIMARY KEY", &self.table, &self.table.primary_key),
            Rule::Unique(place) => deparse::key("UNIQUE", &self.table, &self.table.indexes[*place].columns),
            Rule::Check(check) => deparse::check(&check.expression, style),
            Rule::ForeignKey(reference) => deparse::foreign_key(objects, &self.table, reference),
        };
        if self.validity().is_valid() { text } else { text + " NOT VALID" }
    }

    fn validity(&self) -> Validity {
        match &self.rule {
            Rule::Check(check) => check.validity,
            Rule::ForeignKey(reference) => reference.validity,
            Rule::PrimaryKey | Rule::Unique(_) => Validity::Valid,
        }
    }

    /// The index it stands on; that of the parent for a foreign key.
    fn index(&self, objects: &Objects) -> i32 {
        match &self.rule {
            Rule::PrimaryKey => oids::of_primary_key(self.table.id),
            Rule::Unique(place) => oids::of_space(self.table.indexes[*place].id),
            Rule::Check(_) => 0,
            Rule::ForeignKey(reference) => parent_index(objects, reference).unwrap_or(0),
        }
    }

    fn letter(&self) -> &'static str {
        match self.rule {
            Rule::PrimaryKey => "p",
            Rule::Unique(_) => "u",
            Rule::Check(_) => "c",
            Rule::ForeignKey(_) => "f",
        }
    }

    fn columns(&self) -> Cell {
        match &self.rule {
            Rule::PrimaryKey => column_numbers(&self.table, &self.table.primary_key),
            Rule::Unique(place) => column_numbers(&self.table, &self.table.indexes[*place].columns),
            Rule::Check(check) => columns_of_check(&self.table, check),
            Rule::ForeignKey(reference) => column_numbers(&self.table, &reference.columns),
        }
    }
}

/// The columns that a check names, by number.
fn columns_of_check(table: &TableDef, check: &CheckDef) -> Cell {
    let named = crate::stored::columns_named(table, &check.expression);
    if named.is_empty() { Cell::Null } else { column_numbers(table, &named) }
}

/// The index of the parent's key that a foreign key relies on.
fn parent_index(objects: &Objects, reference: &ForeignKeyDef) -> Option<i32> {
    let parent = objects.definitions.table(reference.parent)?;
    if parent.primary_key == reference.parent_columns {
        return Some(oids::of_primary_key(parent.id));
    }
    let mut indexes = parent.indexes.iter();
    let found =
        indexes.find(|index| index.uniqueness.is_unique() && index.columns == reference.parent_columns);
    found.map(|index| oids::of_space(index.id))
}

fn push(table: &mut Table, constraint: &Constraint, objects: &Objects) {
    let reference = if let Rule::ForeignKey(reference) = &constraint.rule { Some(reference) } else { None };
    let parent = reference.and_then(|reference| objects.definitions.table(reference.parent));
    let parent_columns = match (reference, parent) {
        (Some(reference), Some(parent)) => column_numbers(parent, &reference.parent_columns),
        _ => Cell::Null,
    };
    let action =
        |of: fn(&ForeignKeyDef) -> ReferentialAction| reference.map_or(" ", |one| action_letter(of(one)));
    let deferral = reference.map_or(Deferral::Never, |reference| reference.deferral);
    let expression =
        if let Rule::Check(check) = &constraint.rule { Some(check.expression.clone()) } else { None };
    table.push([
        ("oid", constraint.oid.into()),
        ("conname", constraint.name.as_str().into()),
        ("connamespace", oids::of_schema(&constraint.table.name.schema).into()),
        ("contype", constraint.letter().into()),
        ("condeferrable", deferral.is_deferrable().into()),
        ("condeferred", (deferral == Deferral::Deferred).into()),
        ("convalidated", constraint.validity().is_valid().into()),
        ("conrelid", oids::of_space(constraint.table.id).into()),
        ("conindid", constraint.index(objects).into()),
        ("confrelid", reference.map_or(0, |reference| oids::of_space(reference.parent)).into()),
        ("confupdtype", action(|one| one.on_update).into()),
        ("confdeltype", action(|one| one.on_delete).into()),
        ("confmatchtype", (if reference.is_some() { "s" } else { " " }).into()),
        ("conislocal", true.into()),
        ("connoinherit", (!matches!(constraint.rule, Rule::Check(_))).into()),
        ("conkey", constraint.columns()),
        ("confkey", parent_columns),
        ("conbin", expression.into()),
    ]);
}

fn action_letter(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "a",
        ReferentialAction::Restrict => "r",
        ReferentialAction::Cascade => "c",
        ReferentialAction::SetNull => "n",
        ReferentialAction::SetDefault => "d",
    }
}

/// What goes with what: sequences with their columns, indexes with their tables or constraints, defaults with
/// their columns.
fn push_dependencies(table: &mut Table, objects: &Objects) {
    for class in &objects.classes {
        match &class.kind {
            Kind::Sequence(sequence) => {
                let Some((owner, column)) = sequence.owned_by else { continue };
                let Some(def) = objects.definitions.table(owner) else { continue };
                let Some(number) = column_number(def, column) else { continue };
                let kind = if def.columns[column].identity.is_some() { "i" } else { "a" };
                depend(
                    table,
                    (oids::PG_CLASS, class.oid),
                    (oids::PG_CLASS, oids::of_space(owner), number),
                    kind,
                );
            }
            Kind::PrimaryKey(def) => depend_on_constraint(table, class, def, &def.primary_key_name),
            Kind::Index(def, place) if def.indexes[*place].uniqueness == Uniqueness::Constraint => {
                depend_on_constraint(table, class, def, &class.name);
            }
            Kind::Index(def, place) => {
                for column in &def.indexes[*place].columns {
                    let number = column_number(def, *column).unwrap_or_default();
                    let on = (oids::PG_CLASS, oids::of_space(def.id), number);
                    depend(table, (oids::PG_CLASS, class.oid), on, "a");
                }
            }
            Kind::Table(def) => {
                let on = (oids::PG_NAMESPACE, oids::of_schema(&class.schema), 0);
                depend(table, (oids::PG_CLASS, class.oid), on, "n");
                for (index, column) in def.live_columns().filter(|(_, column)| column.identity.is_none()) {
                    if column.default.is_some() || column.sequence.is_some() {
                        let number = column_number(def, index).unwrap_or_default();
                        let from = (oids::PG_ATTRDEF, oids::of_default(def.id, index));
                        depend(table, from, (oids::PG_CLASS, class.oid, number), "a");
                        for sequence in sequences_of_default(objects, column) {
                            depend(table, from, (oids::PG_CLASS, sequence, 0), "n");
                        }
                    }
                }
            }
            Kind::View(view) => depend_on_relations(table, class, view, objects),
            Kind::System(_) => {}
        }
    }
}

/// The sequences that a column's default takes values from.
fn sequences_of_default(objects: &Objects, column: &ColumnDef) -> Vec<i32> {
    let named = column.default.as_deref().map(crate::stored::sequences_named).unwrap_or_default();
    let found = named.iter().filter_map(|(schema, name)| objects.class_named(schema.as_deref(), name));
    column.sequence.map(oids::of_sequence).into_iter().chain(found.map(|class| class.oid)).collect()
}

/// The rule that stands for a view's query.
fn rule_oid(class: &Class) -> i32 {
    oids::of_name("rule", &class.schema, &class.name)
}

/// A view's rule goes with the view, and with what its query names.
fn depend_on_relations(table: &mut Table, class: &Class, view: &ViewDef, objects: &Objects) {
    let rule = (oids::PG_REWRITE, rule_oid(class));
    depend(table, rule, (oids::PG_CLASS, class.oid, 0), "i");
    depend(table, rule, (oids::PG_CLASS, class.oid, 0), "n");
    for (schema, name) in crate::stored::relations_of_view(view) {
        if let Some(named) = objects.class_named(schema.as_deref(), &name) {
            depend(table, rule, (oids::PG_CLASS, named.oid, 0), "n");
        }
    }
}

/// The rules behind views.
fn push_rules(table: &mut Table, objects: &Objects) {
    for class in objects.classes.iter().filter(|class| matches!(class.kind, Kind::View(_))) {
        table.push([
            ("oid", rule_oid(class).into()),
            ("rulename", "_RETURN".into()),
            ("ev_class", class.oid.into()),
            ("ev_type", "1".into()),
            ("ev_enabled", "O".into()),
            ("is_instead", true.into()),
        ]);
    }
}

fn depend_on_constraint(table: &mut Table, class: &Class, def: &TableDef, name: &str) {
    let constraint = oids::of_constraint(def.id, name);
    depend(table, (oids::PG_CLASS, class.oid), (oids::PG_CONSTRAINT, constraint, 0), "i");
}

fn depend(table: &mut Table, from: (i32, i32), on: (i32, i32, usize), kind: &str) {
    table.push([
        ("classid", from.0.into()),
        ("objid", from.1.into()),
        ("refclassid", on.0.into()),
        ("refobjid", on.1.into()),
        ("refobjsubid", on.2.into()),
        ("deptype", kind.into()),
    ]);
}
