// SPDX-License-Identifier: Apache-2.0
//! To which of the queries around it a column belongs, before anything is planned.
//!
//! Syntax and catalog tell it of tables, views, subqueries, parts of a WITH, functions that return one column, and sets beside each
//! other. The columns of other functions and of files are not known here: a name with its table in front is found all the same, one
//! without may be theirs.

mod found;
mod joined;
mod sets;

pub(super) use found::found;
pub(super) use joined::{JoinedColumn, constraint_mut, constraint_of, forget_name};
pub(super) use sets::{SetNames, names_of_sets};

use crate::column_name::unmarked;
use crate::names::fold;
use crate::stack::with_room;
use crate::walk::Walk;
use coeval_store::{ColumnType, TableDef};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinOperator, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, Visit, Visitor,
};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// What a name in FROM stands for.
pub(super) enum FoundRelation {
    /// A table.
    Table(Arc<TableDef>),
    /// A view, or a relation of the system, with these columns.
    Columns(Vec<String>),
}

/// What finds the relation of a name; `None` if there is none, or its columns are not known.
pub(super) type FindRelation<'f> = &'f dyn Fn(&ObjectName) -> Option<FoundRelation>;

/// The names of columns in order; `None` if they are not known.
type Columns = Option<Vec<String>>;

/// What goes by a name in a FROM.
#[derive(Default)]
struct Relation {
    name: Option<String>,
    columns: Columns,
    /// Those that are known where not all are.
    some_columns: Vec<String>,
    /// A column that is NULL only where the whole row is.
    row_column: Option<String>,
    /// Whether a row is the value of its only column.
    is_value: bool,
    /// Whether a join may fill up its rows with NULL.
    is_filled_up: bool,
    /// The columns of its primary key, if it is a table with one.
    key: Vec<String>,
    /// The types of its columns, if it is a table.
    types: Vec<ColumnType>,
}

impl Relation {
    fn of(alias: Option<&TableAlias>, columns: Columns) -> Self {
        Self { name: alias.map(|alias| fold(&alias.name)), columns, ..Self::default() }
    }

    /// Sets beside each other. Where there is one, its rows are values.
    fn of_sets(names: SetNames) -> Self {
        let SetNames { table, columns } = names;
        let is_value = columns.len() == 1;
        let row_column = columns.first().filter(|_| is_value).cloned();
        Self { name: Some(table), columns: Some(columns), row_column, is_value, ..Self::default() }
    }

    fn known_columns(&self) -> &[String] {
        self.columns.as_deref().unwrap_or(&self.some_columns)
    }

    /// Whether a name that is not among the known columns may be one. A function's alias names its column only if it lists none.
    fn may_have(&self, column: &str) -> bool {
        let is_own = self.name.as_deref() == Some(column);
        self.columns.is_none() && (self.some_columns.is_empty() || !is_own)
    }
}

/// A query's FROM.
#[derive(Default)]
struct FromClause {
    relations: Vec<Relation>,
}

impl FromClause {
    /// Notes that a join may fill up the rows of those at these places.
    fn fill_up(&mut self, places: Range<usize>) {
        for relation in &mut self.relations[places] {
            relation.is_filled_up = true;
        }
    }
}

/// The parts of WITH that are seen at a place, the last one first.
#[derive(Clone, Default)]
struct SeenParts(Option<Arc<Part>>);

struct Part {
    name: String,
    columns: Columns,
    others: SeenParts,
}

impl SeenParts {
    /// These and one more, which hides one of the same name.
    fn and(self, name: String, columns: Columns) -> Self {
        Self(Some(Arc::new(Part { name, columns, others: self })))
    }

    fn find(&self, name: &str) -> Option<&Columns> {
        let mut next = self.0.as_deref();
        while let Some(part) = next {
            if part.name == name {
                return Some(&part.columns);
            }
            next = part.others.0.as_deref();
        }
        None
    }
}

/// One of the queries around a place.
struct Around {
    from: FromClause,
    /// Whether that is of its only SELECT, which has not been gone to.
    is_entered: bool,
    /// In how many tables of its FROM the place is that do not see the others.
    hidden: usize,
    /// The parts that the query itself sees.
    seen: SeenParts,
    /// What the bodies of the parts of its WITH see that have not been entered. They are walked before all else of it.
    bodies: std::vec::IntoIter<SeenParts>,
}

