// SPDX-License-Identifier: Apache-2.0
//! The relations that the query of a view names.
//!
//! A view's query is kept as text in which every table and view is named with its schema, so that it means
//! the same whatever search path the reader has. Names of common table expressions stay as they are.

use crate::names::fold;
use crate::walk::{Walk, WalkMut};
use coeval_store::QualifiedName;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The common table expressions that can be named at the place the visitor is at, by the scope of SQL: those of a query
/// around it, and in the body of one only those before it, and with RECURSIVE itself.
#[derive(Default)]
struct CommonTables {
    levels: Vec<Level>,
}

/// Those of one query.
struct Level {
    names: Vec<String>,
    is_recursive: bool,
    /// How many of their bodies have been visited: they are the first queries within a query.
    visited: usize,
}

impl Level {
    fn of(query: &Query) -> Self {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        Self {
            names: tables.map(|table| fold(&table.alias.name)).collect(),
            is_recursive: query.with.as_ref().is_some_and(|with| with.recursive),
            visited: 0,
        }
    }

    fn visible(&self) -> &[String] {
        let itself = usize::from(self.is_recursive);
        &self.names[..(self.visited + itself).min(self.names.len())]
    }
}

impl CommonTables {
    fn enter(&mut self, query: &Query) {
        self.levels.push(Level::of(query));
    }

    fn leave(&mut self) {
        self.levels.pop();
        if let Some(around) = self.levels.last_mut() {
            around.visited = (around.visited + 1).min(around.names.len());
        }
    }

    /// Schema and name of a relation; `None` for a common table expression or what is no plain name.
    fn relation(&self, name: &ObjectName) -> Option<(Option<String>, String)> {
        let parts: Vec<String> = name
            .0
            .iter()
            .map(|part| match part {
                ObjectNamePart::Identifier(ident) => Some(fold(ident)),
                ObjectNamePart::Function(_) => None,
            })
            .collect::<Option<_>>()?;
        match parts.as_slice() {
            [name] if self.levels.iter().flat_map(Level::visible).any(|table| table == name) => None,
            [name] => Some((None, name.clone())),
            [.., schema, name] => Some((Some(schema.clone()), name.clone())),
            [] => None,
        }
    }
}

struct Collector {
    common: CommonTables,
    found: BTreeSet<(Option<String>, String)>,
}

impl Visitor for Collector {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.common.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.common.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.found.extend(self.common.relation(relation));
        ControlFlow::Continue(())
    }
}

/// The relations that a query names, each with its schema if one is written.
pub(crate) fn relations(query: &Query) -> BTreeSet<(Option<String>, String)> {
    let mut collector = Collector { common: CommonTables::default(), found: BTreeSet::new() };
    let _ = query.walk(&mut collector);
    collector.found
}

struct Renamer<F> {
    common: CommonTables,
    rename: F,
}

impl<F: FnMut(Option<&str>, &str) -> Option<QualifiedName>> VisitorMut for Renamer<F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.common.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.common.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name: relation, alias, .. } = factor
            && let Some((schema, name)) = self.common.relation(relation)
            && let Some(new) = (self.rename)(schema.as_deref(), &name)
        {
            // Columns may be qualified with the old name.
            if alias.is_none() && new.name != name {
                *alias =
                    Some(TableAlias { explicit: true, name: quoted(&name), columns: Vec::new(), at: None });
            }
            *relation = ObjectName::from(vec![quoted(&new.schema), quoted(&new.name)]);
        }
        ControlFlow::Continue(())
    }
}

/// Gives the relations that a query names the names that `rename` answers; those it answers nothing for
/// stay as they are.
pub(crate) fn rename_relations(
    query: &mut Query,
    rename: impl FnMut(Option<&str>, &str) -> Option<QualifiedName>,
) {
    let _ = query.walk_mut(&mut Renamer { common: CommonTables::default(), rename });
}

/// An identifier that reads back as `name`, quoted only where it must be.
pub(crate) fn quoted(name: &str) -> Ident {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if starts && plain && !is_reserved(name) { Ident::new(name) } else { Ident::with_quote('"', name) }
}

/// Whether a name must be quoted to be read back as an identifier everywhere.
fn is_reserved(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    ALL_KEYWORDS.binary_search(&upper.as_str()).is_ok_and(|place| {
        let keyword = &ALL_KEYWORDS_INDEX[place];
        RESERVED_FOR_COLUMN_ALIAS.contains(keyword) || RESERVED_FOR_TABLE_ALIAS.contains(keyword)
    })
}

#[cfg(test)]
mod tests;
