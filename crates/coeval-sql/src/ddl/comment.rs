// SPDX-License-Identifier: Apache-2.0
//! COMMENT ON a table or a column.

use super::alter_table::put;
use super::lookup;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use coeval_store::{ObjectRef, TableDef};
use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName};

/// Says something of a table or a column; nothing or an empty text takes back what was said.
///
/// # Errors
/// 42P01 and 42703 for what is not there, 42501 for what belongs to somebody else, 0A000 for other objects.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    kind: CommentObject,
    name: &ObjectName,
    comment: Option<&str>,
) -> Result<StatementResult, SqlError> {
    let comment = comment.filter(|text| !text.is_empty()).map(str::to_owned);
    match kind {
        CommentObject::Table => {
            let mut def = own_table(context, name)?;
            def.comment = comment;
            put(context, def)?;
        }
        CommentObject::Column => {
            let mut table = name.clone();
            let column = table.0.pop().and_then(|part| part.as_ident().cloned());
            let Some(column) = column.filter(|_| !table.0.is_empty()) else {
                return Err(SqlError::syntax("column name must be qualified"));
            };
            let mut def = own_table(context, &table)?;
            let name = lookup::fold(&column);
            let Some(place) = def.column_index(&name) else {
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", def.name.name);
                return Err(SqlError::new(SqlState::UndefinedColumn, message));
            };
            def.columns[place].comment = comment;
            put(context, def)?;
        }
        other => return Err(SqlError::unsupported(format!("COMMENT ON {other}"))),
    }
    Ok(StatementResult::plain("COMMENT"))
}

fn own_table(context: &StatementContext<'_>, name: &ObjectName) -> Result<TableDef, SqlError> {
    let def = lookup::table(context, name)?;
    lookup::require_owner(context, &def.name, ObjectRef::Table(def.id))?;
    Ok(TableDef::clone(&def))
}
