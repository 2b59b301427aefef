// SPDX-License-Identifier: Apache-2.0
//! COMMENT ON a table, a column, a view, a constraint or an index.

use super::changed_table::put;

use super::{lookup, naming};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::parse::rewind;
use crate::result::StatementResult;
use coeval_store::{CatalogChange, ObjectRef, QualifiedName, SpaceId, TableDef, ViewDef};
use datafusion::sql::sqlparser::ast::{CommentObject, Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use std::collections::BTreeMap;

/// COMMENT ON CONSTRAINT, which the parser does not know.
#[derive(Clone, Debug)]
pub(crate) struct ConstraintComment {
    constraint: Ident,
    table: ObjectName,
    comment: Option<String>,
}

impl ConstraintComment {
    /// The statement at the parser's place, if it is this one; else the parser is where it was.
    ///
    /// # Errors
    /// A syntax error behind the words that only this statement starts with.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let start = parser.index();
        if !parser.parse_keywords(&[Keyword::COMMENT, Keyword::ON, Keyword::CONSTRAINT]) {
            rewind(parser, start);
            return Ok(None);
        }
        let constraint = parser.parse_identifier()?;
        parser.expect_keyword(Keyword::ON)?;
        let table = parser.parse_object_name(false)?;
        parser.expect_keyword(Keyword::IS)?;
        let is_taken_back = parser.parse_keyword(Keyword::NULL);
        let comment = if is_taken_back { None } else { Some(parser.parse_literal_string()?) };
        Ok(Some(Self { constraint, table, comment }))
    }

    /// Says something of the constraint.
    ///
    /// # Errors
    /// 42P01 and 42704 for what is not there, 42501 for what belongs to somebody else.
    pub(super) fn execute(&self, context: &mut StatementContext<'_>) -> Result<StatementResult, SqlError> {
        let mut def = own_table(context, &self.table)?;
        let name = lookup::fold(&self.constraint);
        if !naming::has_constraint(&def, &name) {
            let message = format!("constraint \"{name}\" for table \"{}\" does not exist", def.name.name);
            return Err(SqlError::new(SqlState::UndefinedObject, message));
        }
        set_comment(&mut def.constraint_comments, name, kept(self.comment.as_deref()));
        put(context, def)?;
        Ok(StatementResult::plain("COMMENT"))
    }
}

/// Forgets what was said of an index or a constraint that is dropped.
pub(super) fn forget(def: &mut TableDef, name: &str) {
    def.constraint_comments.remove(name);
    def.index_comments.remove(name);
}

/// Keeps what was said of an index or a constraint that has another name now.
pub(super) fn rename(def: &mut TableDef, old: &str, new: &str) {
    for comments in [&mut def.constraint_comments, &mut def.index_comments] {
        if let Some(comment) = comments.remove(old) {
            comments.insert(new.to_owned(), comment);
        }
    }
}

fn set_comment(comments: &mut BTreeMap<String, String>, name: String, comment: Option<String>) {
    match comment {
        Some(comment) => comments.insert(name, comment),
        None => comments.remove(&name),
    };
}

/// An empty text is as good as none.
fn kept(comment: Option<&str>) -> Option<String> {
    comment.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Says something of an object; nothing or an empty text takes back what was said.
///
/// # Errors
/// 42P01, 42703 and 42809 for what is not there, 42501 for what belongs to somebody else, 0A000 for other objects.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    kind: CommentObject,
    name: &ObjectName,
    comment: Option<&str>,
) -> Result<StatementResult, SqlError> {
    let comment = kept(comment);
    match kind {
        CommentObject::Table => {
            let mut def = own_table(context, name)?;
            def.comment = comment;
            put(context, def)?;
        }
        CommentObject::Column => of_column(context, name, comment)?,
        CommentObject::View => of_view(context, name, comment)?,
        CommentObject::Index => of_index(context, name, comment)?,
        other => return Err(SqlError::unsupported(format!("COMMENT ON {other}"))),
    }
    Ok(StatementResult::plain("COMMENT"))
}

fn of_column(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    comment: Option<String>,
) -> Result<(), SqlError> {
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
    Ok(())
}

fn of_view(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    comment: Option<String>,
) -> Result<(), SqlError> {
    let Some((found, object)) = lookup::resolve(context, name)? else {
        return Err(lookup::unknown_relation(name));
    };
    let Some(view) = context.transaction.catalog().view(&found).cloned() else {
        return Err(lookup::wrong_kind(&found, "view"));
    };
    lookup::require_owner(context, &found, object)?;
    let view = ViewDef { comment, ..ViewDef::clone(&view) };
    context.transaction.change_catalog(CatalogChange::PutView(view))?;
    Ok(())
}

fn of_index(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    comment: Option<String>,
) -> Result<(), SqlError> {
    let found = match lookup::resolve(context, name)? {
        Some((found, ObjectRef::Index(table, _))) => Some((found, table)),
        Some((found, _)) => return Err(lookup::wrong_kind(&found, "index")),
        // The index of a primary key is no relation of its own here.
        None => primary_key_named(context, name)?,
    };
    let Some((found, table)) = found else { return Err(lookup::unknown_relation(name)) };
    let mut def = TableDef::clone(&**context.transaction.table_def(table)?);
    lookup::require_owner(context, &def.name, ObjectRef::Table(def.id))?;
    set_comment(&mut def.index_comments, found.name.clone(), comment);
    put(context, def)?;
    Ok(())
}

fn primary_key_named(
    context: &StatementContext<'_>,
    name: &ObjectName,
) -> Result<Option<(QualifiedName, SpaceId)>, SqlError> {
    let (schema, name) = crate::names::split_name(name)?;
    let is_this = |def: &TableDef| {
        let is_in_path = match &schema {
            Some(schema) => def.name.schema == *schema,
            None => context.settings.name_path().contains(&def.name.schema),
        };
        is_in_path && def.has_declared_primary_key() && def.primary_key_name == name
    };
    let found = lookup::tables(context).into_iter().find(|def| is_this(def));
    Ok(found.map(|def| (QualifiedName::new(&def.name.schema, &name), def.id)))
}

fn own_table(context: &StatementContext<'_>, name: &ObjectName) -> Result<TableDef, SqlError> {
    let def = lookup::table(context, name)?;
    lookup::require_owner(context, &def.name, ObjectRef::Table(def.id))?;
    Ok(TableDef::clone(&def))
}
