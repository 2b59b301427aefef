// SPDX-License-Identifier: Apache-2.0
//! Names of columns in an alias, `t AS a(x, y)`: those behind the last one keep their own. DataFusion wants a name for each.

use super::Rows;
use datafusion::sql::sqlparser::ast::{Ident, Select, TableAlias, TableAliasColumnDef, TableFactor};

/// The alias of a table or subquery.
fn alias_of(factor: &mut TableFactor) -> Option<&mut TableAlias> {
    match factor {
        TableFactor::Table { alias, args: None, .. } | TableFactor::Derived { alias, .. } => alias.as_mut(),
        _ => None,
    }
}

/// Whether the alias of a table or subquery names columns.
pub(super) fn names_columns(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table { alias: Some(alias), args: None, .. }
        | TableFactor::Derived { alias: Some(alias), .. } => !alias.columns.is_empty(),
        _ => false,
    }
}

impl Rows<'_> {
    /// Writes out the names that aliases leave out, as far as the columns are known.
    pub(super) fn complete_aliases(&self, select: &mut Select) {
        for tables in &mut select.from {
            let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
            for alias in std::iter::once(&mut tables.relation).chain(joined).filter_map(alias_of) {
                if alias.columns.is_empty() {
                    continue;
                }
                let whole = self.scopes.whole_row(&alias.name);
                let Some(columns) = whole.and_then(|whole| whole.columns) else { continue };
                for own in columns.iter().skip(alias.columns.len()) {
                    let name = Ident::with_quote('"', own.clone());
                    alias.columns.push(TableAliasColumnDef { name, data_type: None });
                }
            }
        }
    }
}
