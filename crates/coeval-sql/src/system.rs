// SPDX-License-Identifier: Apache-2.0
//! System tables: what the catalog and the store say of themselves, as tables.

use coeval_store::Transaction;
use datafusion::catalog::TableProvider;
use std::sync::Arc;

/// The system table of this name; `None` if there is none. The schema is `None` for an unqualified name.
pub(crate) fn provider(
    _schema: Option<&str>,
    _name: &str,
    _transaction: &Transaction,
) -> Option<Arc<dyn TableProvider>> {
    None
}
