// SPDX-License-Identifier: Apache-2.0
//! Queries with the expressions of a changing statement over its tables, for the types of its parameters and of what it
//! returns.

use super::returning::XMAX;
use super::{merge, statement_of};
use crate::column_name::column_name;
use crate::context::StatementContext;
use crate::names::fold;
use crate::parameters::index_of;
use crate::parse::is_default;
use crate::select;
use crate::walk::change_expressions;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, DataType, Delete, Expr, FromTable, Ident, OnConflictAction, OnInsert,
    Query, SelectItem, SetExpr, Statement, TableAlias, TableObject, TableWithJoins, Update,
    UpdateTableFromKind, Value, With,
};

/// Queries that together have all expressions of the statement, to infer types from.
pub(super) fn underlying(
    context: &StatementContext<'_>,
    statement: &Statement,
    with: Option<&With>,
) -> Vec<Query> {
    let query = match statement {
        Statement::Insert(insert) => insert.source.as_deref().map(|source| of_source(source, with)),
        Statement::Update(update) => Some(of_update(update, with)),
        Statement::Delete(delete) => Some(of_delete(delete, with)),
        Statement::Merge(merge) => {
            let target = merge::target_of(context, merge).ok();
            target.map(|target| merge::underlying(&target, merge, with))
        }
        Statement::Query(query) => Some(query.as_ref().clone()),
        _ => None,
    };
    query.into_iter().chain(on_conflict(statement)).chain(returned(statement)).collect()
}

