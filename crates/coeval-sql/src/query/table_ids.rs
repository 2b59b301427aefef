// SPDX-License-Identifier: Apache-2.0
//! `tableoid` of a table of users, written as its number: it is the same for all of its rows.
//!
//! Relations of the system have it as a column. A name without a table is that of the one table in FROM, or in the FROM around it; of
//! several it is left for the planner to refuse.

use super::scopes::{FindRelation, FoundRelation};
use crate::names::fold;
use crate::oids;
use crate::select::cast;
use crate::walk::{Walk, WalkMut};
use coeval_store::SpaceId;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Ident, ObjectName, ObjectNamePart, Query, Select, TableFactor, TableWithJoins, Value,
    Visitor, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// The name of the column.
const TABLE_ID: &str = "tableoid";

/// Writes the numbers of tables in the places of these names.
pub(super) fn written_out(query: &mut Query, find: FindRelation<'_>) {
    let mut parts = Parts { names: HashSet::new(), names_it: false };
    // Nothing breaks off the visits.
    let _ = query.walk(&mut parts);
    if parts.names_it {
        let _ = query.walk_mut(&mut TableIds { find, parts: parts.names, around: Vec::new() });
    }
}

/// The names of all parts of WITH, and whether the column is named at all.
struct Parts {
    names: HashSet<String>,
    names_it: bool,
}

impl Visitor for Parts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let parts = query.with.iter().flat_map(|with| &with.cte_tables);
        self.names.extend(parts.map(|part| fold(&part.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        self.names_it |= match expression {
            Expr::Identifier(name) => is_it(name),
            Expr::CompoundIdentifier(parts) => parts.last().is_some_and(is_it),
            _ => false,
        };
        ControlFlow::Continue(())
    }
}

fn is_it(name: &Ident) -> bool {
    fold(name) == TABLE_ID
}

/// Something in FROM: the name it goes by, and its number if it is a table of users.
struct Relation {
    name: String,
    table: Option<SpaceId>,
}

struct TableIds<'f> {
    find: FindRelation<'f>,
    parts: HashSet<String>,
    /// What is in FROM of the SELECTs around the place, the innermost last.
    around: Vec<Vec<Relation>>,
}

impl TableIds<'_> {
    fn add(&self, tables: &TableWithJoins, found: &mut Vec<Relation>) {
        let joined = tables.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&tables.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    self.add(table_with_joins, found);
                }
                TableFactor::Table { name, alias, args: None, .. } => {
                    let own = name.0.last().and_then(ObjectNamePart::as_ident);
                    let goes_by = alias.as_ref().map(|alias| &alias.name).or(own).map(fold);
                    found.push(Relation { name: goes_by.unwrap_or_default(), table: self.table(name) });
                }
                TableFactor::Derived { alias: Some(alias), .. } => {
                    found.push(Relation { name: fold(&alias.name), table: None });
                }
                _ => found.push(Relation { name: String::new(), table: None }),
            }
        }
    }

    fn table(&self, name: &ObjectName) -> Option<SpaceId> {
        if let [ObjectNamePart::Identifier(only)] = name.0.as_slice()
            && self.parts.contains(&fold(only))
        {
            return None;
        }
        match (self.find)(name)? {
            FoundRelation::Table(def) if def.column_index(TABLE_ID).is_none() => Some(def.id),
            FoundRelation::Table(_) | FoundRelation::Columns(_) => None,
        }
    }

    /// The table whose number an expression is.
    fn named(&self, expression: &Expr) -> Option<SpaceId> {
        match expression {
            Expr::Identifier(name) if is_it(name) => {
                let innermost = self.around.iter().rev().find(|relations| !relations.is_empty())?;
                match innermost.as_slice() {
                    [only] => only.table,
                    _ => None,
                }
            }
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, name] if is_it(name) => {
                    let table = fold(table);
                    let mut all = self.around.iter().rev().flatten();
                    all.find(|relation| relation.name == table)?.table
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl VisitorMut for TableIds<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut found = Vec::new();
        for tables in &select.from {
            self.add(tables, &mut found);
        }
        self.around.push(found);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Some(table) = self.named(expression) {
            let number = Value::Number(oids::of_space(table).to_string(), false);
            // A cast: a number alone would be a place in GROUP BY.
            *expression = cast(Expr::Value(number.into()), DataType::Int4(None));
        }
        ControlFlow::Continue(())
    }
}
