// SPDX-License-Identifier: Apache-2.0
//! Parts of WITH that have a point in their name.
//!
//! DataFusion looks for a part by the text of a table's whole name, so `WITH "public.t" AS (...) SELECT * FROM public.t` would read
//! the part. So such a part has another name inside the plan, and what reads it keeps the name that it has in the query.

use crate::names::fold;
use crate::walk::WalkMut;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, TableAlias, TableFactor, VisitorMut};
use std::ops::ControlFlow;

/// What stands for the point: a character of Unicode's private use, which nobody types.
const POINT: &str = "\u{f8fe}";

/// Gives the parts of a query that have a point in their name other names, there and where they are seen: in the parts behind them,
/// in all of them behind RECURSIVE, and in the query itself. A part within that has the same name gets the same other one.
pub(super) fn rename_parts(query: &mut Query) {
    let Some(mut with) = query.with.take() else { return };
    for place in 0..with.cte_tables.len() {
        let name = fold(&with.cte_tables[place].alias.name);
        if !name.contains('.') {
            continue;
        }
        let other = Ident::with_quote('"', name.replace('.', POINT));
        let first = if with.recursive { 0 } else { place + 1 };
        for part in &mut with.cte_tables[first..] {
            rename_part(&mut part.query, &name, &other);
        }
        rename_part(query, &name, &other);
        with.cte_tables[place].alias.name = other;
    }
    query.with = Some(with);
}

/// Has a query read a part of WITH by another name. What names its columns keeps the name that it has there.
pub(crate) fn rename_part(query: &mut Query, name: &str, other: &Ident) {
    // Nothing breaks off the visit.
    let _ = query.walk_mut(&mut Renaming { name, other });
}

/// Renames the tables of one name, of one part.
struct Renaming<'n> {
    name: &'n str,
    other: &'n Ident,
}

impl VisitorMut for Renaming<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        if part.as_ident().is_some_and(|ident| fold(ident) == self.name) {
            *name = ObjectName::from(vec![self.other.clone()]);
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: Ident::with_quote('"', self.name),
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}
