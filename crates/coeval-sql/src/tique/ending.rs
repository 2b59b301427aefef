// SPDX-License-Identifier: Apache-2.0
//! How a statement that is a transaction of its own ends on servers.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::hand_over::aside;

/// Ends the parts of a statement that is a transaction of its own: they commit if it has not failed.
///
/// # Errors
/// The statement's; what a server says.
pub(crate) fn end_statement<T>(
    context: &mut StatementContext<'_>,
    outcome: Result<T, SqlError>,
) -> Result<T, SqlError> {
    let mut part = context.tique.lock();
    if !part.is_touched() {
        return outcome;
    }
    match outcome {
        Ok(value) => {
            part.require_end_alone(context.transaction)?;
            let has_both = context.transaction.has_writes() && part.has_written();
            if has_both {
                part.rollback();
                return Err(SqlError::unsupported("a statement that writes here and on a server"));
            }
            aside(|| part.end(context.engine, None, context.notices))?;
            Ok(value)
        }
        Err(error) => {
            part.rollback();
            Err(error)
        }
    }
}
