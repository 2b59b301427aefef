// SPDX-License-Identifier: Apache-2.0
//! The types of a changing statement's parameters, whatever path runs it: what PostgreSQL reads in front of the values that are
//! assigned says them first, then the column that one is assigned to, then the queries that the statement stands on. All others are
//! text.

use super::parts_described::described;
use super::target::Target;
use super::target_view::ViewChange;
use super::underlying::{in_front, underlying};
use super::{is_in_parts, merge, statement_of, without_locks};
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::parameters::{
    count, index_of, note_type, places_in, read_as, refuse_two_types, refuse_undetermined, resolved_types,
};
use crate::query::{self, PlannedQuery};
use crate::rights::Checks;
use crate::types::ParameterType;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Insert, Merge, MergeAction, MergeInsertExpr, MergeInsertKind,
    ObjectName, OnConflictAction, OnInsert, SelectItem, SetExpr, Statement, TableObject, Values, With,
};
use std::collections::BTreeSet;

/// Expressions that are assigned at once, in one row or one SET, with the types of their columns.
type Assigned<'s> = Vec<(&'s Expr, ColumnType)>;

/// What is known of a statement's parameters.
pub(super) struct Known {
    /// Their types, as far as they are known.
    pub(super) types: Vec<Option<ColumnType>>,
    /// Those of the ones that are read as arrays.
    pub(super) lists: Vec<Option<ParameterType>>,
}

impl Known {
    /// Nothing but types.
    pub(super) fn of_types(types: &[Option<ColumnType>]) -> Self {
        Self { types: types.to_vec(), lists: Vec::new() }
    }

    /// Notes the types of the columns that parameters are assigned to.
    fn note_columns(&mut self, assigned: &[Assigned<'_>]) {
        for (expression, ty) in assigned.iter().flatten() {
            if let Some(index) = index_of(expression) {
                self.note(index, Some(read_as(*ty)));
            }
        }
    }

    fn is_known(&self, index: usize) -> bool {
        self.types.get(index).copied().flatten().is_some()
    }

    /// Notes what a place says of a parameter, unless its type is known.
    fn note(&mut self, index: usize, ty: Option<ColumnType>) {
        note_type(&mut self.types, index, ty);
    }

    /// Notes what a planned query says of the parameters that it names. Of others it knows nothing.
    pub(super) fn note_planned(&mut self, places: &[usize], planned: &PlannedQuery) {
        for (index, _) in places.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.note(index, planned.parameter_types().get(index).copied());
            note_type(&mut self.lists, index, planned.special_parameters().get(index).copied().flatten());
        }
    }
}

/// The types of the parameters of any statement, as far as they are known or given by the columns that parameters are assigned to.
/// Those in `types` are declared or stated, and stay.
///
/// # Errors
/// `42P18` for a parameter without a type, `42P08` for one that is assigned to columns of two types at once; `42P02` for parameters
/// that are not `$1`, `$2`, ...
pub(crate) fn with_assigned_types(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    types: &[Option<ColumnType>],
) -> Result<Vec<Option<ColumnType>>, SqlError> {
    let places = places_in(statement)?;
    refuse_undetermined(statement, &places, types)?;
    if places.is_empty() {
        return Ok(types.to_vec());
    }
    let assigned = assigned(context, statement);
    assigned.iter().try_for_each(|given| refuse_two_types(given, &places, types))?;
    match statement {
        // The parts in front come first.
        Statement::Query(query) if is_in_parts(query) => Ok(types.to_vec()),
        _ => {
            let mut known = Known::of_types(types);
            note_assigned(context, statement, &assigned, &mut known);
            Ok(known.types)
        }
    }
}

/// The types of all parameters of a statement that is not a plain query, and those of the ones that are read as arrays.
/// Those in `types` are known, as [`with_assigned_types`] says.
///
/// # Errors
/// `42P02` for parameters that are not `$1`, `$2`, ...
pub(crate) fn parameter_types(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    types: &[Option<ColumnType>],
) -> Result<(Vec<ColumnType>, Vec<Option<ParameterType>>), SqlError> {
    let mut known = Known::of_types(types);
    match statement {
        Statement::Query(query) if is_in_parts(query) => {
            // What is wrong is said when it runs.
            if let Ok(described) = described(context, query, types) {
                known = described.known;
            }
        }
        other => note_underlying(context, other, &mut known),
    }
    Ok((resolved_types(&known.types, count(statement)?), known.lists))
}

/// Adds what is known of the parameters of one part of a statement, which changes rows.
pub(super) fn note_part(context: &mut StatementContext<'_>, part: &Statement, known: &mut Known) {
    let assigned = assigned(context, part);
    note_assigned(context, part, &assigned, known);
    note_underlying(context, part, known);
}