/// Queries with what PostgreSQL reads before it gives the values that a statement assigns the types of their columns, in its order. A
/// parameter that is such a value is left out.
pub(super) fn in_front(
    context: &StatementContext<'_>,
    statement: &Statement,
    with: Option<&With>,
) -> Vec<Query> {
    match statement {
        Statement::Insert(insert) => {
            let source = insert.source.as_deref();
            source.and_then(|source| without_parameters(source, with)).into_iter().collect()
        }
        Statement::Update(update) => {
            let mut items = update.returning.clone().unwrap_or_default();
            items.extend(items_of(
                assigned_values(&update.assignments).filter(|value| index_of(value).is_none()),
            ));
            vec![
                of_parts(Vec::new(), tables_of(update), update.selection.clone(), with),
                of_parts(items, tables_of(update), None, with),
            ]
        }
        Statement::Merge(merge) => {
            let target = merge::target_of(context, merge).ok();
            target.map(|target| merge::conditions(&target, merge, with)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The source of an INSERT without the parameters that are its values; `None` if it is of several rows, of which PostgreSQL assigns
/// each before it reads the next one, or of another form.
fn without_parameters(source: &Query, with: Option<&With>) -> Option<Query> {
    match source.body.as_ref() {
        SetExpr::Select(_) => {}
        SetExpr::Values(values) if values.rows.len() == 1 => {}
        _ => return None,
    }
    let mut query = of_source(source, with);
    let null = |value: &mut Expr| {
        if is_default(value) || index_of(value).is_some() {
            *value = Expr::Value(Value::Null.into());
        }
    };
    match query.body.as_mut() {
        SetExpr::Select(select) => select.projection.iter_mut().for_each(|item| match item {
            SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => null(value),
            _ => {}
        }),
        SetExpr::Values(values) => values.rows.iter_mut().flat_map(|row| &mut row.content).for_each(null),
        _ => {}
    }
    Some(query)
}

fn of_source(source: &Query, with: Option<&With>) -> Query {
    let mut query = source.clone();
    query.with = with.cloned().or(query.with);
    query
}

/// What `DO UPDATE` computes and compares, over the row that is there and the one that is proposed.
fn on_conflict(statement: &Statement) -> Option<Query> {
    let Statement::Insert(insert) = statement else { return None };
    let (Some(OnInsert::OnConflict(clause)), TableObject::TableName(name)) = (&insert.on, &insert.table)
    else {
        return None;
    };
    let OnConflictAction::DoUpdate(update) = &clause.action else { return None };
    let alias = |name: Ident| TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    let own = insert.table_alias.as_ref().map(|own| alias(own.alias.clone()));
    let proposed = alias(Ident::new("excluded"));
    let from = vec![select::table(name.clone(), own), select::table(name.clone(), Some(proposed))];
    let items = items_of(assigned_values(&update.assignments));
    Some(of_parts(items, from, update.selection.clone(), None))
}

/// The values that are assigned.
fn assigned_values(assignments: &[Assignment]) -> impl Iterator<Item = &Expr> {
    let values = assignments.iter().flat_map(|assignment| match (&assignment.target, &assignment.value) {
        (AssignmentTarget::ColumnName(_), value) => std::slice::from_ref(value),
        (AssignmentTarget::Tuple(_), Expr::Tuple(values)) => values,
        (AssignmentTarget::Tuple(_), _) => &[],
    });
    values.filter(|value| !is_default(value))
}

/// Values as columns of a query.
fn items_of<'v>(values: impl Iterator<Item = &'v Expr>) -> Vec<SelectItem> {
    let values = values.enumerate();
    values.map(|(place, value)| select::item(value.clone(), format!("value {place}"))).collect()
}

fn of_update(update: &Update, with: Option<&With>) -> Query {
    let items = items_of(assigned_values(&update.assignments));
    of_parts(items, tables_of(update), update.selection.clone(), with)
}

/// The tables that an UPDATE names.
fn tables_of(update: &Update) -> Vec<TableWithJoins> {
    let mut from = vec![update.table.clone()];
    if let Some(UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) = &update.from
    {
        from.extend(tables.iter().cloned());
    }
    from
}

fn of_delete(delete: &Delete, with: Option<&With>) -> Query {
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    let from = tables.iter().chain(delete.using.iter().flatten()).cloned().collect();
    of_parts(Vec::new(), from, delete.selection.clone(), with)
}

fn of_parts(
    mut items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
    with: Option<&With>,
) -> Query {
    items.push(select::item(Expr::Value(Value::Null.into()), "nothing".to_owned()));
    select::query(with.cloned(), items, from, selection)
}

/// The query whose columns are those that a changing statement returns, for its types: RETURNING over its tables.
/// `None` if it returns nothing.
pub(crate) fn returned(statement: &Statement) -> Option<Query> {
    let (statement, with) = match statement {
        Statement::Query(query) => (statement_of(query)?, query.with.clone()),
        other => (other, None),
    };
    match statement {
        Statement::Insert(insert) => {
            let TableObject::TableName(name) = &insert.table else { return None };
            let items = insert.returning.as_ref()?.iter().map(ToString::to_string).collect::<Vec<_>>();
            let alias = insert.table_alias.as_ref().map(|alias| format!(" AS {}", alias.alias));
            let text = format!("SELECT {} FROM {name}{}", items.join(", "), alias.unwrap_or_default());
            let mut query = crate::parse::parse_query(&text).ok()?;
            number_rows_written(&mut query);
            Some(query)
        }
        Statement::Update(update) => {
            Some(select::query(with, update.returning.clone()?, tables_of(update), None))
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
            let from = tables.iter().chain(delete.using.iter().flatten()).cloned().collect();
            Some(select::query(with, delete.returning.clone()?, from, None))
        }
        _ => None,
    }
}

/// What an INSERT says of a row by `xmax`, which no query knows, as a number in its place.
fn number_rows_written(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    for output in &mut select.projection {
        let (SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. }) =
            output
        else {
            continue;
        };
        let name = column_name(expression);
        let mut is_changed = false;
        change_expressions(expression, |part| {
            let last = match part {
                Expr::Identifier(name) => Some(&*name),
                Expr::CompoundIdentifier(parts) => parts.last(),
                _ => None,
            };
            if last.is_some_and(|name| fold(name) == XMAX) {
                *part = select::cast(
                    Expr::Value(Value::Number("0".to_owned(), false).into()),
                    DataType::Int8(None),
                );
                is_changed = true;
            }
        });
        if let (SelectItem::UnnamedExpr(expression), true) = (&*output, is_changed) {
            *output = select::item(expression.clone(), name);
        }
    }
}
