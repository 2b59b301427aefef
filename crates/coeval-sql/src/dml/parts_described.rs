// SPDX-License-Identifier: Apache-2.0
//! Parameters and columns of a statement of several parts, before it runs: each part is planned with tables in place
//! of what those before it will return, of their columns and without rows.

use super::parameters::{Known, note_part};
use super::parts::{add, alone, parts_of, under_names, without_with};
use super::statement_of;
use super::underlying::returned;
use crate::context::{Parts, StatementContext};
use crate::error::SqlError;
use crate::parameters::places_in;
use crate::query;
use crate::result::RowSet;
use arrow::datatypes::SchemaRef;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use std::sync::Arc;

/// What is known of a statement in parts.
pub(super) struct Described {
    pub(super) known: Known,
    columns: Option<SchemaRef>,
}

/// The columns of a statement in parts; `None` if it returns no rows, or if it is wrong, which is said when it runs.
pub(crate) fn columns_of_parts(
    context: &mut StatementContext<'_>,
    query: &Query,
    types: &[Option<ColumnType>],
) -> Option<SchemaRef> {
    described(context, query, types).ok()?.columns
}

/// What is known of a statement whose WITH changes or locks rows, beside the parameter types in `types`.
///
/// # Errors
/// What planning its parts finds.
pub(super) fn described(
    context: &mut StatementContext<'_>,
    query: &Query,
    types: &[Option<ColumnType>],
) -> Result<Described, SqlError> {
    context.parts = Some(Arc::new(Parts::begin(context.transaction)));
    let mut described = Described { known: Known::of_types(types), columns: None };
    let outcome = describe(context, query, &mut described);
    context.parts = None;
    outcome.map(|()| described)
}

fn describe(
    context: &mut StatementContext<'_>,
    query: &Query,
    described: &mut Described,
) -> Result<(), SqlError> {
    for (part, recursive) in parts_of(query) {
        let whole = match statement_of(&part.query) {
            Some(_) => part.query.as_ref().clone(),
            None => {
                let mut unlocked = part.clone();
                unlocked.query.locks.clear();
                alone(&unlocked, recursive)
            }
        };
        let columns = describe_part(context, &whole, described)?;
        let rows = columns.map(|schema| RowSet::new(schema, Vec::new()));
        let name = crate::names::fold(&part.alias.name);
        let rows = rows.map(|rows| under_names(rows, &part.alias)).transpose()?;
        add(context, name, rows);
    }
    let mut rest = without_with(query);
    rest.locks.clear();
    described.columns = describe_part(context, &rest, described)?;
    Ok(())
}

/// Adds what a part says of the parameters; its columns.
fn describe_part(
    context: &mut StatementContext<'_>,
    query: &Query,
    described: &mut Described,
) -> Result<Option<SchemaRef>, SqlError> {
    if statement_of(query).is_none() {
        let planned = query::plan(context, query, &described.known.types)?;
        described.known.note_planned(&places_in(query)?, &planned);
        let planned = query::plan(context, query, &described.known.types)?;
        return Ok(Some(Arc::clone(planned.columns())));
    }
    let statement = Statement::Query(Box::new(query.clone()));
    note_part(context, &statement, &mut described.known);
    let Some(returned) = returned(&statement) else { return Ok(None) };
    Ok(Some(Arc::clone(query::plan(context, &returned, &described.known.types)?.columns())))
}
