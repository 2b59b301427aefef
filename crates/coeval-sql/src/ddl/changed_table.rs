// SPDX-License-Identifier: Apache-2.0
//! How a changed definition of a table gets into the catalog.

use crate::context::StatementContext;
use crate::error::SqlError;
use coeval_store::{CatalogChange, SpaceId, TableDef};

/// Puts a changed definition of the same table.
pub(super) fn put(context: &mut StatementContext<'_>, def: TableDef) -> Result<SpaceId, SqlError> {
    let id = def.id;
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(def)))?;
    Ok(id)
}
