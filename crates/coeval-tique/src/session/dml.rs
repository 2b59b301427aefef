// SPDX-License-Identifier: Apache-2.0
//! INSERT, UPDATE and DELETE (2.3.3): the engine computes what becomes of which rows, and the buffer takes it.
//!
//! Each of them becomes one query on the abstract schema whose rows are changes:
//!
//! ```text
//! old columns (UPDATE, DELETE), new columns (INSERT, UPDATE), one boolean for each CHECK
//! ```

use super::constraints::{Change, check_rows};
use super::{Outcome, Purpose, Sees, Session};
use crate::buffer::Fate;
use crate::catalog::Table;
use crate::engine::{Integers, Rows, Types};
use crate::error::{Result, SqlState, TiqueError};
use crate::literal::{Row, joined};
use crate::names::quoted;
use crate::rows_as_sql::{as_table, one_of};
use crate::schema::{Column, Definition, Kind, table_name};
use crate::values::{bytes_of, check_integers, constant_rows, with_minutes};
use crate::{parse, physical};
use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, CastKind, ConflictTarget, DataType, Delete, Expr, FromTable, Ident, Insert,
    ObjectName, OnConflict, OnConflictAction, OnInsert, Query, SelectItem, SetExpr, Statement, TableFactor,
    TableObject, TableWithJoins, Update, UpdateTableFromKind,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a query of changes gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    New,
    Old,
    OldAndNew,
}

fn list<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// The columns of an old row, under names that the new row's do not have.
fn old_columns(table: &Definition, alias: &str) -> Vec<String> {
    let old = |(place, name): (usize, String)| format!("{alias}.{name} AS tique_old_{place}");
    table.all_names().into_iter().enumerate().map(old).collect()
}

/// The boolean columns behind a row that say whether it passes its CHECKs, as an outer query.
fn with_checks(table: &Definition, inner: &str, types: Types) -> String {
    // Where TiQuE checks types, values are not yet what the columns will hold: CHECKs are computed afterwards.
    if table.checks.is_empty() || matches!(types, Types::Ours(_)) {
        return inner.to_owned();
    }
    let name = quoted(&table.name);
    format!("SELECT {name}.*, {} FROM ({inner}) AS {name}", checks(table))
}

fn checks(table: &Definition) -> String {
    let checks = table.checks.iter().enumerate();
    list(checks.map(|(place, check)| format!("({}) AS tique_check_{place}", check.condition)))
}

/// A value on its way into a column, as SQL.
fn cast_to(value: &str, column: &Column, types: Types) -> String {
    match types {
        Types::OfEngine => format!("CAST({value} AS {})", column.unchecked_kind()),
        Types::Ours(_) => format!("({value})"),
    }
}

fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
}

fn default_of(table: &Definition, column: usize) -> String {
    let default = table.columns[column].default.as_ref();
    default.map_or_else(|| "NULL".to_owned(), |default| format!("({default})"))
}

/// The value that an assignment gives a column, as SQL.
fn assigned(table: &Definition, column: usize, value: &Expr, types: Types) -> String {
    let value = if is_default(value) { default_of(table, column) } else { format!("({value})") };
    cast_to(&value, &table.columns[column], types)
}

fn assigned_column(table: &Definition, name: &ObjectName) -> Result<usize> {
    let ident = name.0.last().and_then(|part| part.as_ident());
    let ident = ident.ok_or_else(|| TiqueError::unsupported(format!("SET {name}")))?;
    table.column(ident)
}

/// For each column, what SET says of it.
fn assignments(table: &Definition, list: &[Assignment], types: Types) -> Result<HashMap<usize, String>> {
    let mut values = HashMap::new();
    let mut set = |column: usize, value: &Expr| {
        let before = values.insert(column, assigned(table, column, value, types));
        if before.is_some() {
            let message = format!("column {} is set twice", table.columns[column].name);
            return Err(TiqueError::new(SqlState::SyntaxError, message));
        }
        Ok(())
    };
    for assignment in list {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => set(assigned_column(table, name)?, value)?,
            (AssignmentTarget::Tuple(names), Expr::Tuple(values)) if names.len() == values.len() => {
                for (name, value) in names.iter().zip(values) {
                    set(assigned_column(table, name)?, value)?;
                }
            }
            _ => return Err(TiqueError::unsupported(format!("SET {assignment}"))),
        }
    }
    Ok(values)
}

