// SPDX-License-Identifier: Apache-2.0
//! Parts of WITH that have a point in their name.
//!
//! DataFusion looks for a part by the text of a table's whole name, so `WITH "public.t" AS (...) SELECT * FROM public.t` would read
//! the part. So such a part has another name inside the plan, and what reads it keeps the name that it has in the query.

use crate::names::fold;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, TableAlias, TableFactor};
use std::collections::HashSet;

/// What stands for the point: a character of Unicode's private use, which nobody types.
const POINT: &str = "\u{f8fe}";

/// The parts that have another name.
#[derive(Debug, Default)]
pub(super) struct DottedNames(HashSet<String>);

impl DottedNames {
    /// Gives the parts of a query their other names.
    pub(super) fn rename_parts(&mut self, query: &mut Query) {
        for part in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let name = fold(&part.alias.name);
            if name.contains('.') {
                part.alias.name = other_name(&name);
                self.0.insert(name);
            }
        }
    }

    /// A table that may be such a part: one whose name has one part.
    pub(super) fn rename_table(&self, factor: &mut TableFactor) {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return };
        let [part] = name.0.as_slice() else { return };
        let Some(name_in_query) = part.as_ident().map(fold).filter(|name| self.0.contains(name)) else {
            return;
        };
        *name = ObjectName::from(vec![other_name(&name_in_query)]);
        alias.get_or_insert_with(|| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', name_in_query),
            columns: Vec::new(),
            at: None,
        });
    }
}

fn other_name(name: &str) -> Ident {
    Ident::with_quote('"', name.replace('.', POINT))
}
