// SPDX-License-Identifier: Apache-2.0
//! Which views use a column, judged by name: views are kept as text.

use super::dependents;
use super::expressions::names_column;
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::stored::view_query_of;
use coeval_store::QualifiedName;

/// The views that name this relation and, anywhere in their query, a column of this name. A view on another
/// table with a column of the same name that also names this one counts too: better one too many.
pub(super) fn views_using(
    context: &StatementContext<'_>,
    relation: &QualifiedName,
    column: &str,
) -> Result<Vec<QualifiedName>, SqlError> {
    let mut using = Vec::new();
    for view in dependents::views_on(context, relation)? {
        if names_column(&*view_query_of(&view)?, column) {
            using.push(view.name.clone());
        }
    }
    Ok(using)
}
