// SPDX-License-Identifier: Apache-2.0
//! Views through which rows are written: those over one table, or over one such view, whose rows are rows of that table.
//!
//! Which these are is PostgreSQL's rule (`view_query_is_auto_updatable`), with its reasons in its order. What the columns and the
//! conditions of such a view are is told twice: as the view has them, for a query that finds its rows ([`Updatable::keyed`]), and of the
//! columns of the table alone, for one row after the other.

use super::view_query_of;
use crate::column_name::column_name;
use crate::functions::is_aggregate;
use crate::json::set_columns;
use crate::names::{fold, split_name};
use crate::select::{self, column, item, quoted};
use crate::walk::{
    any_expression, any_outside_queries, change_expressions, find_relation, try_change_expressions,
};
use coeval_store::{CheckOption, ObjectRef, QualifiedName, TableDef, Transaction, ViewDef};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, FunctionArguments, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr,
    TableAlias, TableFactor, TableWithJoins,
};
use std::sync::Arc;

/// What the table below goes by in expressions of one row.
pub(crate) const BASE: &str = "coeval base";

/// How deep views may stand on views here.
const DEPTH_MAX: usize = 32;

const SINGLE: &str = "Views that do not select from a single table or view are not automatically updatable.";
const NO_COLUMNS: &str = "Views that have no updatable columns are not automatically updatable.";

/// Why rows are not written through a view, in PostgreSQL's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotUpdatable {
    /// The view, which may be one below the one that was asked about.
    pub(crate) view: QualifiedName,
    /// The reason, a sentence.
    pub(crate) reason: &'static str,
}

/// A view through which rows are written.
#[derive(Clone, Debug)]
pub(crate) struct Updatable {
    /// The table whose rows they are, with the defaults of the views above it in the place of its own.
    pub(crate) table: Arc<TableDef>,
    /// The columns of the view, in order.
    pub(crate) columns: Vec<UpdatableColumn>,
    /// The view itself first, the one over the table last.
    levels: Vec<Level>,
}

/// A column of such a view, or of what it is over.
#[derive(Clone, Debug)]
pub(crate) struct UpdatableColumn {
    /// Its name.
    pub(crate) name: String,
    /// What it is, of the columns of [`BASE`]; `None` if there is a subquery in it.
    pub(crate) expression: Option<Expr>,
    /// The table's column that it is, if it is one as it stands there.
    pub(crate) base: Option<usize>,
}

/// One of the views on the way to the table.
#[derive(Clone, Debug)]
struct Level {
    view: Arc<ViewDef>,
    /// What it is over, and the name that this goes by in it.
    from: TableFactor,
    relation: String,
    outputs: Vec<(String, Expr)>,
    /// The table's column that each of them is, if it is one as it stands there.
    bases: Vec<Option<usize>>,
    selection: Option<Expr>,
    /// The selection, of the columns of [`BASE`]; `None` if there is none, or a subquery in it.
    condition: Option<Expr>,
}

/// A condition that rows written through a view have to satisfy.
pub(crate) struct Check<'u> {
    /// The view whose condition it is.
    pub(crate) view: &'u str,
    /// The condition, of the columns of [`BASE`]; `None` if there is a subquery in it.
    pub(crate) condition: Option<&'u Expr>,
}