/// A relation whose whole rows an expression names.
pub(super) struct WholeRow<'s> {
    /// How many queries there are around the one that has it in FROM.
    pub(super) place: usize,
    /// Its columns, if they are known.
    pub(super) columns: Option<&'s [String]>,
    /// A column that is NULL only where the whole row is.
    pub(super) row_column: Option<&'s str>,
    /// Whether a join beside it may fill up rows with NULL.
    pub(super) is_filled_up: bool,
    /// Whether a row is the value of its only column.
    pub(super) is_value: bool,
}

/// A column of the innermost query.
pub(super) struct OwnColumn<'s> {
    /// What its relation is called.
    pub(super) table: Option<&'s str>,
    pub(super) name: String,
    /// The columns of its table's primary key; none if it is no table's.
    pub(super) key: &'s [String],
}

/// Whose a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The query that has so many queries around it.
    Query(usize),
    /// No query's.
    Nobody,
    /// Perhaps that of a relation whose columns are not known.
    Unknown,
}

impl Owner {
    /// The owner of what names columns of both: the inner one of two queries.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Nobody, owner) | (owner, Self::Nobody) => owner,
            (Self::Query(left), Self::Query(right)) => Self::Query(left.max(right)),
        }
    }
}

/// The queries around a place in the syntax, the outermost first, each with what stands in its FROM.
pub(super) struct Scopes<'f> {
    find: FindRelation<'f>,
    queries: Vec<Around>,
}

impl<'f> Scopes<'f> {
    /// Those around a statement's query: none.
    pub(super) fn of_statement(find: FindRelation<'f>) -> Self {
        Self { find, queries: Vec::new() }
    }

    /// How many queries there are around the place.
    pub(super) fn depth(&self) -> usize {
        self.queries.len()
    }

    /// Goes into a query. A walk enters the parts of its WITH, in their order, before all others within it.
    pub(super) fn enter(&mut self, query: &Query) {
        let around = match self.queries.last_mut() {
            Some(around) => around.bodies.next().unwrap_or_else(|| around.seen.clone()),
            None => SeenParts::default(),
        };
        let (bodies, seen) = self.with_parts(query, &around);
        let (from, is_entered) = match query.body.as_ref() {
            SetExpr::Select(select) => (self.clause(select, &seen), true),
            _ => (FromClause::default(), false),
        };
        self.queries.push(Around { from, is_entered, hidden: 0, seen, bodies: bodies.into_iter() });
    }

    /// Goes to one of the SELECTs that the innermost query is put together from, which is as it was when the query was entered. Of its only
    /// one it is known since then what stands in its FROM.
    pub(super) fn turn_to_entered(&mut self, select: &Select) {
        let is_known =
            self.queries.last_mut().is_some_and(|innermost| std::mem::take(&mut innermost.is_entered));
        if !is_known {
            self.turn_to(select);
        }
    }

    /// Goes to one of the SELECTs that the innermost query is put together from.
    pub(super) fn turn_to(&mut self, select: &Select) {
        let Some(seen) = self.queries.last().map(|innermost| innermost.seen.clone()) else { return };
        let from = self.clause(select, &seen);
        if let Some(innermost) = self.queries.last_mut() {
            innermost.from = from;
        }
    }

    /// Goes into a table of the innermost query's FROM: unless it is LATERAL, it does not see the others.
    pub(super) fn enter_table(&mut self, factor: &TableFactor) {
        if let (TableFactor::Derived { lateral: false, .. }, Some(innermost)) =
            (factor, self.queries.last_mut())
        {
            innermost.hidden += 1;
        }
    }

    /// Leaves it.
    pub(super) fn leave_table(&mut self, factor: &TableFactor) {
        if let (TableFactor::Derived { lateral: false, .. }, Some(innermost)) =
            (factor, self.queries.last_mut())
        {
            innermost.hidden -= 1;
        }
    }

    /// Leaves the innermost query.
    pub(super) fn leave(&mut self) {
        self.queries.pop();
    }

    /// Leaves all queries but so many.
    pub(super) fn leave_to(&mut self, depth: usize) {
        self.queries.truncate(depth);
    }

    /// The query to which a column belongs; `None` if the expression is not just a column.
    pub(super) fn owner_of_column(&self, expression: &Expr) -> Option<Owner> {
        Some(match named(expression)? {
            (None, column) => self.owner_by_name(&column),
            (Some(table), _) => self.owner_by_table(&table),
        })
    }

