// SPDX-License-Identifier: Apache-2.0
//! ALTER VIEW: the names of its columns, what an INSERT through it takes for those that it does not give, and its options.

use super::storage_parameters::names_to_reset;
use super::view::{output_names, refuse_check};
use super::{expressions, view_columns, view_options};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::parse::{CHECK_OPTION, rewind, take_word};
use crate::stored::view_query_of;
use crate::types::view_column;
use crate::values;
use coeval_store::{CatalogChange, CheckOption, ColumnDef, QualifiedName, ViewColumn, ViewDef};
use datafusion::sql::sqlparser::ast::{AlterColumnOperation, AlterTableOperation, Expr, Ident, SqlOption};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// A change of a view.
#[derive(Clone, Debug)]
pub(crate) enum ViewChange {
    /// `RENAME COLUMN a TO b`.
    RenameColumn {
        /// The column.
        column: String,
        /// Its new name.
        new: Ident,
    },
    /// `ALTER COLUMN a SET DEFAULT`, or `DROP DEFAULT`.
    Default {
        /// The column.
        column: String,
        /// Its default; `None`: it has none of its own any more.
        value: Option<Box<Expr>>,
    },
    /// `SET (...)`.
    Set(Vec<SqlOption>),
    /// `RESET (...)`: the options that are as they are without being said.
    Reset(Vec<String>),
}

/// The change at the parser's place, if it is one of these; else the parser is where it was.
///
/// # Errors
/// A syntax error behind words that only these begin with.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<ViewChange>, ParserError> {
    let start = parser.index();
    let change = read(parser)?;
    if change.is_none() {
        rewind(parser, start);
    }
    Ok(change)
}

fn read(parser: &mut Parser<'_>) -> Result<Option<ViewChange>, ParserError> {
    if parser.parse_keyword(Keyword::RENAME) {
        let says_column = parser.parse_keyword(Keyword::COLUMN);
        if !says_column && parser.peek_keyword(Keyword::TO) {
            return Ok(None);
        }
        let column = fold(&parser.parse_identifier()?);
        parser.expect_keyword(Keyword::TO)?;
        return Ok(Some(ViewChange::RenameColumn { column, new: parser.parse_identifier()? }));
    }
    if parser.parse_keyword(Keyword::ALTER) {
        let _ = parser.parse_keyword(Keyword::COLUMN);
        let column = fold(&parser.parse_identifier()?);
        if parser.parse_keywords(&[Keyword::DROP, Keyword::DEFAULT]) {
            return Ok(Some(ViewChange::Default { column, value: None }));
        }
        if parser.parse_keywords(&[Keyword::SET, Keyword::DEFAULT]) {
            let value = Some(Box::new(parser.parse_expr()?));
            return Ok(Some(ViewChange::Default { column, value }));
        }
        return Ok(None);
    }
    if parser.peek_keyword(Keyword::SET) {
        let options = parser.parse_options(Keyword::SET)?;
        return Ok(Some(ViewChange::Set(options)));
    }
    if take_word(parser, "reset") {
        return names_to_reset(parser).map(|names| Some(ViewChange::Reset(names)));
    }
    Ok(None)
}

/// What an operation of ALTER TABLE is of a view; `None` if views have no such.
pub(super) fn of_table_operation(operation: &AlterTableOperation) -> Option<ViewChange> {
    match operation {
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            Some(ViewChange::RenameColumn { column: fold(old_column_name), new: new_column_name.clone() })
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            let value = match op {
                AlterColumnOperation::SetDefault { value } => Some(Box::new(value.clone())),
                AlterColumnOperation::DropDefault => None,
                _ => return None,
            };
            Some(ViewChange::Default { column: fold(column_name), value })
        }
        _ => None,
    }
}

/// Makes the change.
///
/// # Errors
/// `42703` for a column that is not there; what the change answers.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    name: &QualifiedName,
    change: &ViewChange,
) -> Result<(), SqlError> {
    let view = context.transaction.catalog().view(name).map(|view| ViewDef::clone(view));
    let view = view.ok_or_else(|| SqlError::internal(format!("view {name} is lost")))?;
    let changed = match change {
        ViewChange::RenameColumn { column, new } => rename_column(context, view, column, new)?,
        ViewChange::Default { column, value } => set_default(context, view, column, value.as_deref())?,
        ViewChange::Set(options) => {
            let check = view_options::check(options)?;
            if check.is_none() {
                return Ok(());
            }
            with_check(context, view, check)?
        }
        ViewChange::Reset(names) if names.iter().any(|name| name == CHECK_OPTION) => {
            with_check(context, view, None)?
        }
        ViewChange::Reset(_) => return Ok(()),
    };
    context.transaction.change_catalog(CatalogChange::PutView(changed))?;
    Ok(())
}

fn rename_column(
    context: &mut StatementContext<'_>,
    view: ViewDef,
    column: &str,
    new: &Ident,
) -> Result<ViewDef, SqlError> {
    let mut output = columns_of(context, &view)?;
    let place = place_of(&view, &output, column)?;
    let new = fold(new);
    if output.iter().any(|other| other.name == new) {
        let message = format!("column \"{new}\" of relation \"{}\" already exists", view.name.name);
        return Err(SqlError::new(SqlState::DuplicateColumn, message));
    }
    if let Some(user) = view_columns::views_using(context, &view.name, column)?.first() {
        return Err(SqlError::unsupported(format!("renaming column \"{column}\" that view {user} uses"))
            .with_hint("Drop the view and create it again afterwards."));
    }
    output[place].name = new;
    let columns = output.iter().map(|column| column.name.clone()).collect();
    Ok(ViewDef { columns, output: Some(output), ..view })
}

/// Gives a column of the view a default, which an INSERT through the view takes instead of the table's.
fn set_default(
    context: &mut StatementContext<'_>,
    view: ViewDef,
    column: &str,
    value: Option<&Expr>,
) -> Result<ViewDef, SqlError> {
    let mut output = columns_of(context, &view)?;
    let place = place_of(&view, &output, column)?;
    let default = match value {
        None => None,
        Some(value) => {
            let ty = output[place].ty;
            let kept = expressions::with_fixed_instant(context, value.clone(), ty);
            values::validate_default(context, &ColumnDef::new(column, ty), &kept)?;
            if !expressions::named_sequences(&value.to_string())?.is_empty() {
                return Err(SqlError::unsupported("a sequence in the default of a view's column")
                    .with_hint("Let the column of the table have it."));
            }
            Some(kept.to_string())
        }
    };
    output[place].default = default;
    Ok(ViewDef { output: Some(output), ..view })
}

fn with_check(
    context: &StatementContext<'_>,
    view: ViewDef,
    check: Option<CheckOption>,
) -> Result<ViewDef, SqlError> {
    let view = ViewDef { check, ..view };
    if check.is_some() {
        refuse_check(context, &view)?;
    }
    Ok(view)
}

/// The columns that readers of the view see.
fn columns_of(context: &mut StatementContext<'_>, view: &ViewDef) -> Result<Vec<ViewColumn>, SqlError> {
    if let Some(output) = &view.output {
        return Ok(output.clone());
    }
    let schema = values::schema_of(context, &*view_query_of(view)?)?;
    let names = output_names(&schema, &view.columns)?;
    Ok(names.into_iter().zip(schema.fields()).map(|(name, field)| view_column(name, field)).collect())
}

fn place_of(view: &ViewDef, output: &[ViewColumn], column: &str) -> Result<usize, SqlError> {
    output.iter().position(|known| known.name == column).ok_or_else(|| {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", view.name.name);
        SqlError::new(SqlState::UndefinedColumn, message)
    })
}