/// The columns of a row after SET: `alias` is the old row's.
fn new_columns(table: &Definition, set: &HashMap<usize, String>, alias: &str) -> Vec<String> {
    let names = table.all_names().into_iter().enumerate();
    let column = |(place, name): (usize, String)| match set.get(&place) {
        Some(value) => format!("{value} AS {name}"),
        None => format!("{alias}.{name} AS {name}"),
    };
    names.map(column).collect()
}

fn condition(selection: Option<&Expr>) -> String {
    selection.map(|condition| format!(" WHERE {condition}")).unwrap_or_default()
}

/// A table to change, and what the statement calls it.
struct Target {
    table: Arc<Table>,
    alias: String,
    from: String,
}

impl Session {
    fn table(&self, name: &ObjectName) -> Result<Arc<Table>> {
        self.shared.catalog().table(&table_name(name)?).map(Arc::clone)
    }

    fn target(&self, from: &TableWithJoins) -> Result<Target> {
        let TableFactor::Table { name, alias, args: None, .. } = &from.relation else {
            return Err(TiqueError::unsupported(format!("changing {from}")));
        };
        let table = self.table(name)?;
        if !from.joins.is_empty() || table.definition.kind == Kind::Static {
            return Err(TiqueError::unsupported(format!("changing rows of {from}")));
        }
        let alias =
            alias.as_ref().map_or_else(|| quoted(&table.definition.name), |alias| alias.name.to_string());
        Ok(Target { table, alias, from: from.to_string() })
    }