    /// The name of a column, if several columns of one relation have it.
    pub(super) fn doubled(&self, expression: &Expr) -> Option<String> {
        let (table, name) = named(expression)?;
        let Some(Owner::Query(place)) = self.owner_of_column(expression) else { return None };
        let relations = &self.queries.get(place)?.from.relations;
        let mut meant = relations.iter().filter(|relation| table.is_none() || relation.name == table);
        let has_several = |relation: &Relation| {
            relation.columns.iter().flatten().filter(|column| unmarked(column) == name).nth(1).is_some()
        };
        meant.any(has_several).then_some(name)
    }

    /// Whose the columns are that syntax names here, but for those of queries within it.
    pub(super) fn owner_of(&mut self, syntax: &impl Visit) -> Owner {
        let here = self.depth();
        let mut owners = Owners { scopes: self, here, owner: Owner::Nobody };
        // Nothing breaks off the visit.
        let _ = syntax.walk(&mut owners);
        owners.owner
    }

    /// The relation of this name, whose rows are meant by it: by `t.*`, and by `t` where no column has that name.
    pub(super) fn whole_row(&self, name: &Ident) -> Option<WholeRow<'_>> {
        let name = fold(name);
        let Owner::Query(place) = self.owner_by_table(&name) else { return None };
        let from = &self.queries.get(place)?.from;
        let relation = from.relations.iter().find(|relation| relation.name.as_ref() == Some(&name))?;
        Some(WholeRow {
            place,
            columns: relation.columns.as_deref(),
            row_column: relation.row_column.as_deref(),
            is_filled_up: relation.is_filled_up,
            is_value: relation.is_value,
        })
    }

    /// The column of the innermost query's FROM that an expression is; `None` also if it is not known to be one.
    pub(super) fn own_column(&self, expression: &Expr) -> Option<OwnColumn<'_>> {
        let (table, name) = named(expression)?;
        let relations = &self.queries.last()?.from.relations;
        let may_be_meant = |relation: &&Relation| table.is_none() || relation.name == table;
        let has = |relation: &&Relation| relation.known_columns().contains(&name);
        let known = relations.iter().find(|relation| may_be_meant(relation) && has(relation));
        // What is not known of any may be a column of the only one whose columns are not; or of a query around this one.
        let is_alone = table.is_some() || (self.queries.len() == 1 && relations.len() == 1);
        let unknown = || {
            relations.iter().find(|relation| is_alone && may_be_meant(relation) && relation.may_have(&name))
        };
        let relation = known.or_else(unknown)?;
        Some(OwnColumn { table: relation.name.as_deref(), name, key: &relation.key })
    }

    /// How many columns the rows of what the innermost query is made of have; `None` if that is not known.
    pub(super) fn width_of(&self, body: &SetExpr) -> Option<usize> {
        self.body_outputs(body, &self.queries.last()?.seen).map(|outputs| outputs.len())
    }

    /// The same of one of its SELECTs.
    pub(super) fn width_of_select(&self, select: &Select) -> Option<usize> {
        self.select_outputs(select, &self.queries.last()?.seen).map(|outputs| outputs.len())
    }

    /// The same of a query within it.
    pub(super) fn width_of_query(&self, query: &Query) -> Option<usize> {
        self.outputs(query, &self.queries.last()?.seen).map(|outputs| outputs.len())
    }

    /// The columns that an item of one of its SELECTs stands for; `None` if they are not known.
    pub(super) fn columns_of(&self, item: &SelectItem, select: &Select) -> Option<Vec<String>> {
        self.output(item, select, &self.queries.last()?.seen)
    }

    fn owner_by_table(&self, table: &str) -> Owner {
        let is_it = |relation: &Relation| relation.name.as_deref() == Some(table);
        let has = |query: &Around| query.hidden == 0 && query.from.relations.iter().any(is_it);
        self.queries.iter().rposition(has).map_or(Owner::Nobody, Owner::Query)
    }

    fn owner_by_name(&self, column: &str) -> Owner {
        let seen = self.queries.iter().enumerate().filter(|(_, query)| query.hidden == 0);
        for (place, Around { from, .. }) in seen.rev() {
            let mut known = from.relations.iter().flat_map(Relation::known_columns);
            if known.any(|name| name == column) {
                return Owner::Query(place);
            }
            if from.relations.iter().any(|relation| relation.may_have(column)) {
                // Around the outermost query there is none that could have it.
                return if place == 0 { Owner::Query(0) } else { Owner::Unknown };
            }
        }
        Owner::Nobody
    }

    /// What the parts of a query's WITH see in their bodies, and what the query sees, at a place that sees `around`.
    fn with_parts(&self, query: &Query, around: &SeenParts) -> (Vec<SeenParts>, SeenParts) {
        let (mut seen, mut bodies) = (around.clone(), Vec::new());
        let Some(with) = &query.with else { return (bodies, seen) };
        if with.recursive {
            // All of them hide tables already. Their columns are not known yet.
            seen = with.cte_tables.iter().fold(seen, |seen, part| seen.and(fold(&part.alias.name), None));
        }
        for part in &with.cte_tables {
            let columns = renamed(self.outputs(&part.query, &seen), Some(&part.alias));
            bodies.push(seen.clone());
            seen = seen.and(fold(&part.alias.name), columns);
        }
        if with.recursive {
            bodies.fill(seen.clone());
        }
        (bodies, seen)
    }

    fn clause(&self, select: &Select, seen: &SeenParts) -> FromClause {
        let mut from = FromClause::default();
        select.from.iter().for_each(|tables| self.add(tables, seen, &mut from));
        from
    }

    fn add(&self, tables: &TableWithJoins, seen: &SeenParts, from: &mut FromClause) {
        let first = from.relations.len();
        self.add_factor(&tables.relation, seen, from);
        for join in &tables.joins {
            let behind = from.relations.len();
            self.add_factor(&join.relation, seen, from);
            if fills_up_left(&join.join_operator) {
                from.fill_up(first..behind);
            }
            if fills_up_right(&join.join_operator) {
                from.fill_up(behind..from.relations.len());
            }
        }
        let named = from.relations.len();
        let names = tables.joins.iter().filter_map(|join| joined::named_columns(&join.join_operator));
        from.relations.extend(names.map(|(name, columns)| Relation {
            name: Some(name),
            columns: Some(columns),
            ..Relation::default()
        }));
        // A join behind the one that has the name may.
        let fills_up =
            |join: &Join| fills_up_left(&join.join_operator) || fills_up_right(&join.join_operator);
        if tables.joins.iter().any(fills_up) {
            from.fill_up(named..from.relations.len());
        }
    }

    fn add_factor(&self, factor: &TableFactor, seen: &SeenParts, from: &mut FromClause) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.add(table_with_joins, seen, from);
            }
            factor => from.relations.push(self.relation(factor, seen)),
        }
    }

    fn relation(&self, factor: &TableFactor, seen: &SeenParts) -> Relation {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => self.table(name, alias.as_ref(), seen),
            TableFactor::Derived { subquery, alias, .. } => {
                let alias = alias.as_ref();
                Relation::of(alias, renamed(self.outputs(subquery, seen), alias))
            }
            TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. } => {
                if let Some(names) = names_of_sets(factor) {
                    return Relation::of_sets(names);
                }
                let alias = alias.as_ref();
                if let Some(columns) = declared(alias) {
                    return Relation::of(alias, Some(columns));
                }
                match value_column(factor) {
                    Some(only) => {
                        let relation = Relation::of(alias, Some(vec![only.clone()]));
                        Relation { row_column: Some(only), is_value: true, ..relation }
                    }
                    None => {
                        let columns = own_column(factor).map(|only| vec![only]);
                        // The function may have more columns than the list.
                        Relation { some_columns: given(alias), ..Relation::of(alias, columns) }
                    }
                }
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let columns = self.names_of_all(std::slice::from_ref(table_with_joins), seen);
                Relation::of(alias.as_ref(), renamed(columns, alias.as_ref()))
            }
            _ => Relation::of(None, None),
        }
    }

    fn table(&self, name: &ObjectName, alias: Option<&TableAlias>, seen: &SeenParts) -> Relation {
        let own = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
        let known_as = alias.map(|alias| fold(&alias.name)).or(own);
        if let [ObjectNamePart::Identifier(part)] = name.0.as_slice()
            && let Some(columns) = seen.find(&fold(part))
        {
            let columns = renamed(columns.clone(), alias);
            return Relation { name: known_as, columns, ..Relation::default() };
        }
        let def = match (self.find)(name) {
            Some(FoundRelation::Table(def)) => def,
            Some(FoundRelation::Columns(columns)) => {
                let columns = renamed(Some(columns), alias);
                return Relation { name: known_as, columns, ..Relation::default() };
            }
            None => return Relation { name: known_as, ..Relation::default() },
        };
        let own = def.live_columns().map(|(_, column)| column.name.clone()).collect();
        let columns = renamed(Some(own), alias);
        let never_null = def.live_columns().position(|(_, column)| column.not_null);
        let row_column = never_null.and_then(|place| columns.as_ref()?.get(place).cloned());
        let name_of = |key: &usize| {
            let place = def.live_columns().position(|(index, _)| index == *key)?;
            columns.as_ref()?.get(place).cloned()
        };
        let key = def.primary_key.iter().filter_map(name_of).collect();
        let types = def.live_columns().map(|(_, column)| column.ty).collect();
        Relation { name: known_as, columns, row_column, key, types, ..Relation::default() }
    }

    /// The names of a query's outputs; not known where all columns of a relation are among them whose columns are not.
    fn outputs(&self, query: &Query, around: &SeenParts) -> Columns {
        let (_, seen) = self.with_parts(query, around);
        self.body_outputs(&query.body, &seen)
    }

    fn body_outputs(&self, body: &SetExpr, seen: &SeenParts) -> Columns {
        match body {
            SetExpr::Select(select) => self.select_outputs(select, seen),
            SetExpr::Query(query) => self.outputs(query, seen),
            SetExpr::SetOperation { left, .. } => with_room(|| self.body_outputs(left, seen)),
            SetExpr::Values(values) => {
                let width = values.rows.first()?.len();
                Some((1..=width).map(|place| format!("column{place}")).collect())
            }
            _ => None,
        }
    }

    fn select_outputs(&self, select: &Select, seen: &SeenParts) -> Columns {
        let outputs: Option<Vec<_>> =
            select.projection.iter().map(|item| self.output(item, select, seen)).collect();
        Some(outputs?.into_iter().flatten().collect())
    }

    fn output(&self, item: &SelectItem, select: &Select, seen: &SeenParts) -> Columns {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(vec![fold(alias)]),
            SelectItem::UnnamedExpr(expression) => Some(vec![crate::column_name::column_name(expression)]),
            SelectItem::Wildcard(_) => self.names_of_all(&select.from, seen),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let name = name.0.last().and_then(ObjectNamePart::as_ident).map(fold)?;
                let relations = self.clause(select, seen).relations;
                relations.into_iter().find(|one| one.name.as_ref() == Some(&name))?.columns
            }
            _ => None,
        }
    }
}

