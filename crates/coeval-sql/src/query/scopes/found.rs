// SPDX-License-Identifier: Apache-2.0
//! What a name in FROM stands for, and its columns.

use super::FoundRelation;
use crate::context::Parts;
use crate::names::{resolve, split_name};
use crate::relations::{self, INFORMATION_SCHEMA, PG_CATALOG, is_unqualified};
use crate::settings::Settings;
use coeval_store::Transaction;
use datafusion::sql::sqlparser::ast::ObjectName;

/// The relation of a name, as the planner finds it; `None` also where its columns are not known. The parts of a statement hide tables of
/// their names.
pub(in crate::query) fn found(
    name: &ObjectName,
    settings: &Settings,
    transaction: &Transaction,
    parts: Option<&Parts>,
) -> Option<FoundRelation> {
    let (schema, own) = split_name(name).ok()?;
    if schema.is_none() && parts.is_some_and(|parts| parts.has(&own)) {
        return None;
    }
    let system = match schema.as_deref() {
        None if is_unqualified(&own) => Some(PG_CATALOG),
        Some(schema @ (PG_CATALOG | INFORMATION_SCHEMA)) => Some(schema),
        _ => None,
    };
    if let Some(schema) = system {
        let columns = &relations::find(schema, &own)?.columns;
        return Some(FoundRelation::Columns(columns.iter().map(|column| column.name.to_owned()).collect()));
    }
    let name = resolve(schema.as_deref(), &own, settings, transaction)?;
    if let Some(table) = transaction.resolve_table(&name) {
        return Some(FoundRelation::Table(table));
    }
    let columns = transaction.catalog().view(&name)?.output.as_ref()?;
    Some(FoundRelation::Columns(columns.iter().map(|column| column.name.clone()).collect()))
}
