// SPDX-License-Identifier: Apache-2.0
//! Whether the rows of a table keep its constraints.

use super::spaces::{find, walk};
use super::{DamagedChunks, VerifyReport, is_damaged};
use crate::build_index::check_unique;
use crate::catalog::{ForeignKeyDef, TableDef};
use crate::checks::CheckCompiler;
use crate::key::Key;
use crate::range::KeyRange;
use crate::stop::never;
use crate::table::{RowRef, Table};
use crate::transaction::in_width_of;
use crate::value::KeyWriter;
use crate::world::World;
use std::sync::Arc;

/// Checks unique indexes, NOT NULL, foreign keys and CHECKs. (That primary keys are unique follows from the
/// order of keys.)
pub(super) fn check_table_constraints(
    world: &World,
    table: &Table,
    checks: Option<&dyn CheckCompiler>,
    damaged: &DamagedChunks,
    report: &mut VerifyReport,
) {
    let name = &table.def().name;
    for (position, index) in table.def().indexes.iter().enumerate() {
        if index.uniqueness.is_unique()
            && let Err(error) = check_unique(table, position, &never)
        {
            report.add_fact(format!("table {name}: {error}"));
        }
    }
    check_not_null(table, report);
    for foreign_key in table.def().foreign_keys.iter().filter(|key| key.validity.is_valid()) {
        match world.table(foreign_key.parent) {
            None => report.add_fact(format!("table {name}: {} has no parent table", foreign_key.name)),
            Some(parent) if is_damaged(parent, damaged) => {}
            Some(parent) => check_foreign_key(table, parent, foreign_key, report),
        }
    }
    if let Some(checks) = checks {
        run_checks(table, checks, report);
    }
}

/// All rows with their keys.
fn rows(table: &Table) -> impl Iterator<Item = (Key, RowRef<'_>)> {
    walk(table.rows(), KeyRange::all()).map(|(key, found)| (key, table.row_ref(found)))
}

fn check_not_null(table: &Table, report: &mut VerifyReport) {
    let def = table.def();
    let columns: Vec<_> = def.columns.iter().enumerate().filter(|(_, column)| column.not_null).collect();
    for (key, row) in rows(table) {
        for (index, column) in &columns {
            if row.get(*index).is_null() {
                let (table, column) = (&def.name, &column.name);
                report.add_fact(format!("table {table}: NULL in column {column} of the row at {key:?}"));
            }
        }
    }
}

fn check_foreign_key(
    table: &Table,
    parent: &Arc<Table>,
    foreign_key: &ForeignKeyDef,
    report: &mut VerifyReport,
) {
    let Some(lookup) = ParentLookup::new(parent, foreign_key) else {
        let (table, name) = (&table.def().name, &foreign_key.name);
        report.add_fact(format!("table {table}: {name} refers to columns that are no key"));
        return;
    };
    for (key, row) in rows(table) {
        let is_null = foreign_key.columns.iter().any(|&column| row.get(column).is_null());
        if !is_null && !lookup.finds(foreign_key, row) {
            let (table, name) = (&table.def().name, &foreign_key.name);
            report.add_fact(format!("table {table}: {name} of the row at {key:?} has no parent"));
        }
    }
}

/// Where parents are looked up.
enum ParentLookup<'a> {
    Primary(&'a Table),
    /// The unique index at this position.
    Unique(&'a Table, usize),
}

impl<'a> ParentLookup<'a> {
    fn new(parent: &'a Table, foreign_key: &ForeignKeyDef) -> Option<Self> {
        let def = parent.def();
        if def.primary_key == foreign_key.parent_columns {
            return Some(Self::Primary(parent));
        }
        let is_key = |index: &crate::catalog::IndexDef| {
            index.uniqueness.is_unique() && index.columns == foreign_key.parent_columns
        };
        Some(Self::Unique(parent, def.indexes.iter().position(is_key)?))
    }

    fn finds(&self, foreign_key: &ForeignKeyDef, row: RowRef<'_>) -> bool {
        let mut writer = KeyWriter::new();
        let (Self::Primary(parent) | Self::Unique(parent, _)) = self;
        for (&column, &of) in foreign_key.columns.iter().zip(&foreign_key.parent_columns) {
            let physical = parent.def().columns[of].ty.physical();
            match (in_width_of(row.get(column), physical), self) {
                (None, _) => return false,
                (Some(value), Self::Primary(_)) => writer.push(value.borrow()),
                (Some(value), Self::Unique(..)) => writer.push_nullable(value.borrow()),
            }
        }
        match self {
            Self::Primary(parent) => find(parent.rows(), &writer.finish()),
            Self::Unique(parent, position) => {
                let range = KeyRange::prefix(writer.as_slice());
                walk(&parent.indexes()[*position], range).next().is_some()
            }
        }
    }
}

fn run_checks(table: &Table, compiler: &dyn CheckCompiler, report: &mut VerifyReport) {
    let mut def = TableDef::clone(table.def());
    def.checks.retain(|check| check.validity.is_valid());
    for domain in def.columns.iter_mut().filter_map(|column| column.domain.as_mut()) {
        domain.checks.retain(|check| check.validity.is_valid());
    }
    if !def.has_checks() {
        return;
    }
    let checks = match compiler.compile(&def) {
        Ok(checks) => checks,
        Err(why) => return report.add_fact(format!("table {}: its checks have no meaning: {why}", def.name)),
    };
    for (key, row) in rows(table) {
        if let Err(violation) = checks.check(&def, &row.to_row()) {
            report.add_fact(format!("table {}: the row at {key:?}: {violation}", def.name));
        }
    }
}
