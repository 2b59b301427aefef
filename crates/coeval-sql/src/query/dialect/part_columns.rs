// SPDX-License-Identifier: Apache-2.0
//! `WITH t (a) AS (SELECT 1, 2 AS b)`: columns behind those that are named keep their own names. DataFusion wants a name for each.

use super::set_order::output_name;
use crate::select::quoted;
use crate::stack::with_room;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, TableAliasColumnDef};

/// Writes out the names that parts of a WITH leave out, as far as their outputs are known.
pub(super) fn name_all(query: &mut Query) {
    for part in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
        let columns = &mut part.alias.columns;
        if columns.is_empty() {
            continue;
        }
        let Some(outputs) = outputs_of(&part.query.body) else { continue };
        let left = outputs.into_iter().skip(columns.len());
        columns.extend(left.map(|name| TableAliasColumnDef { name: quoted(name), data_type: None }));
    }
}

/// The names of a query's outputs; `None` where it selects all columns of a table.
fn outputs_of(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => select.projection.iter().map(output_name).collect(),
        SetExpr::Values(values) => {
            let width = values.rows.first()?.content.len();
            Some((1..=width).map(|place| format!("column{place}")).collect())
        }
        SetExpr::SetOperation { left, .. } => with_room(|| outputs_of(left)),
        SetExpr::Query(query) => with_room(|| outputs_of(&query.body)),
        _ => None,
    }
}
