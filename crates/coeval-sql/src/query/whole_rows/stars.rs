// SPDX-License-Identifier: Apache-2.0
//! Rows that are written with all columns of others: `ROW(t.*, 1)` is `ROW(t.a, t.b, 1)`.

use super::{Rows, Written, only_part};
use crate::error::SqlError;
use crate::names::fold;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
};

/// Whether a call writes a row with a star in it.
pub(super) fn has_star(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let is_row = only_part(&function.name).is_some_and(|name| fold(name) == "row");
    is_row && list.args.iter().any(|argument| star_of(argument).is_some())
}

/// The relation all of whose columns are meant.
fn star_of(argument: &FunctionArg) -> Option<&Ident> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => only_part(name),
        _ => None,
    }
}

impl Rows<'_> {
    /// Writes the columns of relations in the place of their stars in a row.
    ///
    /// # Errors
    /// `0A000` for a relation whose columns are not known.
    pub(super) fn write_out_stars(&self, function: &mut Function) -> Result<(), SqlError> {
        let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
        for argument in std::mem::take(&mut list.args) {
            let own = star_of(&argument).map_or(Ok(None), |relation| self.columns_of(relation))?;
            match own {
                Some(columns) => list.args.extend(columns),
                None => list.args.push(argument),
            }
        }
        Ok(())
    }

    /// The columns of a relation as arguments; `None` if none of this name is in FROM.
    fn columns_of(&self, relation: &Ident) -> Result<Option<Vec<FunctionArg>>, SqlError> {
        let Some(whole) = self.row((relation, Written::Wildcard)) else { return Ok(None) };
        let names = match (whole.columns, whole.row_column) {
            (Some(columns), _) => columns.to_vec(),
            (None, Some(column)) if whole.is_value => vec![column.to_owned()],
            (None, _) => {
                let name = fold(relation);
                let message = format!("rows of \"{name}\", whose columns are not known, in a row");
                return Err(SqlError::unsupported(message).with_hint("Name its columns."));
            }
        };
        let column = |name: String| {
            let parts = vec![relation.clone(), Ident::with_quote('"', name)];
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts)))
        };
        Ok(Some(names.into_iter().map(column).collect()))
    }
}