    pub(crate) fn insert(&mut self, mut insert: Insert) -> Result<Outcome> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(TiqueError::unsupported(format!("INSERT into {}", insert.table)));
        };
        let table = self.table(name)?;
        let is_odd = insert.or.is_some() || insert.ignore || insert.overwrite || insert.replace_into;
        if is_odd || !insert.assignments.is_empty() || insert.partitioned.is_some() {
            return Err(TiqueError::unsupported("this form of INSERT"));
        }
        let changes = match constant_changes(&table, &insert, self.shared.engine.dialect().integers)? {
            Some(changes) => changes,
            None => {
                let sql = insert_query(&table.definition, &mut insert, self.types())?;
                let rows = self.query_for(&sql, Sees::Own, Purpose::Statement)?;
                let changes = self.changes(&table, &rows, Shape::New)?;
                if table.definition.kind == Kind::Static {
                    return self.insert_static(&table, &rows, &changes);
                }
                changes
            }
        };
        // Rows that are skipped or become updates have to be rows of the table too.
        if insert.on.is_some() {
            check_rows(&table.definition, &changes, self.shared.engine.dialect())?;
        }
        let (alias, returning) =
            (insert.table_alias.as_ref().map(|alias| alias.alias.to_string()), insert.returning);
        let changes = match insert.on {
            None => changes,
            Some(OnInsert::OnConflict(on)) => self.on_conflict(&table, alias.as_deref(), changes, &on)?,
            Some(other) => return Err(TiqueError::unsupported(other)),
        };
        self.apply(&table, &changes)?;
        let alias = alias.unwrap_or_else(|| quoted(&table.definition.name));
        let news: Vec<_> = changes.iter().filter_map(|change| change.new.as_ref()).collect();
        self.outcome("INSERT 0", &table.definition, &alias, &news, returning.as_deref())
    }

    /// Rows of a static table go to the engine at once, whatever becomes of the transaction.
    fn insert_static(&mut self, table: &Table, rows: &Rows, changes: &[Change]) -> Result<Outcome> {
        check_rows(&table.definition, changes, self.shared.engine.dialect())?;
        let names = table.definition.columns.iter().map(|column| &column.name);
        for batch in &rows.batches {
            let columns = table.received(&batch.columns()[..names.len()], self.types())?;
            let columns = names.clone().zip(columns).map(|(name, values)| (name, values, true));
            let batch = RecordBatch::try_from_iter_with_nullable(columns)
                .map_err(|error| TiqueError::new(SqlState::EngineRefused, error.to_string()))?;
            self.connection.append(&physical::storage(&table.definition), &batch)?;
        }
        self.connection.sync()?;
        Ok(Outcome::done(&format!("INSERT 0 {}", changes.len())))
    }

    pub(crate) fn update(&mut self, update: &Update) -> Result<Outcome> {
        if update.or.is_some() || update.limit.is_some() || !update.order_by.is_empty() {
            return Err(TiqueError::unsupported("this form of UPDATE"));
        }
        let target = self.target(&update.table)?;
        let table = &target.table.definition;
        let set = assignments(table, &update.assignments, self.types())?;
        let others = match &update.from {
            None => String::new(),
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                format!(", {}", list(from))
            }
        };
        let columns = list(old_columns(table, &target.alias).into_iter().chain(new_columns(
            table,
            &set,
            &target.alias,
        )));
        let selection = condition(update.selection.as_ref());
        let inner = format!("SELECT {columns} FROM {}{others}{selection}", target.from);
        let rows = self.query_text(&with_checks(table, &inner, self.types()), Sees::Own)?;
        let mut changes = self.changes(&target.table, &rows, Shape::OldAndNew)?;
        first_of_each(table, &mut changes);
        self.apply(&target.table, &changes)?;
        let news: Vec<_> = changes.iter().filter_map(|change| change.new.as_ref()).collect();
        self.outcome("UPDATE", table, &target.alias, &news, update.returning.as_deref())
    }

    pub(crate) fn delete(&mut self, delete: &Delete) -> Result<Outcome> {
        if !delete.tables.is_empty() || delete.limit.is_some() || !delete.order_by.is_empty() {
            return Err(TiqueError::unsupported("this form of DELETE"));
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = from.as_slice() else { return Err(TiqueError::unsupported("DELETE from many tables")) };
        let target = self.target(from)?;
        let table = &target.table.definition;
        let others = delete.using.as_ref().map(|using| format!(", {}", list(using))).unwrap_or_default();
        let columns = list(old_columns(table, &target.alias));
        let selection = condition(delete.selection.as_ref());
        let rows =
            self.query_text(&format!("SELECT {columns} FROM {}{others}{selection}", target.from), Sees::Own)?;
        let mut changes = self.changes(&target.table, &rows, Shape::Old)?;
        first_of_each(table, &mut changes);
        self.apply(&target.table, &changes)?;
        let olds: Vec<_> = changes.iter().filter_map(|change| change.old.as_ref()).collect();
        self.outcome("DELETE", table, &target.alias, &olds, delete.returning.as_deref())
    }

    /// The rows of a query of changes.
    fn changes(&mut self, table: &Table, rows: &Rows, shape: Shape) -> Result<Vec<Change>> {
        let width = table.definition.columns.len();
        let internal = |error: datafusion::error::DataFusionError| {
            TiqueError::new(SqlState::EngineRefused, error.strip_backtrace())
        };
        let (mut changes, mut are_cut) = (Vec::with_capacity(rows.count()), false);
        for batch in &rows.batches {
            let columns = table.received(batch.columns(), self.types())?;
            let is_cut = |(kept, given): (&ArrayRef, &ArrayRef)| !Arc::ptr_eq(kept, given) && kept != given;
            are_cut |= !table.definition.checks.is_empty() && columns.iter().zip(batch.columns()).any(is_cut);
            for row in 0..batch.num_rows() {
                let mut values = Vec::with_capacity(columns.len());
                for column in &columns {
                    values.push(ScalarValue::try_from_array(column, row).map_err(internal)?);
                }
                let mut values = values.into_iter();
                let mut take = || values.by_ref().take(width).collect::<Row>();
                let old = (shape != Shape::New).then(&mut take);
                let new = (shape != Shape::Old).then(&mut take);
                let failed = values.position(|check| check == ScalarValue::Boolean(Some(false)));
                changes.push(Change { old, new, failed_check: failed });
            }
        }
        if (self.checks_types() || are_cut) && shape != Shape::Old {
            self.check_conditions(&table.definition, &mut changes)?;
        }
        Ok(changes)
    }

    /// Finds the new rows that fail a CHECK, where the query that computed the rows could not: it had not yet got the values in the
    /// form in which the columns keep them.
    fn check_conditions(&mut self, table: &Definition, changes: &mut [Change]) -> Result<()> {
        if table.checks.is_empty() || changes.is_empty() {
            return Ok(());
        }
        let news: Vec<_> = changes.iter().filter_map(|change| change.new.as_ref()).collect();
        let sql = format!("SELECT {} FROM {}", checks(table), as_table(table, &news, &quoted(&table.name)));
        let rows = self.query_text(&sql, Sees::Own)?;
        let mut failed = Vec::with_capacity(changes.len());
        for batch in &rows.batches {
            for row in 0..batch.num_rows() {
                let is_false = |column: &ArrayRef| {
                    let truth = ScalarValue::try_from_array(column, row);
                    truth.is_ok_and(|truth| {
                        [ScalarValue::Int64(Some(0)), ScalarValue::Boolean(Some(false))].contains(&truth)
                    })
                };
                failed.push(batch.columns().iter().position(is_false));
            }
        }
        assert_eq!(failed.len(), changes.len(), "each row has its conditions");
        for (change, failed) in changes.iter_mut().zip(failed) {
            change.failed_check = failed;
        }
        Ok(())
    }

    /// Replaces inserts of rows that are there by what ON CONFLICT says.
    fn on_conflict(
        &mut self,
        table: &Arc<Table>,
        alias: Option<&str>,
        changes: Vec<Change>,
        on: &OnConflict,
    ) -> Result<Vec<Change>> {
        let definition = &table.definition;
        if on.conflict_target.is_none() && matches!(on.action, OnConflictAction::DoUpdate(_)) {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            return Err(TiqueError::new(SqlState::SyntaxError, message)
                .hint("For example, ON CONFLICT (column_name)."));
        }
        let targets = conflict_targets(definition, on.conflict_target.as_ref())?;
        let (mut fresh, mut seen, mut conflicts) = (Vec::new(), HashSet::new(), Vec::new());
        let news: Vec<&Row> = changes.iter().filter_map(|change| change.new.as_ref()).collect();
        let taken = self.taken(table, &targets, &news)?;
        let values = |row: &Row| -> Vec<(usize, String)> {
            let places = targets.iter().enumerate();
            let known = places.filter(|(_, columns)| columns.iter().all(|&column| !row[column].is_null()));
            known.map(|(place, columns)| (place, joined(row, columns))).collect()
        };
        for change in &changes {
            let row = change.new.as_ref().expect("an INSERT has new rows");
            let values = values(row);
            let is_second = values.iter().any(|value| seen.contains(value));
            seen.extend(values.iter().cloned());
            match &on.action {
                OnConflictAction::DoNothing => {
                    if !is_second && !values.iter().any(|value| taken.contains(value)) {
                        fresh.push(change.clone());
                    }
                }
                OnConflictAction::DoUpdate(_) if is_second => {
                    let message = "ON CONFLICT DO UPDATE would change a row a second time";
                    let hint = "No two rows of one INSERT may have the same conflict target.";
                    return Err(TiqueError::new(SqlState::CardinalityViolation, message).hint(hint));
                }
                OnConflictAction::DoUpdate(_) if values.iter().any(|value| taken.contains(value)) => {
                    conflicts.push(row);
                }
                OnConflictAction::DoUpdate(_) => fresh.push(change.clone()),
            }
        }
        if let OnConflictAction::DoUpdate(update) = &on.action
            && !conflicts.is_empty()
        {
            let columns = &targets[0];
            let set = assignments(definition, &update.assignments, self.types())?;
            let alias = alias.map_or_else(|| quoted(&definition.name), str::to_owned);
            let same: Vec<_> = definition
                .names(columns)
                .iter()
                .map(|name| format!("{alias}.{name} = excluded.{name}"))
                .collect();
            let also =
                update.selection.as_ref().map(|condition| format!(" AND ({condition})")).unwrap_or_default();
            let select = list(
                old_columns(definition, &alias).into_iter().chain(new_columns(definition, &set, &alias)),
            );
            let inner = format!(
                "SELECT {select} FROM {} AS {alias} JOIN {} ON {} WHERE {}{also}",
                quoted(&definition.name),
                as_table(definition, &conflicts, "excluded"),
                same.join(" AND "),
                one_of(definition, columns, &conflicts, &format!("{alias}."))
            );
            let rows = self.query_text(&with_checks(definition, &inner, self.types()), Sees::Own)?;
            fresh.extend(self.changes(table, &rows, Shape::OldAndNew)?);
        }
        Ok(fresh)
    }

    /// The values of the new rows in the target columns of an ON CONFLICT that existing rows have already: for each, the target's
    /// place and the value.
    fn taken(
        &mut self,
        table: &Arc<Table>,
        targets: &[Vec<usize>],
        news: &[&Row],
    ) -> Result<HashSet<(usize, String)>> {
        let mut taken = HashSet::new();
        for (place, columns) in targets.iter().enumerate() {
            let found = self.find(table, columns, news)?;
            if let Some(read_set) = &mut self.transaction().read_set {
                // A new row may have been skipped because of this one, so the transaction depends on it.
                found.iter().for_each(|row| read_set.row(&table.definition, row));
            }
            taken.extend(found.iter().map(|row| (place, joined(row, columns))));
        }
        Ok(taken)
    }

    /// Notes changes that passed all constraints in the buffer.
    pub(crate) fn put(&mut self, table: &Arc<Table>, changes: &[Change]) {
        let kept: HashSet<_> = changes
            .iter()
            .filter_map(|change| change.new.as_ref())
            .map(|row| joined(row, &table.definition.key))
            .collect();
        let buffer = &mut self.transaction().buffer;
        for change in changes {
            if let Some(old) = &change.old
                && !kept.contains(&joined(old, &table.definition.key))
            {
                buffer.put(table, old.clone(), Fate::Deleted);
            }
        }
        for change in changes {
            if let Some(new) = &change.new {
                buffer.put(table, new.clone(), Fate::Live);
            }
        }
    }

    fn outcome(
        &mut self,
        tag: &str,
        table: &Definition,
        alias: &str,
        rows: &[&Row],
        returning: Option<&[SelectItem]>,
    ) -> Result<Outcome> {
        let tag = format!("{tag} {}", rows.len());
        let Some(items) = returning else { return Ok(Outcome::done(&tag)) };
        let from = if rows.is_empty() {
            format!("{} AS {alias} WHERE 1 = 0", quoted(&table.name))
        } else {
            as_table(table, rows, alias)
        };
        let rows = self.query_text(&format!("SELECT {} FROM {from}", list(items)), Sees::Own)?;
        Ok(Outcome { tag, rows: Some(rows) })
    }
}

