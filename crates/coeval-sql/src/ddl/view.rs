// SPDX-License-Identifier: Apache-2.0
//! CREATE VIEW.

use super::default_privileges::access_of_new;
use super::temporary::{self, Lasting};
use super::{lookup, view_options};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::parse::fix_in_definition;
use crate::result::StatementResult;
use crate::rights::Object;
use crate::stored::updatable::Updatable;
use crate::stored::view_query::quoted;
use crate::stored::{view_query, view_query_of};
use crate::temporary::is_temporary;
use crate::types::view_column;
use crate::values;
use crate::walk::any_select;
use arrow::datatypes::Schema;
use coeval_store::{
    CatalogChange, CheckOption, NewObjects, ObjectRef, QualifiedName, TableDef, ViewColumn, ViewDef,
};
use datafusion::sql::sqlparser::ast::{CreateTableOptions, CreateView, Query, SelectItem};
use std::collections::BTreeSet;
use std::sync::Arc;

/// CREATE [OR REPLACE] VIEW: the query is planned once, so that what is kept is known to mean something.
///
/// # Errors
/// 42P07 if the name is taken, 42701 for columns of one name, 42P16 if a replaced view would lose or rename
/// columns, and whatever is wrong with the query.
pub(super) fn create(
    context: &mut StatementContext<'_>,
    create: &CreateView,
) -> Result<StatementResult, SqlError> {
    refuse_unsupported(create)?;
    let check = check_option(&create.options)?;
    context.open = context.open.for_a_definition();
    let mut body = Query::clone(&create.query);
    qualify(context, &mut body);
    let relations = view_query::relations(&body);
    let reads_temporary = relations.iter().any(|(schema, _)| schema.as_deref().is_some_and(is_temporary));
    let lasting = Lasting::of(&create.name, (create.temporary || reads_temporary).into())?;
    let tables: Vec<_> =
        relations.iter().filter_map(|(schema, name)| table_of(context, schema.as_deref(), name)).collect();
    fix_in_definition(&mut body, context.clock, context.settings.zone());
    super::instants::fix(&mut body, context.settings.zone(), &tables);
    let name = temporary::target(context, &create.name, lasting)?;
    if lasting == Lasting::Session && !create.temporary {
        let message = format!("view \"{}\" will be a temporary view", name.name);
        context.notice(SqlState::SuccessfulCompletion, message);
    }
    lookup::require_create(context, &name.schema)?;
    let old = existing(context, &name, create)?;
    if matches!(old, Existing::Keep) {
        lookup::note_existing(context, &name.name);
        return Ok(StatementResult::plain("CREATE VIEW"));
    }
    if relations.contains(&(Some(name.schema.clone()), name.name.clone())) {
        let message = format!("infinite recursion detected in rules for relation \"{}\"", name.name);
        return Err(SqlError::new(SqlState::InvalidObjectDefinition, message));
    }
    let schema = values::schema_of_definition(context, &body)?;
    let columns: Vec<String> = create.columns.iter().map(|column| lookup::fold(&column.name)).collect();
    let names = output_names(&schema, &columns)?;
    let (access, comment, before) = match old {
        Existing::Replace(old) => {
            context.rights().require_owner(Object::View(&old))?;
            refuse_other_columns(context, &old, &names, &schema)?;
            let ViewDef { access, comment, output, .. } = Arc::unwrap_or_clone(old);
            (access, comment, output.unwrap_or_default())
        }
        Existing::Nothing | Existing::Keep => {
            (access_of_new(context, NewObjects::Tables, Some(&name.schema)), None, Vec::new())
        }
    };
    let own: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let query = if has_wildcard(&body) { fix_columns(&body, &own) } else { body.to_string() };
    let output = names.into_iter().zip(schema.fields()).map(|(name, field)| view_column(name, field));
    let mut output: Vec<ViewColumn> = output.collect();
    for (column, before) in output.iter_mut().zip(before) {
        column.default = before.default;
    }
    let output = Some(output);
    let view = ViewDef { name, columns, query, access, comment, output, check };
    if check.is_some() {
        refuse_check(context, &view)?;
    }
    context.transaction.change_catalog(CatalogChange::PutView(view))?;
    Ok(StatementResult::plain("CREATE VIEW"))
}

/// What is checked of rows that are written through the view: the option that `WITH CHECK OPTION` stands for.
///
/// # Errors
/// As [`view_options::check`].
fn check_option(options: &CreateTableOptions) -> Result<Option<CheckOption>, SqlError> {
    match options {
        CreateTableOptions::None => Ok(None),
        CreateTableOptions::With(options) => view_options::check(options),
        other => Err(SqlError::unsupported(format!("option {other} of a view"))),
    }
}