impl Updatable {
    /// What a view is as one that rows are written through.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn of_view(view: &Arc<ViewDef>, transaction: &Transaction) -> Result<Self, NotUpdatable> {
        Self::at_depth(view, transaction, 0)
    }

    fn at_depth(view: &Arc<ViewDef>, transaction: &Transaction, depth: usize) -> Result<Self, NotUpdatable> {
        let refused = |reason| NotUpdatable { view: view.name.clone(), reason };
        let query = view_query_of(view).map_err(|_| refused(SINGLE))?;
        let (select, pinned) = body_of(&query).map_err(refused)?;
        let (from, name, relation) = single_relation(select).map_err(refused)?;
        let below = match transaction.catalog().resolve(&name) {
            Some(ObjectRef::View) if depth < DEPTH_MAX => {
                let below = transaction.catalog().view(&name).cloned().ok_or_else(|| refused(SINGLE))?;
                Self::at_depth(&below, transaction, depth + 1)?
            }
            Some(ObjectRef::Table(_)) => {
                let table = transaction.resolve_table(&name).ok_or_else(|| refused(SINGLE))?;
                Self { columns: columns_of(&table), table, levels: Vec::new() }
            }
            _ => return Err(refused(SINGLE)),
        };
        let outputs = outputs(select, pinned.as_deref(), view, &below.columns);
        let outputs = outputs.ok_or_else(|| refused(SINGLE))?;
        let columns = outputs.iter().map(|(name, output)| UpdatableColumn {
            name: name.clone(),
            expression: over_base(output, &relation, &below.columns),
            base: named_column(output, &relation, &below.columns).and_then(|column| column.base),
        });
        let columns: Vec<UpdatableColumn> = columns.collect();
        let selection = select.selection.clone();
        let condition =
            selection.as_ref().and_then(|selection| over_base(selection, &relation, &below.columns));
        let bases = columns.iter().map(|column| column.base).collect();
        let level = Level { view: Arc::clone(view), from, relation, outputs, bases, selection, condition };
        let levels = std::iter::once(level).chain(below.levels).collect();
        Ok(Self { table: with_defaults(below.table, view, &columns), columns, levels })
    }

    /// Refuses a view none of whose columns is one of the table. Rows may be deleted through it all the same.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn require_columns(&self) -> Result<(), NotUpdatable> {
        let below = self.levels.first().map(|level| level.view.name.clone());
        match below {
            Some(view) if self.columns.iter().all(|column| column.base.is_none()) => {
                Err(NotUpdatable { view, reason: NO_COLUMNS })
            }
            _ => Ok(()),
        }
    }

    /// The views on the way to the table, the view itself first, and for each of their columns the table's that it is, if it is one as it
    /// stands there.
    pub(crate) fn views(&self) -> impl Iterator<Item = (&Arc<ViewDef>, &[Option<usize>])> {
        self.levels.iter().map(|level| (&level.view, level.bases.as_slice()))
    }

    /// The first view below the view itself that has a subquery. Which rights it is read with is a matter of that view's owner.
    pub(crate) fn view_below_with_a_subquery(&self) -> Option<&str> {
        let has_one = |level: &&Level| {
            level.selection.iter().chain(level.outputs.iter().map(|(_, output)| output)).any(has_subquery)
        };
        self.levels.iter().skip(1).find(has_one).map(|level| level.view.name.name.as_str())
    }

    /// Whether a subquery of the view names the table below: it reads other rows than the view's own.
    pub(crate) fn reads_table_besides(&self) -> bool {
        let table = &self.table.name;
        let is_table = |(schema, name): (Option<String>, String)| {
            name == table.name && schema.is_none_or(|schema| schema == table.schema)
        };
        let names_it = |expression: &Expr| {
            find_relation(expression, |name| split_name(name).map_or(true, is_table).then_some(())).is_some()
        };
        let mut levels = self.levels.iter();
        levels.any(|level| {
            let outputs = level.outputs.iter().map(|(_, output)| output);
            level.selection.iter().chain(outputs).any(names_it)
        })
    }

    /// The query of the view with the primary key of the table in front, its columns as [`key_name`] calls them.
    pub(crate) fn keyed(&self) -> Query {
        self.keyed_from(0)
    }

    fn keyed_from(&self, place: usize) -> Query {
        let level = &self.levels[place];
        let relation = quoted(level.relation.as_str());
        let is_lowest = place + 1 == self.levels.len();
        let from = if is_lowest {
            level.from.clone()
        } else {
            let alias = TableAlias { explicit: true, name: relation.clone(), columns: Vec::new(), at: None };
            let subquery = Box::new(self.keyed_from(place + 1));
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }
        };
        let keys = self.table.primary_key.iter().enumerate().map(|(number, &key)| {
            let below = if is_lowest { self.table.columns[key].name.clone() } else { key_name(number) };
            item(column(&relation, &below), key_name(number))
        });
        let outputs = level.outputs.iter().map(|(name, output)| item(output.clone(), name.clone()));
        let from = vec![TableWithJoins { relation: from, joins: Vec::new() }];
        select::query(None, keys.chain(outputs).collect(), from, level.selection.clone())
    }

    /// What rows have to satisfy that are written through the view, in the order in which PostgreSQL looks: those of the
    /// views below first.
    pub(crate) fn checks(&self) -> Vec<Check<'_>> {
        let mut checks = Vec::new();
        let mut is_cascaded = false;
        for level in &self.levels {
            is_cascaded |= level.view.check == Some(CheckOption::Cascaded);
            if level.selection.is_some() && (is_cascaded || level.view.check.is_some()) {
                checks.push(Check { view: &level.view.name.name, condition: level.condition.as_ref() });
            }
        }
        checks.reverse();
        checks
    }
}

