// SPDX-License-Identifier: Apache-2.0
//! CREATE TYPE ... AS ENUM, ALTER TYPE and DROP TYPE.
//!
//! A column's type is one version of its enum, so a changed type gives every table that uses it a new definition. What is
//! stored does not change: see [`EnumDef`].

use super::changed_table::put;
use super::dependents::{Behavior, still_needed};
use super::existence::Missing;
use super::role_syntax::RoleName;
use super::{domains, expressions, lookup, ownership};
use crate::cancel;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::result::StatementResult;
use crate::rights::Object;
use crate::stored::view_query_of;
use crate::user_types::find;
use crate::values;
use crate::walk::any_expression;
use coeval_store::{
    CatalogChange, ColumnDef, ColumnType, DomainDef, ElementType, EnumDef, EnumType, LabelPlace,
    QualifiedName, SpaceId, TableDef, TypeDef, ViewColumn, ViewDef,
};
use datafusion::sql::sqlparser::ast::{
    AlterType, AlterTypeAddValue, AlterTypeAddValuePosition, AlterTypeOperation, ArrayElemTypeDef, DataType,
    Expr, Ident, ObjectName, UserDefinedTypeRepresentation, Value as AstValue,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// PostgreSQL's limit for names, and so for labels.
const LABEL_BYTES_MAX: usize = 63;

/// CREATE TYPE.
///
/// # Errors
/// `42710` if the name is taken, `23505` for a label that is there twice, `42602` for one that is too long, `0A000` for types
/// that are no enums.
pub(super) fn create(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
) -> Result<StatementResult, SqlError> {
    let Some(UserDefinedTypeRepresentation::Enum { labels }) = representation else {
        return Err(SqlError::unsupported("a type that is no enum")
            .with_hint("Say CREATE TYPE name AS ENUM ('label', ...)."));
    };
    let name = lookup::target(context, name)?;
    lookup::require_create(context, &name.schema)?;
    refuse_taken(context, &name)?;
    let mut known = BTreeSet::new();
    for label in labels {
        check_label(&label.value)?;
        if !known.insert(&label.value) {
            let message = format!("enum label \"{}\" is given more than once", label.value);
            return Err(SqlError::new(SqlState::UniqueViolation, message));
        }
    }
    let store = context.engine.store();
    let (id, array_id) = (store.new_space_id(), store.new_space_id());
    let def = EnumDef::new(id, array_id, name, labels.iter().map(|label| label.value.clone()));
    let def = TypeDef { ty: defined(def)?, domain: None, access: lookup::own_access(context) };
    context.transaction.change_catalog(CatalogChange::PutType(def))?;
    Ok(StatementResult::plain("CREATE TYPE"))
}

/// The type with a new definition, which the process keeps until it ends, whatever becomes of the transaction.
///
/// # Errors
/// `53200` if it has kept too many.
pub(super) fn defined(def: EnumDef) -> Result<EnumType, SqlError> {
    EnumType::defined(def).ok_or_else(|| {
        SqlError::new(SqlState::OutOfMemory, "out of memory for definitions of enum types")
            .with_detail(
                "Each definition of an enum type takes memory until the database's process ends, also one that was rolled \
                 back or that another has replaced.",
            )
            .with_hint("Start the process again: it begins with the types that there are.")
    })
}

/// ALTER TYPE.
///
/// # Errors
/// `42704` if there is no such type, `42501` for others than its owner; `42710` for a name or label that is there, `22023` for
/// a label that is not; `0A000` if a definition's text would have to change with it; `54000` if no label fits in between.
pub(super) fn alter(
    context: &mut StatementContext<'_>,
    alter: &AlterType,
) -> Result<StatementResult, SqlError> {
    let old = owned(context, &alter.name)?.ok_or_else(|| unknown(&alter.name))?;
    let def = old.ty.def();
    match &alter.operation {
        AlterTypeOperation::Rename(rename) => {
            let name = QualifiedName::new(&def.name.schema, fold(&rename.new_name));
            move_to(context, &old, name)?;
        }
        AlterTypeOperation::AddValue(_) | AlterTypeOperation::RenameValue(_) if old.domain.is_some() => {
            let message = format!("{} is not an enum", def.name);
            return Err(SqlError::new(SqlState::WrongObjectType, message));
        }
        AlterTypeOperation::AddValue(add) => add_label(context, &old, add)?,
        AlterTypeOperation::RenameValue(rename) => {
            let (from, to) = (&rename.from.value, &rename.to.value);
            check_label(to)?;
            let place = label_index(def, from)?;
            if def.place_of(to).is_some() {
                return Err(label_exists(to));
            }
            let mut changed = def.clone();
            changed.labels[place].name.clone_from(to);
            refuse_in_text(context, &old, &|expr| is_text(expr, from))?;
            let renamed = change(context, &old, changed)?;
            rename_in_defaults(context, renamed, from, to)?;
        }
    }
    Ok(StatementResult::plain("ALTER TYPE"))
}

/// ALTER TYPE ... OWNER TO.
///
/// # Errors
/// `42704` if there is no such type or role, `42501` for others than its owner, and if the session could not act as the new
/// one.
pub(super) fn set_owner(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    owner: &RoleName,
) -> Result<(), SqlError> {
    let def = owned(context, name)?.ok_or_else(|| unknown(name))?;
    ownership::of_type(context, &def, owner)
}

/// ALTER TYPE ... SET SCHEMA.
///
/// # Errors
/// As [`alter`] for a new name; `3F000` for an unknown schema, `42501` for one where the session may make nothing.
pub(super) fn set_schema(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    schema: &str,
) -> Result<(), SqlError> {
    let def = owned(context, name)?.ok_or_else(|| unknown(name))?;
    if !context.transaction.catalog().has_schema(schema) {
        return Err(lookup::unknown_schema(schema));
    }
    lookup::require_create(context, schema)?;
    move_to(context, &def, QualifiedName::new(schema, &def.name().name))
}

/// Gives a type another name, unless definitions say the old one in their text.
///
/// # Errors
/// `42710` for a name that is taken, `0A000` if definitions say the old one.
pub(super) fn move_to(
    context: &mut StatementContext<'_>,
    old: &TypeDef,
    name: QualifiedName,
) -> Result<(), SqlError> {
    refuse_taken(context, &name)?;
    let def = old.ty.def();
    refuse_in_text(context, old, &|expr| casts_to(expr, &def.name.name))?;
    match &old.domain {
        Some(domain) => domains::put(context, old, DomainDef { name, ..DomainDef::clone(domain) }),
        None => change(context, old, EnumDef { name, ..def.clone() }).map(|_| ()),
    }
}

/// DROP TYPE.
///
/// # Errors
/// `42704` if there is no such type, `42501` for others than its owner, `2BP01` if something uses it, `0A000` if that is to go
/// with it.
pub(super) fn drop(
    context: &mut StatementContext<'_>,
    names: &[ObjectName],
    missing: Missing,
    behavior: Behavior,
) -> Result<StatementResult, SqlError> {
    for name in names {
        match owned(context, name)? {
            Some(def) => drop_owned(context, &def, behavior)?,
            None if missing == Missing::Skip => lookup::note_missing(context, "type", name),
            None => return Err(unknown(name)),
        }
    }
    Ok(StatementResult::plain("DROP TYPE"))
}

/// Drops a type that the session may drop.
///
/// # Errors
/// As [`drop`].
pub(super) fn drop_owned(
    context: &mut StatementContext<'_>,
    def: &TypeDef,
    behavior: Behavior,
) -> Result<(), SqlError> {
    let users = users_of(context, def)?;
    if !users.is_empty() && behavior == Behavior::Cascade {
        return Err(SqlError::unsupported(format!("DROP TYPE {} CASCADE with what uses it", def.ty))
            .with_detail(users.join("\n"))
            .with_hint("Drop what uses it first, then the type."));
    }
    drop_unused(context, def, &users)
}

fn drop_unused(context: &mut StatementContext<'_>, def: &TypeDef, users: &[String]) -> Result<(), SqlError> {
    if !users.is_empty() {
        return Err(still_needed(&format!("type {}", def.ty), users));
    }
    context.transaction.change_catalog(CatalogChange::RemoveType(def.id()))?;
    Ok(())
}

/// The types of a schema.
pub(super) fn in_schema(context: &StatementContext<'_>, schema: &str) -> Vec<Arc<TypeDef>> {
    let types = context.transaction.catalog().user_types();
    types.filter(|def| def.name().schema == schema).cloned().collect()
}

/// Drops a type of a schema that goes.
///
/// # Errors
/// `2BP01` if something outside of the schema uses it.
pub(super) fn drop_with_schema(context: &mut StatementContext<'_>, def: &TypeDef) -> Result<(), SqlError> {
    let users = users_of(context, def)?;
    drop_unused(context, def, &users)
}

/// The type of this name, which the session may change.
///
/// # Errors
/// `42501` for others than its owner.
pub(super) fn owned(
    context: &StatementContext<'_>,
    name: &ObjectName,
) -> Result<Option<Arc<TypeDef>>, SqlError> {
    let found = find(name, context.settings, context.transaction)?;
    if let Some(def) = &found {
        context.rights().require_owner(Object::Type(def))?;
    }
    Ok(found)
}

/// `42704`.
pub(super) fn unknown(name: &ObjectName) -> SqlError {
    SqlError::new(SqlState::UndefinedObject, format!("type \"{name}\" does not exist"))
}

/// `42710` for a name that a type or a relation has, whose rows are of a type of its name.
///
/// # Errors
/// It.
pub(super) fn refuse_taken(context: &StatementContext<'_>, name: &QualifiedName) -> Result<(), SqlError> {
    let catalog = context.transaction.catalog();
    if catalog.user_type(name).is_none() && catalog.resolve(name).is_none() {
        return Ok(());
    }
    Err(SqlError::new(SqlState::DuplicateObject, format!("type \"{}\" already exists", name.name)))
}

fn check_label(label: &str) -> Result<(), SqlError> {
    if label.len() <= LABEL_BYTES_MAX {
        return Ok(());
    }
    Err(SqlError::new(SqlState::InvalidName, format!("invalid enum label \"{label}\""))
        .with_detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less.")))
}

fn label_exists(label: &str) -> SqlError {
    SqlError::new(SqlState::DuplicateObject, format!("enum label \"{label}\" already exists"))
}

/// The index of a label among the others.
fn label_index(def: &EnumDef, label: &str) -> Result<usize, SqlError> {
    def.labels.iter().position(|known| known.name == label).ok_or_else(|| {
        let message = format!("\"{label}\" is not an existing enum label");
        SqlError::new(SqlState::InvalidParameterValue, message)
    })
}

fn add_label(
    context: &mut StatementContext<'_>,
    old: &TypeDef,
    add: &AlterTypeAddValue,
) -> Result<(), SqlError> {
    let (def, label) = (old.ty.def(), &add.value.value);
    check_label(label)?;
    if def.place_of(label).is_some() {
        if !add.if_not_exists {
            return Err(label_exists(label));
        }
        let message = format!("enum label \"{label}\" already exists, skipping");
        context.notice(SqlState::DuplicateObject, message);
        return Ok(());
    }
    let neighbor = |ident: &Ident| label_index(def, &ident.value);
    let place = match &add.position {
        None => LabelPlace::Last,
        Some(AlterTypeAddValuePosition::Before(ident)) => LabelPlace::Before(neighbor(ident)?),
        Some(AlterTypeAddValuePosition::After(ident)) => LabelPlace::After(neighbor(ident)?),
    };
    let changed = def.with_label(label.clone(), place).ok_or_else(|| {
        let message = format!("no more labels fit at this place of type \"{}\"", def.name.name);
        SqlError::new(SqlState::ProgramLimitExceeded, message)
            .with_detail("Values are kept by the place of their label, and those on both sides are next to each other.")
            .with_hint("Put the label elsewhere, or make a new type and change the columns to it.")
    })?;
    change(context, old, changed)?;
    Ok(())
}

/// Gives a type its new definition, and with it the columns that are of it.
fn change(context: &mut StatementContext<'_>, old: &TypeDef, new: EnumDef) -> Result<EnumType, SqlError> {
    let ty = defined(new)?;
    let access = old.access.clone();
    context.transaction.change_catalog(CatalogChange::PutType(TypeDef { ty, domain: None, access }))?;
    for table in tables_with(context, old.id()) {
        let mut changed = TableDef::clone(&table);
        changed.columns.iter_mut().for_each(|column| follow(&mut column.ty, ty));
        put(context, changed)?;
    }
    let views = context.transaction.catalog().views();
    let uses = |column: &ViewColumn| column.ty.user_type().is_some_and(|used| used.def().id == old.id());
    let views = views.filter(|view| view.output.iter().flatten().any(uses));
    let views: Vec<_> = views.map(|view| ViewDef::clone(view)).collect();
    for mut view in views {
        view.output.iter_mut().flatten().for_each(|column| follow(&mut column.ty, ty));
        context.transaction.change_catalog(CatalogChange::PutView(view))?;
    }
    Ok(ty)
}

/// A column's type becomes the new version of its enum, if it is of that.
fn follow(column: &mut ColumnType, new: EnumType) {
    if column.user_type().is_some_and(|used| used.def().id == new.def().id) {
        *column = match *column {
            ColumnType::Array(_) => ColumnType::Array(ElementType::Enum(new)),
            _ => ColumnType::Enum(new),
        };
    }
}

/// The tables with columns of a type, dropped ones included: they keep their place and their type.
pub(super) fn tables_with(context: &StatementContext<'_>, id: SpaceId) -> Vec<Arc<TableDef>> {
    let is_used = |table: &Arc<TableDef>| table.columns.iter().any(|column| is_of(column, id));
    lookup::tables(context).into_iter().filter(is_used).collect()
}

/// Whether a column is of the type with this number.
fn is_of(column: &ColumnDef, id: SpaceId) -> bool {
    column.ty.user_type().is_some_and(|ty| ty.def().id == id)
        || column.domain.as_ref().is_some_and(|domain| domain.id == id)
}

/// Defaults follow a label's new name.
fn rename_in_defaults(
    context: &mut StatementContext<'_>,
    ty: EnumType,
    from: &str,
    to: &str,
) -> Result<(), SqlError> {
    for table in tables_with(context, ty.def().id) {
        let mut changed = TableDef::clone(&table);
        for column in changed.columns.iter_mut().filter(|column| column.ty.user_type() == Some(ty)) {
            let Some(text) = &column.default else { continue };
            match renamed_default(text, from, to)? {
                Some(renamed) => column.default = Some(renamed),
                None => values::validate_default(context, column, &expressions::parse(text)?)?,
            }
        }
        if changed != *table {
            put(context, changed)?;
        }
    }
    let views = context.transaction.catalog().views();
    let has_default = |column: &ViewColumn| column.default.is_some();
    let views = views.filter(|view| view.output.iter().flatten().any(has_default));
    let views: Vec<_> = views.map(Arc::clone).collect();
    for view in views {
        let mut changed = ViewDef::clone(&view);
        let columns = changed.output.iter_mut().flatten();
        for column in columns.filter(|column| column.ty.user_type() == Some(ty)) {
            let renamed = column.default.as_ref().map(|text| renamed_default(text, from, to)).transpose()?;
            if let Some(renamed) = renamed.flatten() {
                column.default = Some(renamed);
            }
        }
        if changed != *view {
            context.transaction.change_catalog(CatalogChange::PutView(changed))?;
        }
    }
    Ok(())
}

/// A default that is the label, with its new name.
fn renamed_default(default: &str, from: &str, to: &str) -> Result<Option<String>, SqlError> {
    let is_label = is_text(&expressions::parse(default)?, from);
    Ok(is_label.then(|| crate::quoting::literal(to)))
}

/// What uses a type: columns, and text that casts to it.
fn users_of(context: &StatementContext<'_>, def: &TypeDef) -> Result<Vec<String>, SqlError> {
    let mut users = Vec::new();
    for table in lookup::tables(context) {
        for (_, column) in table.live_columns() {
            if is_of(column, def.id()) {
                users.push(format!(
                    "column {} of table {} depends on type {}",
                    column.name, table.name, def.ty
                ));
            }
        }
    }
    let is_cast = |expr: &Expr| casts_to(expr, &def.name().name);
    let texts = texts_with(context, &is_cast)?;
    users.extend(texts.into_iter().map(|text| format!("{text} depends on type {}", def.ty)));
    Ok(users)
}

/// `0A000` if the text of a definition says what would have to change in it.
fn refuse_in_text(
    context: &StatementContext<'_>,
    def: &TypeDef,
    says: &dyn Fn(&Expr) -> bool,
) -> Result<(), SqlError> {
    match texts_with(context, says)?.as_slice() {
        [] => Ok(()),
        texts => Err(SqlError::unsupported(format!("renaming what definitions say of type {}", def.ty))
            .with_detail(format!("The text of {} names it.", texts.join(", ")))
            .with_hint("Drop what names it, rename, and make it again.")),
    }
}

/// The views, and the constraints and expressions of tables, in whose text there is such an expression. Defaults that are
/// but a label are none.
fn texts_with(
    context: &StatementContext<'_>,
    is_wanted: &dyn Fn(&Expr) -> bool,
) -> Result<Vec<String>, SqlError> {
    let mut found = Vec::new();
    for view in context.transaction.catalog().views() {
        cancel::check()?;
        if any_expression(&*view_query_of(view)?, is_wanted) {
            found.push(format!("view {}", view.name));
        }
        for column in view.output.iter().flatten() {
            if computed(column.default.as_deref())?.is_some_and(|expr| any_expression(&expr, is_wanted)) {
                found.push(format!("column {} of view {}", column.name, view.name));
            }
        }
    }
    for table in lookup::tables(context) {
        cancel::check()?;
        for check in &table.checks {
            if any_expression(&expressions::parse(&check.expression)?, is_wanted) {
                found.push(format!("constraint {} on table {}", check.name, table.name));
            }
        }
        for column in &table.columns {
            let default = computed(column.default.as_deref())?;
            let generated = column.generated.as_deref().map(expressions::parse).transpose()?;
            if default.iter().chain(&generated).any(|expr| any_expression(expr, is_wanted)) {
                found.push(format!("column {} of table {}", column.name, table.name));
            }
        }
    }
    Ok(found)
}

/// A default that is more than a label.
fn computed(default: Option<&str>) -> Result<Option<Expr>, SqlError> {
    let default = default.map(expressions::parse).transpose()?;
    Ok(default.filter(|expr| !matches!(expr, Expr::Value(_))))
}

/// Whether an expression is this text.
fn is_text(expr: &Expr, text: &str) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, AstValue::SingleQuotedString(own) if own == text))
}

/// Whether an expression is a cast to a type of this name, or to arrays of it.
fn casts_to(expr: &Expr, name: &str) -> bool {
    fn is_named(ty: &DataType, name: &str) -> bool {
        match ty {
            DataType::Custom(full, _) => {
                full.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| fold(ident) == name)
            }
            DataType::Array(
                ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
            ) => is_named(element, name),
            _ => false,
        }
    }
    match expr {
        Expr::Cast { data_type, .. } => is_named(data_type, name),
        Expr::TypedString(typed) => is_named(&typed.data_type, name),
        _ => false,
    }
}