/// Refuses a check of a view through which nothing is written.
///
/// # Errors
/// `0A000`.
pub(super) fn refuse_check(context: &StatementContext<'_>, view: &ViewDef) -> Result<(), SqlError> {
    let found = Updatable::of_view(&Arc::new(view.clone()), context.transaction);
    found.and_then(|updatable| updatable.require_columns()).map_err(|why| {
        let message = "WITH CHECK OPTION is supported only on automatically updatable views";
        SqlError::new(SqlState::FeatureNotSupported, message).with_hint(why.reason)
    })
}

/// The table that the view reads under this name.
fn table_of(context: &StatementContext<'_>, schema: Option<&str>, name: &str) -> Option<Arc<TableDef>> {
    match lookup::find(context, schema, name)?.1 {
        ObjectRef::Table(id) => context.transaction.table_def(id).ok().map(Arc::clone),
        _ => None,
    }
}

/// What is there under the view's name.
enum Existing {
    Nothing,
    Keep,
    Replace(Arc<ViewDef>),
}

fn existing(
    context: &StatementContext<'_>,
    name: &QualifiedName,
    create: &CreateView,
) -> Result<Existing, SqlError> {
    let catalog = context.transaction.catalog();
    match catalog.resolve(name) {
        None => {
            lookup::refuse_type_name(context, name)?;
            Ok(Existing::Nothing)
        }
        Some(ObjectRef::View) if create.or_replace => {
            let old = catalog.view(name).map(Arc::clone);
            Ok(old.map_or(Existing::Nothing, Existing::Replace))
        }
        Some(_) if create.or_replace => Err(lookup::wrong_kind(name, "view")),
        Some(ObjectRef::View) if create.if_not_exists => Ok(Existing::Keep),
        Some(_) => {
            lookup::refuse_taken(context, name)?;
            Ok(Existing::Nothing)
        }
    }
}

fn refuse_unsupported(create: &CreateView) -> Result<(), SqlError> {
    let named = [
        ("materialized view", create.materialized),
        ("option of a view", create.params.is_some()),
        ("SECURE view", create.secure),
        (
            "this clause of CREATE VIEW",
            create.or_alter
                || !create.cluster_by.is_empty()
                || create.comment.is_some()
                || create.with_no_schema_binding
                || create.copy_grants
                || create.to.is_some(),
        ),
        (
            "type or option of a view's column",
            create.columns.iter().any(|column| column.data_type.is_some() || column.options.is_some()),
        ),
    ];
    match named.iter().find(|(_, given)| *given) {
        Some((clause, _)) => Err(SqlError::unsupported(clause)),
        None => Ok(()),
    }
}

/// Writes the schema to every table and view of the query that is found along the search path.
fn qualify(context: &StatementContext<'_>, body: &mut Query) {
    view_query::rename_relations(body, |schema, name| {
        lookup::find(context, schema, name).map(|(found, _)| found)
    });
}

/// The names of the view's columns: those given, then the query's own.
///
/// # Errors
/// `42601` for more names than columns, `42701` for two columns of one name.
pub(super) fn output_names(schema: &Schema, given: &[String]) -> Result<Vec<String>, SqlError> {
    if given.len() > schema.fields().len() {
        return Err(SqlError::syntax("CREATE VIEW specifies more column names than columns"));
    }
    let own = schema.fields().iter().skip(given.len()).map(|field| field.name().clone());
    let names: Vec<String> = given.iter().cloned().chain(own).collect();
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => {
            let message = format!("column \"{name}\" specified more than once");
            Err(SqlError::new(SqlState::DuplicateColumn, message))
        }
        None => Ok(names),
    }
}

/// A replaced view keeps its columns, in name, type and order; new ones come behind.
fn refuse_other_columns(
    context: &mut StatementContext<'_>,
    old: &ViewDef,
    names: &[String],
    schema: &Schema,
) -> Result<(), SqlError> {
    let invalid = |message: String| Err(SqlError::new(SqlState::InvalidTableDefinition, message));
    let old_schema = values::schema_of(context, &*view_query_of(old)?)?;
    let old_names = output_names(&old_schema, &old.columns)?;
    if old_names.len() > names.len() {
        return invalid("cannot drop columns from view".to_owned());
    }
    for (place, (old_name, name)) in old_names.iter().zip(names).enumerate() {
        if old_name != name {
            return invalid(format!("cannot change name of view column \"{old_name}\" to \"{name}\""));
        }
        if old_schema.field(place).data_type() != schema.field(place).data_type() {
            return invalid(format!("cannot change data type of view column \"{old_name}\""));
        }
    }
    Ok(())
}

fn has_wildcard(body: &Query) -> bool {
    let is_wildcard =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    any_select(body, |select| select.projection.iter().any(is_wildcard))
}

/// The query with the columns it has today spelled out, so that a column added to a table later does not
/// show up in the view.
fn fix_columns(body: &Query, names: &[&str]) -> String {
    let columns: Vec<String> = names.iter().map(|name| quoted(name).to_string()).collect();
    format!("SELECT {} FROM ({body}) AS \"view\"", columns.join(", "))
}