/// UPDATE ... FROM and DELETE ... USING may meet a row more than once; the first counts.
fn first_of_each(table: &Definition, changes: &mut Vec<Change>) {
    let mut seen = HashSet::new();
    changes.retain(|change| change.old.as_ref().is_none_or(|old| seen.insert(joined(old, &table.key))));
}

fn conflict_targets(table: &Definition, target: Option<&ConflictTarget>) -> Result<Vec<Vec<usize>>> {
    let all = || std::iter::once(&table.key).chain(table.uniques.iter().map(|unique| &unique.columns));
    match target {
        None => Ok(all().cloned().collect()),
        Some(ConflictTarget::Columns(names)) => {
            let columns: Result<Vec<_>> = names.iter().map(|name| table.column(name)).collect();
            let mut columns = columns?;
            columns.sort_unstable();
            let is_same = |other: &&Vec<usize>| {
                let mut other = other.to_vec();
                other.sort_unstable();
                other == columns
            };
            let found = all().find(is_same).cloned();
            let message = "no primary key or UNIQUE constraint has the columns of ON CONFLICT";
            Ok(vec![found.ok_or_else(|| TiqueError::new(SqlState::InvalidColumnReference, message))?])
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            let wanted = table_name(name)?;
            let unique = table
                .uniques
                .iter()
                .find(|unique| unique.name == wanted)
                .map(|unique| unique.columns.clone());
            let key = (wanted == format!("{}_pkey", table.name)).then(|| table.key.clone());
            let message = format!("constraint \"{wanted}\" for table \"{}\" does not exist", table.name);
            Ok(vec![unique.or(key).ok_or_else(|| TiqueError::new(SqlState::UndefinedObject, message))?])
        }
    }
}