/// The column that an expression is, with the table in front of it; `None` if it is something else.
fn named(expression: &Expr) -> Option<(Option<String>, String)> {
    match expression {
        Expr::Identifier(name) => Some((None, fold(name))),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [.., table, name] => Some((Some(fold(table)), fold(name))),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a join may fill up the rows of what stands in front of it with NULL.
fn fills_up_left(join: &JoinOperator) -> bool {
    matches!(join, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_))
}

/// Whether a join may fill up the rows of what stands behind it with NULL.
fn fills_up_right(join: &JoinOperator) -> bool {
    matches!(join, JoinOperator::Left(_) | JoinOperator::LeftOuter(_) | JoinOperator::FullOuter(_))
}

/// The columns under the names that an alias gives to the first ones.
fn renamed(columns: Columns, alias: Option<&TableAlias>) -> Columns {
    let mut columns = columns?;
    let given = alias.into_iter().flat_map(|alias| &alias.columns);
    for (column, given) in columns.iter_mut().zip(given) {
        *column = fold(&given.name);
    }
    Some(columns)
}

/// The names of columns that an alias lists: of all, or of the first ones.
fn given(alias: Option<&TableAlias>) -> Vec<String> {
    alias.into_iter().flat_map(|alias| &alias.columns).map(|column| fold(&column.name)).collect()
}

/// The columns of an alias that says their types, too: there are no others.
fn declared(alias: Option<&TableAlias>) -> Columns {
    let columns = &alias?.columns;
    let has_types = !columns.is_empty() && columns.iter().all(|column| column.data_type.is_some());
    has_types.then(|| given(alias))
}

/// The only column of what is called in FROM, where a row of that is its value and the column has another name: one that the
/// alias lists, or `value` of `json_array_elements`.
pub(super) fn value_column(factor: &TableFactor) -> Option<String> {
    let (name, alias) = match factor {
        TableFactor::Table { name, alias, args: Some(_), .. } | TableFactor::Function { name, alias, .. } => {
            (Some(name), alias)
        }
        TableFactor::UNNEST { alias, .. } => (None, alias),
        _ => return None,
    };
    if !gives_one_column(factor) {
        return None;
    }
    match given(alias.as_ref()).as_slice() {
        [only] => Some(only.clone()),
        [] => {
            let function = fold(name?.0.last()?.as_ident()?);
            let [column] = crate::json::set_columns(&function) else { return None };
            (column.name != function).then(|| column.name.to_owned())
        }
        _ => None,
    }
}

/// The only column of what is called in FROM, where it has the name of its table.
fn own_column(factor: &TableFactor) -> Option<String> {
    let alias = match factor {
        TableFactor::Table { alias, args: Some(_), .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.as_ref()?,
        _ => return None,
    };
    (alias.columns.is_empty() && gives_one_column(factor)).then(|| fold(&alias.name))
}

/// Whether what is called in FROM is known to return one column.
fn gives_one_column(factor: &TableFactor) -> bool {
    let (name, count) = match factor {
        TableFactor::Table { name, args: Some(arguments), with_ordinality: false, .. } => {
            (name, arguments.args.len())
        }
        TableFactor::Function { name, args, with_ordinality: false, .. } => (name, args.len()),
        TableFactor::UNNEST { array_exprs, with_offset: false, with_ordinality: false, .. } => {
            return array_exprs.len() == 1;
        }
        _ => return false,
    };
    let Some(name) = name.0.last().and_then(ObjectNamePart::as_ident).map(fold) else { return false };
    match name.as_str() {
        "unnest" => count == 1,
        "generate_series" | "generate_subscripts" | "regexp_split_to_table" | "string_to_table" => true,
        other => crate::json::set_columns(other).len() == 1,
    }
}

/// Writes the methods of a visitor that keep its `scopes` at the place that it visits: of one that looks, by `&`, or of one that changes,
/// by `&mut`. `&mut, change` has it change each query by that method before it leaves it.
macro_rules! keeping_scopes {
    (@ $($reference:tt)+) => {
        fn pre_visit_query(
            &mut self,
            query: $($reference)+ datafusion::sql::sqlparser::ast::Query,
        ) -> std::ops::ControlFlow<Self::Break> {
            self.scopes.enter(query);
            std::ops::ControlFlow::Continue(())
        }

        fn pre_visit_select(
            &mut self,
            select: $($reference)+ datafusion::sql::sqlparser::ast::Select,
        ) -> std::ops::ControlFlow<Self::Break> {
            self.scopes.turn_to_entered(select);
            std::ops::ControlFlow::Continue(())
        }
    };
    (&mut, $change:ident) => {
        keeping_scopes!(@ &mut);

        fn post_visit_query(
            &mut self,
            query: &mut datafusion::sql::sqlparser::ast::Query,
        ) -> std::ops::ControlFlow<Self::Break> {
            let changed = self.$change(query);
            self.scopes.leave();
            changed
        }
    };
    ($($reference:tt)+) => {
        keeping_scopes!(@ $($reference)+);

        fn post_visit_query(
            &mut self,
            _: $($reference)+ datafusion::sql::sqlparser::ast::Query,
        ) -> std::ops::ControlFlow<Self::Break> {
            self.scopes.leave();
            std::ops::ControlFlow::Continue(())
        }
    };
}

pub(super) use keeping_scopes;

/// Notes whose the columns are that are named.
struct Owners<'s, 'f> {
    scopes: &'s mut Scopes<'f>,
    /// How many queries there are around all of it.
    here: usize,
    owner: Owner,
}

impl Visitor for Owners<'_, '_> {
    type Break = ();

    keeping_scopes!(&);

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match self.scopes.owner_of_column(expression) {
            Some(Owner::Query(place)) if place >= self.here => {}
            Some(owner) => self.owner = self.owner.and(owner),
            None => {}
        }
        ControlFlow::Continue(())
    }
}
