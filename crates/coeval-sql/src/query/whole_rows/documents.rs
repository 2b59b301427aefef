// SPDX-License-Identifier: Apache-2.0
//! Rows as documents: `row_to_json(t)`, `json_agg(t)`, `to_json(array_agg(t))` and their like, of what is called `t` in FROM. Each
//! becomes a call with the names and values of its columns.

use super::{Marks, Rows, Written, mark_of, named_row, only_part};
use crate::column_name::unmarked;
use crate::error::SqlError;
use crate::json::{LINES, ROW, ROWS};
use crate::names::fold;
use crate::query::dialect::text;
use crate::select::call;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
};

/// Functions that make JSON of their arguments, rows among them.
const FUNCTIONS: [&str; 11] = [
    "row_to_json",
    "to_json",
    "to_jsonb",
    "json_agg",
    "jsonb_agg",
    "json_build_object",
    "jsonb_build_object",
    "json_build_array",
    "jsonb_build_array",
    "json_object_agg",
    "jsonb_object_agg",
];

/// The function of [`FUNCTIONS`] that is called.
fn known(function: &Function) -> Option<&'static str> {
    let name = fold(only_part(&function.name)?);
    FUNCTIONS.into_iter().find(|known| *known == name)
}

/// Functions that make JSON of arrays.
const OF_ARRAYS: [&str; 7] = [
    "array_to_json",
    "to_json",
    "to_jsonb",
    "json_build_object",
    "jsonb_build_object",
    "json_build_array",
    "jsonb_build_array",
];

/// Whether a call may make documents of rows.
pub(super) fn takes_rows(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let has_rows = || list.args.iter().any(|argument| row_of(argument).is_some());
    let is_collection = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner))) => collects_rows(inner),
        _ => false,
    };
    (known(function).is_some() && has_rows())
        || (takes_arrays(function) && list.args.iter().any(is_collection))
}

/// Whether a call makes JSON of arrays.
fn takes_arrays(function: &Function) -> bool {
    only_part(&function.name).is_some_and(|name| OF_ARRAYS.contains(&fold(name).as_str()))
}

/// Whether a call makes an array of what may be rows. Different ones are told apart as rows, which documents are not.
fn collects_rows(function: &Function) -> bool {
    let is_collection = only_part(&function.name).is_some_and(|name| fold(name) == "array_agg");
    let FunctionArguments::List(list) = &function.args else { return false };
    is_collection
        && list.duplicate_treatment != Some(DuplicateTreatment::Distinct)
        && list.args.first().is_some_and(|argument| row_of(argument).is_some())
}

/// What may be a row among the arguments of a call.
fn row_of(argument: &FunctionArg) -> Option<(&Ident, Written)> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
            Some((only_part(name)?, Written::Wildcard))
        }
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => named_row(argument),
        _ => None,
    }
}

impl Rows<'_> {
    /// Writes rows among the arguments of a call as documents of their columns.
    ///
    /// # Errors
    /// `0A000` for rows whose columns are not known, and for different rows.
    pub(super) fn replace_documents(&mut self, function: &mut Function) -> Result<(), SqlError> {
        if takes_arrays(function) {
            self.replace_collected(function)?;
        }
        let Some(name) = known(function) else { return Ok(()) };
        let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
        // Of two arguments the second says whether the text is broken into lines.
        let has_lines = name == "row_to_json" && list.args.len() == 2;
        let values = if has_lines { 1 } else { list.args.len() };
        let mut has_rows = false;
        for argument in list.args.iter_mut().take(values) {
            let Some(row) = row_of(argument) else { continue };
            let Some(document) = self.document(row)? else { continue };
            *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(document));
            has_rows = true;
        }
        if has_rows && list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
            return Err(SqlError::unsupported("different rows as documents"));
        }
        let renamed = match name {
            "row_to_json" if has_rows && has_lines => LINES,
            "row_to_json" if has_rows => "to_json",
            "json_agg" if has_rows => ROWS,
            _ => return Ok(()),
        };
        function.name = ObjectName::from(vec![Ident::new(renamed)]);
        Ok(())
    }

    /// Writes rows that are collected in arrays among the arguments of a call as documents, too.
    ///
    /// # Errors
    /// As [`Self::document`].
    fn replace_collected(&mut self, function: &mut Function) -> Result<(), SqlError> {
        let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner))) = argument
                && collects_rows(inner)
                && let FunctionArguments::List(collected) = &mut inner.args
                && let Some(first) = collected.args.first_mut()
                && let Some(row) = row_of(first)
                && let Some(document) = self.document(row)?
            {
                *first = FunctionArg::Unnamed(FunctionArgExpr::Expr(document));
            }
        }
        Ok(())
    }

    /// The document of a row; `None` if no row is meant.
    ///
    /// # Errors
    /// `0A000` for a row whose columns are not known.
    fn document(&mut self, row: (&Ident, Written)) -> Result<Option<Expr>, SqlError> {
        let Some(whole) = self.row(row) else { return Ok(None) };
        if whole.is_value {
            return Ok(None);
        }
        let name = fold(row.0);
        let Some(columns) = whole.columns else {
            let message = format!("rows of \"{name}\", whose columns are not known, as documents");
            return Err(SqlError::unsupported(message).with_hint("Select its columns in a subquery."));
        };
        let column =
            |column: String| Expr::CompoundIdentifier(vec![row.0.clone(), Ident::with_quote('"', column)]);
        let members = columns.iter().flat_map(|own| {
            // A name that is there twice has a mark behind it.
            let shown = unmarked(own);
            [text(shown), column(own.clone())]
        });
        let mut arguments: Vec<Expr> = members.collect();
        let (place, known) = (whole.place, whole.row_column.map(str::to_owned));
        if whole.is_filled_up {
            let is_mark = known.is_none();
            arguments.insert(0, column(known.unwrap_or_else(|| mark_of(&name))));
            if is_mark && let Some(Marks { wanted, .. }) = self.marks.get_mut(place) {
                wanted.push(name);
            }
        }
        Ok(Some(call(ROW, arguments)))
    }
}