/// The columns that an INSERT names.
fn named_columns(table: &Definition, insert: &Insert) -> Result<Vec<usize>> {
    let mut columns = Vec::new();
    for name in &insert.columns {
        let column = assigned_column(table, name)?;
        if columns.contains(&column) {
            let message = format!("column {name} is there twice");
            return Err(TiqueError::new(SqlState::SyntaxError, message));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// The changes of an INSERT that writes its rows out; nothing if the engine has to compute something.
fn constant_changes(table: &Table, insert: &Insert, integers: Integers) -> Result<Option<Vec<Change>>> {
    let mut columns = named_columns(&table.definition, insert)?;
    let Some(source) = insert.source.as_ref().filter(|_| table.definition.kind != Kind::Static) else {
        return Ok(None);
    };
    if columns.is_empty() {
        let given = width(source).unwrap_or(0).min(table.definition.columns.len());
        columns = (0..given).collect();
    }
    check_integers(table, &columns, source, integers)?;
    let rows = constant_rows(table, &columns, source);
    let change = |row| Change { old: None, new: Some(row), failed_check: None };
    Ok(rows.map(|rows| rows.into_iter().map(change).collect()))
}

/// The query that gives the rows of an INSERT.
fn insert_query(table: &Definition, insert: &mut Insert, types: Types) -> Result<String> {
    let mut columns = named_columns(table, insert)?;
    let Some(source) = &mut insert.source else {
        let values = (0..table.columns.len()).map(|column| default_column(table, column, types));
        return Ok(with_checks(table, &format!("SELECT {}", list(values)), types));
    };
    let given = width(source);
    if columns.is_empty() {
        columns = (0..given.unwrap_or(table.columns.len()).min(table.columns.len())).collect();
    }
    if given.is_some_and(|given| given != columns.len()) {
        let message = "INSERT has more or fewer values than columns";
        return Err(TiqueError::new(SqlState::SyntaxError, message));
    }
    fill_defaults(table, &columns, source, types);
    name_repeated(&mut source.body);
    let names = list(columns.iter().map(|column| format!("tique_given_{column}")));
    let select = (0..table.columns.len()).map(|column| {
        if columns.contains(&column) {
            let given = format!("tique_source.tique_given_{column}");
            let name = quoted(&table.columns[column].name);
            format!("{} AS {name}", cast_to(&given, &table.columns[column], types))
        } else {
            default_column(table, column, types)
        }
    });
    let rows = format!("SELECT {} FROM ({source}) AS tique_source ({names})", list(select));
    Ok(with_checks(table, &rows, types))
}

/// Gives an alias to each expression that a query selects a second time: DataFusion refuses two outputs of one name.
fn name_repeated(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let mut seen = HashSet::new();
            for (place, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(expr) = item
                    && !seen.insert(expr.to_string())
                {
                    let (expr, alias) = (expr.clone(), Ident::new(format!("tique_value_{place}")));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_repeated(left);
            name_repeated(right);
        }
        SetExpr::Query(query) => name_repeated(&mut query.body),
        _ => {}
    }
}

fn default_column(table: &Definition, column: usize, types: Types) -> String {
    let value = cast_to(&default_of(table, column), &table.columns[column], types);
    format!("{value} AS {}", quoted(&table.columns[column].name))
}

/// How many columns a list of VALUES has; other queries say so when they run.
fn width(source: &Query) -> Option<usize> {
    match &*source.body {
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        _ => None,
    }
}

/// Writes out DEFAULT in a list of VALUES.
fn fill_defaults(table: &Definition, columns: &[usize], source: &mut Query, types: Types) {
    let SetExpr::Values(values) = &mut *source.body else { return };
    for row in &mut values.rows {
        for (value, &column) in row.iter_mut().zip(columns) {
            if table.columns[column].kind == DataType::Bytea && bytes_of(value).is_some() {
                let (expr, data_type) = (Box::new(value.clone()), DataType::Bytea);
                *value = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
            } else if let Some(moment) = with_minutes(value, &table.columns[column].kind) {
                *value = moment;
            } else if is_default(value) {
                let sql =
                    format!("SELECT {}", cast_to(&default_of(table, column), &table.columns[column], types));
                if let Ok(expr) = parse::parse(&sql).map(only_expression) {
                    *value = expr.unwrap_or_else(|| value.clone());
                }
            }
        }
    }
}

/// The expression of `SELECT expression`.
fn only_expression(mut statements: Vec<Statement>) -> Option<Expr> {
    let Some(Statement::Query(query)) = statements.pop() else { return None };
    let SetExpr::Select(select) = *query.body else { return None };
    match select.projection.into_iter().next() {
        Some(SelectItem::UnnamedExpr(expr)) => Some(expr),
        _ => None,
    }
}