/// The table with the defaults that a view over it has for its columns.
fn with_defaults(mut table: Arc<TableDef>, view: &ViewDef, columns: &[UpdatableColumn]) -> Arc<TableDef> {
    let output = view.output.as_deref().unwrap_or_default();
    for (known, column) in output.iter().zip(columns) {
        if let (Some(default), Some(base)) = (&known.default, column.base) {
            let changed = &mut Arc::make_mut(&mut table).columns[base];
            changed.default = Some(default.clone());
            changed.sequence = None;
        }
    }
    table
}

/// What names begin with of columns that are keys of the table below a view, in queries that find its rows.
pub(crate) const KEYS: &str = "coeval key ";

/// What a column of the table's primary key is called in [`Updatable::keyed`].
pub(crate) fn key_name(number: usize) -> String {
    format!("{KEYS}{number}")
}

/// The columns of a table, of themselves.
fn columns_of(table: &TableDef) -> Vec<UpdatableColumn> {
    let base = quoted(BASE);
    let of_column = |(place, name): (usize, &String)| UpdatableColumn {
        name: name.clone(),
        expression: Some(column(&base, name)),
        base: Some(place),
    };
    table.live_columns().map(|(place, column)| of_column((place, &column.name))).collect()
}

/// The SELECT that a view's query is, and the names of its columns if they were pinned around a `*`: the query is then one that
/// names them and selects from the one that was written.
fn body_of(query: &Query) -> Result<(&Select, Option<Vec<String>>), &'static str> {
    let select = select_of(query)?;
    if let [TableWithJoins { relation: TableFactor::Derived { subquery, alias: Some(alias), .. }, joins }] =
        select.from.as_slice()
        && joins.is_empty()
        && alias.name.value == "view"
        && let SetExpr::Select(inner) = subquery.body.as_ref()
        && inner.projection.iter().any(is_wildcard)
    {
        let name = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(fold(name)),
            _ => None,
        };
        let pinned: Option<Vec<String>> = select.projection.iter().map(name).collect();
        if pinned.is_some() {
            return Ok((select_of(subquery)?, pinned));
        }
    }
    Ok((select, None))
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// The SELECT that a query is, if its rows are those of what it selects from.
fn select_of(query: &Query) -> Result<&Select, &'static str> {
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => Some(select.as_ref()),
        SetExpr::SetOperation { .. } => {
            return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        }
        _ => None,
    };
    if let Some(select) = select {
        if matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_))) {
            return Err("Views containing DISTINCT are not automatically updatable.");
        }
        let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(groups, modifiers)
            if groups.is_empty() && modifiers.is_empty());
        if !is_ungrouped {
            return Err("Views containing GROUP BY are not automatically updatable.");
        }
        if select.having.is_some() {
            return Err("Views containing HAVING are not automatically updatable.");
        }
    }
    if query.with.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    let select = select.ok_or(SINGLE)?;
    refuse_calls(select)?;
    Ok(select)
}

/// Refuses functions in the select list whose result is of several rows, or that give several.
fn refuse_calls(select: &Select) -> Result<(), &'static str> {
    let calls = |is_such: fn(&Function) -> bool| {
        select.projection.iter().any(|item| {
            any_outside_queries(item, |part| matches!(part, Expr::Function(function) if is_such(function)))
        })
    };
    if calls(|function| function.over.is_none() && is_aggregate(&name_of(function))) {
        return Err("Views that return aggregate functions are not automatically updatable.");
    }
    if calls(|function| function.over.is_some()) {
        return Err("Views that return window functions are not automatically updatable.");
    }
    if calls(|function| gives_sets(&name_of(function))) {
        return Err("Views that return set-returning functions are not automatically updatable.");
    }
    Ok(())
}

fn name_of(function: &Function) -> String {
    split_name(&function.name).map(|(_, name)| name).unwrap_or_default()
}

/// Whether an expression calls a function that gives several rows, those in subqueries aside.
pub(crate) fn calls_sets(expression: &Expr) -> bool {
    any_outside_queries(
        expression,
        |part| matches!(part, Expr::Function(function) if gives_sets(&name_of(function))),
    )
}

