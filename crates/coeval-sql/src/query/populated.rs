// SPDX-License-Identifier: Apache-2.0
//! `json_populate_recordset(NULL::t, documents)` and its like in FROM: documents as rows of a table.
//!
//! Only the catalog knows the columns, so they are written out here: `json_to_recordset(documents) AS t(a int, b text)`, which needs
//! no catalog. A row to begin from that is not NULL is not known here.

use super::scopes::{FindRelation, FoundRelation};
use crate::names::fold;
use crate::types::resolved_enum;
use crate::walk::WalkMut;
use coeval_store::{ColumnDef, ColumnType, ElementType, TableDef};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, Query,
    TableAlias, TableAliasColumnDef, TableFactor, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// Writes out the columns of the tables whose rows are made of documents; whether there are any.
pub(super) fn written_out(query: &mut Query, find: FindRelation<'_>) -> bool {
    let mut populated = Populated { find, has_any: false };
    // Nothing breaks off the visit.
    let _ = query.walk_mut(&mut populated);
    populated.has_any
}

struct Populated<'f> {
    find: FindRelation<'f>,
    has_any: bool,
}

impl VisitorMut for Populated<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Function { name, args, alias, .. } => self.write_out(name, args, alias),
            TableFactor::Table { name, args: Some(arguments), alias, .. } => {
                self.write_out(name, &mut arguments.args, alias);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Populated<'_> {
    fn write_out(
        &mut self,
        name: &mut ObjectName,
        arguments: &mut Vec<FunctionArg>,
        alias: &mut Option<TableAlias>,
    ) {
        let (Some((own, function)), [FunctionArg::Unnamed(FunctionArgExpr::Expr(base)), _]) =
            (function_behind(name), arguments.as_slice())
        else {
            return;
        };
        let Some(table) = table_behind(base).and_then(|table| (self.find)(table)) else { return };
        let FoundRelation::Table(table) = table else { return };
        let mut named = alias.clone().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::new(own),
            columns: Vec::new(),
            at: None,
        });
        // Names of columns behind the alias would be other ones than those of the members.
        let (Some(columns), true) = (columns_of(&table), named.columns.is_empty()) else { return };
        named.columns = columns;
        *alias = Some(named);
        arguments.remove(0);
        *name = ObjectName::from(vec![Ident::new(function)]);
        self.has_any = true;
    }
}

/// What such a function is called, and the one that takes columns in the place of a row.
fn function_behind(name: &ObjectName) -> Option<(&'static str, &'static str)> {
    const FUNCTIONS: [(&str, &str); 4] = [
        ("json_populate_record", "json_to_record"),
        ("json_populate_recordset", "json_to_recordset"),
        ("jsonb_populate_record", "jsonb_to_record"),
        ("jsonb_populate_recordset", "jsonb_to_recordset"),
    ];
    let [ObjectNamePart::Identifier(only)] = name.0.as_slice() else { return None };
    let name = fold(only);
    FUNCTIONS.into_iter().find(|(own, _)| *own == name)
}

/// The table of which an expression is NULL as a row.
fn table_behind(base: &Expr) -> Option<&ObjectName> {
    match base {
        Expr::Nested(inner) => table_behind(inner),
        Expr::Cast { expr, data_type: DataType::Custom(name, modifiers), .. } if modifiers.is_empty() => {
            let is_null = matches!(expr.as_ref(), Expr::Value(value) if value.value == Value::Null);
            is_null.then_some(name)
        }
        _ => None,
    }
}

/// The columns of a table with their types.
fn columns_of(table: &TableDef) -> Option<Vec<TableAliasColumnDef>> {
    let column = |column: &ColumnDef| {
        let data_type = Some(written_type(column.ty)?);
        Some(TableAliasColumnDef { name: Ident::with_quote('"', &column.name), data_type })
    };
    table.live_columns().map(|(_, own)| column(own)).collect()
}

/// A type as columns are declared with it. Enums are looked up before this, so they are named as those that have been.
fn written_type(ty: ColumnType) -> Option<DataType> {
    match ty {
        ColumnType::Enum(ty) => Some(resolved_enum(ty)),
        ColumnType::Array(ElementType::Enum(ty)) => {
            Some(DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(resolved_enum(ty)), None)))
        }
        ty => {
            let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&ty.to_string()).ok()?;
            parser.parse_data_type().ok()
        }
    }
}
