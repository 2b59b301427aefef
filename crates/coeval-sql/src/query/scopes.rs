// SPDX-License-Identifier: Apache-2.0
//! To which of the queries around it a column belongs, before anything is planned.
//!
//! Syntax and catalog tell it of tables, subqueries and parts of a WITH. The columns of views, functions and files are not
//! known here: a name with its table in front is found all the same, one without may be theirs.

use crate::names::fold;
use crate::walk::Walk;
use coeval_store::TableDef;
use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Visit, Visitor,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What finds the table of a name.
pub(super) type FindTable<'f> = &'f dyn Fn(&ObjectName) -> Option<Arc<TableDef>>;

/// The names of columns in order; `None` if they are not known.
type Columns = Option<Vec<String>>;

/// What goes by a name in a FROM.
struct Relation {
    name: Option<String>,
    columns: Columns,
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
    find: FindTable<'f>,
    /// The parts of all WITH by their names.
    parts: HashMap<String, Columns>,
    queries: Vec<Vec<Relation>>,
}

impl<'f> Scopes<'f> {
    /// Those around a statement's query: none.
    pub(super) fn around(query: &Query, find: FindTable<'f>) -> Self {
        Self { find, parts: parts_of(query), queries: Vec::new() }
    }

    /// How many queries there are around the place.
    pub(super) fn depth(&self) -> usize {
        self.queries.len()
    }

    /// Goes into a query.
    pub(super) fn enter(&mut self, query: &Query) {
        let relations = match query.body.as_ref() {
            SetExpr::Select(select) => self.relations(select),
            _ => Vec::new(),
        };
        self.queries.push(relations);
    }

    /// Goes to one of the SELECTs that the innermost query is put together from.
    pub(super) fn turn_to(&mut self, select: &Select) {
        let relations = self.relations(select);
        if let Some(innermost) = self.queries.last_mut() {
            *innermost = relations;
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

    /// Whose the column is that an expression is; `None` if it is something else.
    pub(super) fn owner_of_column(&self, expression: &Expr) -> Option<Owner> {
        match expression {
            Expr::Identifier(column) => Some(self.owner_by_name(&fold(column))),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, _] => Some(self.owner_by_table(&fold(table))),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whose the columns are that syntax names here, but for those of queries within it.
    pub(super) fn owner_of(&mut self, syntax: &impl Visit) -> Owner {
        let here = self.depth();
        let mut owners = Owners { scopes: self, here, owner: Owner::Nobody };
        // Nothing breaks off the visit.
        let _ = syntax.walk(&mut owners);
        owners.owner
    }

    fn owner_by_table(&self, table: &str) -> Owner {
        let has = |relations: &Vec<Relation>| {
            relations.iter().any(|relation| relation.name.as_deref() == Some(table))
        };
        self.queries.iter().rposition(has).map_or(Owner::Nobody, Owner::Query)
    }

    fn owner_by_name(&self, column: &str) -> Owner {
        for (place, relations) in self.queries.iter().enumerate().rev() {
            let mut known = relations.iter().filter_map(|relation| relation.columns.as_ref());
            if known.any(|columns| columns.iter().any(|name| name == column)) {
                return Owner::Query(place);
            }
            if relations.iter().any(|relation| relation.columns.is_none()) {
                // Around the outermost query there is none that could have it.
                return if place == 0 { Owner::Query(0) } else { Owner::Unknown };
            }
        }
        Owner::Nobody
    }

    fn relations(&self, select: &Select) -> Vec<Relation> {
        let mut relations = Vec::new();
        select.from.iter().for_each(|from| self.add(from, &mut relations));
        relations
    }

    fn add(&self, from: &TableWithJoins, relations: &mut Vec<Relation>) {
        let joined = from.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&from.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    self.add(table_with_joins, relations);
                }
                factor => relations.push(self.relation(factor)),
            }
        }
    }

    fn relation(&self, factor: &TableFactor) -> Relation {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let own = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
                Relation {
                    name: alias.as_ref().map(|alias| fold(&alias.name)).or(own),
                    columns: renamed(self.columns_of_table(name), alias.as_ref()),
                }
            }
            TableFactor::Derived { subquery, alias, .. } => Relation {
                name: alias.as_ref().map(|alias| fold(&alias.name)),
                columns: renamed(outputs(&subquery.body), alias.as_ref()),
            },
            TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => Relation {
                name: alias.as_ref().map(|alias| fold(&alias.name)),
                columns: given(alias.as_ref()),
            },
            _ => Relation { name: None, columns: None },
        }
    }

    fn columns_of_table(&self, name: &ObjectName) -> Columns {
        if let [ObjectNamePart::Identifier(part)] = name.0.as_slice()
            && let Some(columns) = self.parts.get(&fold(part))
        {
            return columns.clone();
        }
        let def = (self.find)(name)?;
        Some(def.live_columns().map(|(_, column)| column.name.clone()).collect())
    }
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

/// The columns that an alias lists.
fn given(alias: Option<&TableAlias>) -> Columns {
    let given = alias.map(|alias| alias.columns.iter().map(|column| fold(&column.name)).collect());
    given.filter(|columns: &Vec<String>| !columns.is_empty())
}

/// The names of a query's outputs; not known where all columns of something are among them.
fn outputs(body: &SetExpr) -> Columns {
    match body {
        SetExpr::Select(select) => select.projection.iter().map(output).collect(),
        SetExpr::Query(query) => outputs(&query.body),
        SetExpr::SetOperation { left, .. } => outputs(left),
        _ => None,
    }
}

fn output(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        SelectItem::UnnamedExpr(expression) => Some(super::output_names::name_of(expression)),
        _ => None,
    }
}

/// The parts of all WITH in a query. Of two with one name neither's columns are known.
fn parts_of(query: &Query) -> HashMap<String, Columns> {
    struct Parts(HashMap<String, Columns>);
    impl Visitor for Parts {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            for part in query.with.iter().flat_map(|with| &with.cte_tables) {
                let columns = renamed(outputs(&part.query.body), Some(&part.alias));
                let known = self.0.entry(fold(&part.alias.name));
                known.and_modify(|columns| *columns = None).or_insert(columns);
            }
            ControlFlow::Continue(())
        }
    }
    let mut parts = Parts(HashMap::new());
    // Nothing breaks off the visit.
    let _ = query.walk(&mut parts);
    parts.0
}

/// Notes whose the columns are that are named.
struct Owners<'s, 'f> {
    scopes: &'s mut Scopes<'f>,
    /// How many queries there are around all of it.
    here: usize,
    owner: Owner,
}

impl Visitor for Owners<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.scopes.turn_to(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match self.scopes.owner_of_column(expression) {
            Some(Owner::Query(place)) if place >= self.here => {}
            Some(owner) => self.owner = self.owner.and(owner),
            None => {}
        }
        ControlFlow::Continue(())
    }
}