/// Whether functions of this name give several rows.
fn gives_sets(name: &str) -> bool {
    const SETS: [&str; 6] = [
        "generate_series",
        "generate_subscripts",
        "regexp_matches",
        "regexp_split_to_table",
        "string_to_table",
        "unnest",
    ];
    SETS.contains(&name) || !set_columns(name).is_empty()
}

/// The one table or view that a SELECT reads, as it stands in FROM, its name, and the name it goes by.
fn single_relation(select: &Select) -> Result<(TableFactor, QualifiedName, String), &'static str> {
    let [TableWithJoins { relation, joins }] = select.from.as_slice() else { return Err(SINGLE) };
    let TableFactor::Table { name, alias, args: None, sample, .. } = relation else { return Err(SINGLE) };
    let (Ok((Some(schema), table)), true) = (split_name(name), joins.is_empty()) else { return Err(SINGLE) };
    if sample.is_some() {
        return Err("Views containing TABLESAMPLE are not automatically updatable.");
    }
    if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
        return Err(SINGLE);
    }
    let goes_by = alias.as_ref().map_or_else(|| table.clone(), |alias| fold(&alias.name));
    Ok((relation.clone(), QualifiedName::new(schema, table), goes_by))
}

/// The names and expressions of the columns of a view; `None` if they cannot be told.
fn outputs(
    select: &Select,
    pinned: Option<&[String]>,
    view: &ViewDef,
    below: &[UpdatableColumn],
) -> Option<Vec<(String, Expr)>> {
    let mut outputs: Vec<(String, Expr)> = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(output) => outputs.push((column_name(output), output.clone())),
            SelectItem::ExprWithAlias { expr, alias } => outputs.push((fold(alias), expr.clone())),
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                let all = below.iter().map(|column| column.name.clone());
                outputs.extend(all.map(|name| (name.clone(), Expr::Identifier(quoted(name)))));
            }
            SelectItem::ExprWithAliases { .. } => return None,
        }
    }
    if let Some(pinned) = pinned {
        let find = |name: &String| outputs.iter().find(|(known, _)| known == name).cloned();
        outputs = pinned.iter().map(find).collect::<Option<_>>()?;
    }
    for ((name, _), given) in outputs.iter_mut().zip(&view.columns) {
        name.clone_from(given);
    }
    Some(outputs)
}

/// The column of what a view is over that an expression is.
fn named_column<'b>(
    expression: &Expr,
    relation: &str,
    below: &'b [UpdatableColumn],
) -> Option<&'b UpdatableColumn> {
    let name = match expression {
        Expr::Nested(inner) => return named_column(inner, relation, below),
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [.., table, name] if fold(table) == relation => name,
            _ => return None,
        },
        _ => return None,
    };
    let name = fold(name);
    below.iter().find(|column| column.name == name)
}

/// An expression over what a view is over, of the columns of [`BASE`]; `None` if there is a subquery in it.
fn over_base(expression: &Expr, relation: &str, below: &[UpdatableColumn]) -> Option<Expr> {
    if has_subquery(expression) {
        return None;
    }
    let mut written = expression.clone();
    let done = try_change_expressions(&mut written, |part| -> Result<(), ()> {
        if matches!(part, Expr::Nested(_)) {
            return Ok(());
        }
        if let Some(column) = named_column(part, relation, below) {
            *part = operand(column.expression.as_ref().ok_or(())?);
        }
        Ok(())
    });
    done.is_ok().then_some(written)
}

/// An expression in the place of a name.
pub(crate) fn operand(expression: &Expr) -> Expr {
    match expression {
        Expr::CompoundIdentifier(_) => expression.clone(),
        other => Expr::Nested(Box::new(other.clone())),
    }
}

fn has_subquery(expression: &Expr) -> bool {
    any_expression(expression, |part| match part {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        Expr::Function(function) => matches!(function.args, FunctionArguments::Subquery(_)),
        _ => false,
    })
}

/// The columns of [`BASE`] in an expression under another name.
pub(crate) fn renamed_base(expression: &Expr, name: &str) -> Expr {
    let mut renamed = expression.clone();
    change_expressions(&mut renamed, |part| {
        if let Expr::CompoundIdentifier(parts) = part
            && let [table, _] = parts.as_mut_slice()
            && table.value == BASE
        {
            *table = Ident::with_quote('"', name);
        }
    });
    renamed
}