/// Notes the types of parameters that are assigned to columns: what is said in front of them, else those of the columns. Nothing is planned
/// unless one of them stands in front, too, which is rare.
fn note_assigned(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    assigned: &[Assigned<'_>],
    known: &mut Known,
) {
    let indexes: BTreeSet<usize> =
        assigned.iter().flatten().filter_map(|(value, _)| index_of(value)).collect();
    if indexes.iter().any(|index| !known.is_known(*index)) {
        // What it reads is checked when it runs.
        let checks = std::mem::replace(&mut context.checks, Checks::Nothing);
        note_in_front(context, statement, &indexes, known);
        context.checks = checks;
    }
    known.note_columns(assigned);
}

/// Notes what is said of some parameters in front of the values that a statement assigns. What is wrong with it is said when it runs.
fn note_in_front(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    indexes: &BTreeSet<usize>,
    known: &mut Known,
) {
    let (change, with) = change_of(statement);
    for query in in_front(context, change, with) {
        let places = places_in(&query).unwrap_or_default();
        let is_open = |index: usize| {
            let is_named = places.get(index).is_some_and(|count| *count > 0);
            is_named && !known.is_known(index)
        };
        let open: Vec<usize> = indexes.iter().copied().filter(|index| is_open(*index)).collect();
        if !open.is_empty()
            && let Ok(planned) = query::plan_with_hidden(context, &without_locks(&query), &known.types)
        {
            for index in open {
                known.note(index, planned.found_types().get(index).copied().flatten());
            }
        }
    }
}

/// The change that a statement makes, with the WITH in front of it.
fn change_of(statement: &Statement) -> (&Statement, Option<&With>) {
    match statement {
        Statement::Query(query) => (statement_of(query).unwrap_or(statement), query.with.as_ref()),
        other => (other, None),
    }
}

/// Adds what the queries say that a statement stands on. What is wrong with it is said when it runs.
fn note_underlying(context: &mut StatementContext<'_>, statement: &Statement, known: &mut Known) {
    let (statement, with) = change_of(statement);
    for query in underlying(context, statement, with) {
        let places = places_in(&query).unwrap_or_default();
        if !places.is_empty()
            && let Ok(planned) = query::plan_with_hidden(context, &without_locks(&query), &known.types)
        {
            known.note_planned(&places, &planned);
        }
    }
}

/// The expressions that are assigned to columns. What is wrong with the statement is found when it runs.
fn assigned<'s>(context: &StatementContext<'_>, statement: &'s Statement) -> Vec<Assigned<'s>> {
    match statement {
        Statement::Insert(insert) => of_insert(context, insert).unwrap_or_default(),
        Statement::Update(update) => match Target::of_from(context, &update.table, ViewChange::Update) {
            Ok(target) => vec![of_assignments(&target, &update.assignments)],
            Err(_) => Vec::new(),
        },
        Statement::Merge(merge) => of_merge(context, merge).unwrap_or_default(),
        Statement::Query(query) => {
            statement_of(query).map_or_else(Vec::new, |change| assigned(context, change))
        }
        _ => Vec::new(),
    }
}

fn of_merge<'s>(context: &StatementContext<'_>, merge: &'s Merge) -> Result<Vec<Assigned<'s>>, SqlError> {
    let target = merge::target_of(context, merge)?;
    let mut assigned = Vec::new();
    for clause in &merge.clauses {
        match &clause.action {
            MergeAction::Update(update) => assigned.push(of_assignments(&target, &update.assignments)),
            MergeAction::Insert(MergeInsertExpr {
                columns, kind: MergeInsertKind::Values(values), ..
            }) => {
                assigned.extend(of_rows(values, &types_of_columns(&target, columns)?));
            }
            MergeAction::Insert(_) | MergeAction::Delete { .. } => {}
        }
    }
    Ok(assigned)
}

/// The rows of VALUES for columns of these types.
fn of_rows<'s>(values: &'s Values, types: &[ColumnType]) -> Vec<Assigned<'s>> {
    values.rows.iter().map(|row| row.content.iter().zip(types.iter().copied()).collect()).collect()
}

/// The types of the columns that are named, or of all.
fn types_of_columns(target: &Target, columns: &[ObjectName]) -> Result<Vec<ColumnType>, SqlError> {
    if columns.is_empty() {
        // What is behind a column of a view that takes no value gives none.
        let columns = target.all_columns().into_iter().map_while(Result::ok);
        return Ok(columns.map(|column| target.def.columns[column].ty).collect());
    }
    let ty = |name: &ObjectName| target.column_of_name(name).map(|column| target.def.columns[column].ty);
    columns.iter().map(ty).collect()
}

fn of_insert<'s>(context: &StatementContext<'_>, insert: &'s Insert) -> Result<Vec<Assigned<'s>>, SqlError> {
    let TableObject::TableName(name) = &insert.table else { return Ok(Vec::new()) };
    let target = Target::resolve_changed(context, name, None, ViewChange::Insert)?;
    let types = types_of_columns(&target, &insert.columns)?;
    let mut assigned = Vec::new();
    match insert.source.as_deref().map(|query| query.body.as_ref()) {
        Some(SetExpr::Values(values)) => assigned.extend(of_rows(values, &types)),
        Some(SetExpr::Select(select)) => {
            let items = select.projection.iter().map_while(|item| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
                _ => None,
            });
            assigned.push(items.zip(types.iter().copied()).collect());
        }
        _ => {}
    }
    if let Some(OnInsert::OnConflict(clause)) = &insert.on
        && let OnConflictAction::DoUpdate(update) = &clause.action
    {
        assigned.push(of_assignments(&target, &update.assignments));
    }
    Ok(assigned)
}

fn of_assignments<'s>(target: &Target, assignments: &'s [Assignment]) -> Assigned<'s> {
    let ty = |name: &ObjectName| target.column_of_name(name).ok().map(|column| target.def.columns[column].ty);
    let pairs = assignments.iter().flat_map(|assignment| match (&assignment.target, &assignment.value) {
        (AssignmentTarget::ColumnName(name), value) => vec![(value, ty(name))],
        (AssignmentTarget::Tuple(names), Expr::Tuple(values)) => {
            values.iter().zip(names.iter().map(ty)).collect()
        }
        (AssignmentTarget::Tuple(_), _) => Vec::new(),
    });
    pairs.filter_map(|(value, ty)| Some((value, ty?))).collect()
}
