// SPDX-License-Identifier: Apache-2.0
//! `coeval_table_changes('accounts', token)` in FROM: what transactions have changed in one table, as that table's own columns:
//! `old_id`, `new_id` and so on.
//!
//! Only the catalog knows the columns. So the call becomes a subquery here, in PostgreSQL's words, which casts each of them from
//! the text that `coeval_table_changes_as_json` gives of it. Each type can be written as a text and read back without a loss. Of
//! values that were JSON themselves, an array could not be read back, nor the document `null` be told from NULL.

use super::dialect::CHANGE_HEAD;
use super::scopes::{FindRelation, FoundRelation};
use crate::changes::member_of;
use crate::error::{SqlError, SqlState};
use crate::names::{fold, unknown_table, wrong_kind};
use crate::quoting::parts;
use crate::temporary::is_temporary;
use crate::walk::WalkMut;
use coeval_store::{ColumnType, ElementType, EnumType, QualifiedName, TableDef};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, Query, Statement,
    TableAlias, TableFactor, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;
use std::sync::Arc;

const NAME: &str = "coeval_table_changes";

/// Writes out the columns of the tables whose changes are asked for; whether there are any. They are cast to types by name, so the
/// types that users have made are to be resolved behind it.
///
/// # Errors
/// `42P01` if there is no such table, `42809` for a view, `42883` for other arguments, `0A000` for a name that is no constant and for
/// tables whose changes are not in the log.
pub(super) fn written_out(query: &mut Query, find: FindRelation<'_>) -> Result<bool, SqlError> {
    let mut changes = TableChanges { find, has_any: false };
    query.try_walk_mut(&mut changes)?;
    Ok(changes.has_any)
}

struct TableChanges<'f> {
    find: FindRelation<'f>,
    has_any: bool,
}

impl VisitorMut for TableChanges<'_> {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match self.subquery(factor) {
            Ok(Some(subquery)) => {
                *factor = subquery;
                self.has_any = true;
            }
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

impl TableChanges<'_> {
    /// What stands in the place of a call; `None` if something else is in FROM there.
    fn subquery(&self, factor: &TableFactor) -> Result<Option<TableFactor>, SqlError> {
        let (name, arguments, alias, is_numbered) = match factor {
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name, args.as_slice(), alias, *with_ordinality)
            }
            TableFactor::Table { name, args: Some(arguments), alias, with_ordinality, .. } => {
                (name, arguments.args.as_slice(), alias, *with_ordinality)
            }
            _ => return Ok(None),
        };
        if !is_it(name) {
            return Ok(None);
        }
        if is_numbered {
            return Err(SqlError::unsupported(format_args!("WITH ORDINALITY of {NAME}")));
        }
        let Some((table, tokens)) = table_and_tokens(arguments) else {
            let message = format!("{NAME} takes the name of a table and one or two tokens");
            return Err(SqlError::new(SqlState::UndefinedFunction, message));
        };
        let query = query_of(&*self.table(table)?, &tokens)?;
        let alias = alias.clone().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::new(NAME),
            columns: Vec::new(),
            at: None,
        });
        let subquery = Box::new(query);
        Ok(Some(TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }))
    }

    /// The table whose name is the value of an argument.
    fn table(&self, argument: &Expr) -> Result<Arc<TableDef>, SqlError> {
        let Some(text) = constant_text(argument) else {
            return Err(SqlError::unsupported(format_args!(
                "{NAME} of a table whose name is no constant text"
            )));
        };
        let own = parts(text).ok_or_else(|| unknown_table(text))?;
        let idents: Vec<Ident> = own.iter().map(|part| Ident::with_quote('"', part)).collect();
        let table = match (self.find)(&ObjectName::from(idents)) {
            Some(FoundRelation::Table(table)) => table,
            Some(FoundRelation::Columns(_)) => {
                return Err(wrong_kind(&QualifiedName::new("", text), "table"));
            }
            None => return Err(unknown_table(text)),
        };
        let unfed = if is_temporary(&table.name.schema) {
            "a temporary table"
        } else if table.foreign.is_some() {
            "a table of another engine"
        } else if table.is_spread() {
            "a table that is spread over a cluster"
        } else {
            return Ok(table);
        };
        Err(SqlError::unsupported(format_args!("{NAME} of {unfed}")))
    }
}

fn is_it(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(only)] if fold(only) == NAME)
}

/// The argument that names the table, and the others as they are written.
fn table_and_tokens(arguments: &[FunctionArg]) -> Option<(&Expr, Vec<String>)> {
    let expressions: Option<Vec<&Expr>> = arguments
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression),
            _ => None,
        })
        .collect();
    let expressions = expressions?;
    let (table, tokens) = expressions.split_first()?;
    let tokens: Vec<String> = tokens.iter().map(ToString::to_string).collect();
    matches!(tokens.len(), 1 | 2).then_some((*table, tokens))
}

/// The text that an expression is, also one with its type: `'accounts'::regclass`.
fn constant_text(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Nested(inner) => constant_text(inner),
        Expr::Cast { expr, data_type: DataType::Regclass | DataType::Text, .. } => constant_text(expr),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.as_str()),
            _ => None,
        },
        _ => None,
    }
}

/// The changes of a table, of an array with an object for each of them.
fn query_of(table: &TableDef, tokens: &[String]) -> Result<Query, SqlError> {
    let images = [("before", "old"), ("after", "new")];
    let columns: Vec<String> = images
        .into_iter()
        .flat_map(|(image, prefix)| {
            table.live_columns().map(move |(index, column)| {
                let (member, ty) = (member_of(index), type_name(column.ty));
                let shown = quoted(&format!("{prefix}_{}", column.name));
                format!(", (c -> '{image}' ->> '{member}')::{ty} AS {shown}")
            })
        })
        .collect();
    let literal = |name: &str| format!("'{}'", name.replace('\'', "''"));
    let sql = format!(
        "SELECT {CHANGE_HEAD}, c ->> 'operation' AS operation{} \
         FROM (SELECT unnest(coeval_table_changes_as_json({}, {}, {}))::json AS c) AS changes",
        columns.concat(),
        literal(&table.name.schema),
        literal(&table.name.name),
        tokens.join(", ")
    );
    let unreadable = |what: String| SqlError::unsupported(format_args!("{NAME} of {}: {what};", table.name));
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &sql);
    match parsed.map_err(|error| unreadable(error.to_string()))?.into_iter().next() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(unreadable("no query".to_owned())),
    }
}

/// The type as a cast names it, whatever the search path is.
fn type_name(ty: ColumnType) -> String {
    let own = |ty: EnumType| {
        let name = &ty.def().name;
        format!("{}.{}", quoted(&name.schema), quoted(&name.name))
    };
    match ty {
        ColumnType::Enum(ty) => own(ty),
        ColumnType::Array(ElementType::Enum(ty)) => format!("{}[]", own(ty)),
        other => other.to_string(),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
