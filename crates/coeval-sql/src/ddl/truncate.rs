// SPDX-License-Identifier: Apache-2.0
//! TRUNCATE.

use super::dependents;
use super::lookup;
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::result::StatementResult;
use crate::rights::Object;
use crate::spread;
use coeval_store::{CatalogChange, Privilege, TableDef};
use datafusion::sql::sqlparser::ast::{CascadeOption, Truncate, TruncateIdentityOption};
use std::sync::Arc;

/// TRUNCATE: all rows of the tables go at once, with CASCADE those of the tables that refer to them too.
///
/// # Errors
/// 42P01 for unknown tables; 42501 without TRUNCATE on each of them, those that CASCADE finds included, or for RESTART
/// IDENTITY of sequences of another owner; 0A000, as in PostgreSQL, if a table that is not named refers to one that is.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    truncate: &Truncate,
) -> Result<StatementResult, SqlError> {
    if truncate.partitions.is_some() || truncate.on_cluster.is_some() || truncate.if_exists {
        return Err(SqlError::unsupported("this form of TRUNCATE"));
    }
    let mut tables: Vec<Arc<TableDef>> = Vec::new();
    for target in &truncate.table_names {
        let def = lookup::table_with(context, &target.name, Privilege::Truncate)?;
        if !tables.iter().any(|table| table.id == def.id) {
            tables.push(def);
        }
    }
    let mut next = 0;
    while next < tables.len() {
        for (child, _) in dependents::children(context, &Arc::clone(&tables[next]))? {
            if tables.iter().any(|table| table.id == child.id) {
                continue;
            }
            if truncate.cascade != Some(CascadeOption::Cascade) {
                return Err(referenced(&child, &tables[next]));
            }
            context.rights().require(Object::Table(&child), Privilege::Truncate)?;
            tables.push(child);
        }
        next += 1;
    }
    if tables.iter().any(|def| def.is_spread()) {
        return truncate_spread(context, truncate, &tables);
    }
    for def in &tables {
        context.transaction.change_catalog(CatalogChange::Truncate(def.id))?;
        if truncate.identity == Some(TruncateIdentityOption::Restart) {
            restart_sequences(context, def)?;
        }
    }
    Ok(StatementResult::plain("TRUNCATE TABLE"))
}

/// TRUNCATE of tables that are spread over a cluster: their rows are deleted there, and it is no change of definitions.
fn truncate_spread(
    context: &StatementContext<'_>,
    truncate: &Truncate,
    tables: &[Arc<TableDef>],
) -> Result<StatementResult, SqlError> {
    let unsupported = if !tables.iter().all(|def| def.is_spread()) {
        Some("TRUNCATE of tables that are spread over a cluster together with others")
    } else if truncate.identity == Some(TruncateIdentityOption::Restart) {
        Some("RESTART IDENTITY for tables that are spread over a cluster")
    } else {
        None
    };
    if let Some(what) = unsupported {
        return Err(
            SqlError::unsupported(what).with_hint("Do the one and the other in a statement of its own.")
        );
    }
    spread::truncate(context, tables)?;
    Ok(StatementResult::plain("TRUNCATE TABLE"))
}

fn referenced(child: &TableDef, parent: &TableDef) -> SqlError {
    SqlError::new(
        crate::error::SqlState::FeatureNotSupported,
        "cannot truncate a table referenced in a foreign key constraint",
    )
    .with_detail(format!("Table \"{}\" references \"{}\".", child.name, parent.name))
    .with_hint(format!("Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.", child.name))
}

fn restart_sequences(context: &mut StatementContext<'_>, def: &TableDef) -> Result<(), SqlError> {
    for sequence in dependents::owned_sequences(context, def) {
        context.rights().require_owner(Object::Sequence(&sequence))?;
        super::sequence_values::restart(context, &sequence, sequence.start)?;
    }
    Ok(())
}
