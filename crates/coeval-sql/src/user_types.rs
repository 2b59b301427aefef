// SPDX-License-Identifier: Apache-2.0
//! Types that users have made, looked up by the names that statements give them.
//!
//! A statement's casts are resolved once, before it is planned: the name of an enum type becomes one that says which
//! version of it is meant, by the definitions of the statement's own snapshot. So everything behind works without a
//! catalog. Text that is kept (defaults, checks, views) keeps the names as they were written.

use crate::error::SqlError;
use crate::names::split_name;
use crate::settings::Settings;
use crate::types::{column_type, resolved_enum, type_number};
use crate::walk::WalkMut;
use coeval_store::{
    Catalog, ColumnType, ElementType, EnumType, QualifiedName, TableDef, Transaction, TypeDef,
};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, ObjectName, Statement, VisitMut, VisitorMut,
};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The type of this name, by the search path if no schema is given.
///
/// # Errors
/// `0A000` for a name of another database.
pub(crate) fn find(
    name: &ObjectName,
    settings: &Settings,
    transaction: &Transaction,
) -> Result<Option<Arc<TypeDef>>, SqlError> {
    let (schema, name) = split_name(name)?;
    let found =
        |schema: &str| transaction.catalog().user_type(&QualifiedName::new(schema, &name)).map(Arc::clone);
    Ok(match schema {
        Some(schema) => found(settings.temporary().meant(&schema)),
        None => settings.name_path().iter().find_map(|schema| found(schema)),
    })
}

/// The column type that a declaration names, with the types that users have made.
///
/// # Errors
/// As [`column_type`].
pub(crate) fn declared_type(
    ty: &DataType,
    settings: &Settings,
    transaction: &Transaction,
) -> Result<ColumnType, SqlError> {
    let mut resolved = ty.clone();
    resolve_in(&mut resolved, &mut |name| by_name(name, settings, transaction));
    column_type(&resolved)
}

/// The statement with its casts to enum types resolved. Costs a look at the catalog if users have made no types.
pub(crate) fn resolved<'s>(
    statement: &'s Statement,
    settings: &Settings,
    transaction: &Transaction,
) -> Cow<'s, Statement> {
    if transaction.catalog().user_types().next().is_none() {
        return Cow::Borrowed(statement);
    }
    let mut changed = statement.clone();
    if resolve(&mut changed, settings, transaction) { Cow::Owned(changed) } else { Cow::Borrowed(statement) }
}

/// Resolves the casts of any syntax; whether there were any to enum types.
pub(crate) fn resolve<V: VisitMut>(syntax: &mut V, settings: &Settings, transaction: &Transaction) -> bool {
    transaction.catalog().user_types().next().is_some()
        && resolve_with(syntax, |name| by_name(name, settings, transaction))
}

/// Resolves the casts of an expression that a table's definition keeps: to types of the table's own columns.
pub(crate) fn resolve_for_table<V: VisitMut>(syntax: &mut V, table: &TableDef) {
    let own = |name: &ObjectName| {
        let (schema, name) = split_name(name).ok()?;
        let mut types = table.columns.iter().filter_map(|column| column.ty.user_type());
        types.find(|ty| {
            let known = &ty.def().name;
            known.name == name && schema.as_ref().is_none_or(|schema| *schema == known.schema)
        })
    };
    if table.columns.iter().any(|column| column.ty.user_type().is_some()) {
        resolve_with(syntax, own);
    }
}

/// The type as these definitions have it, if users have made it.
pub(crate) fn current(ty: ColumnType, catalog: &Catalog) -> ColumnType {
    let newest = |old: EnumType| catalog.user_type_numbered(old.def().id).map_or(old, |def| def.ty);
    match ty {
        ColumnType::Enum(old) => ColumnType::Enum(newest(old)),
        ColumnType::Array(ElementType::Enum(old)) => ColumnType::Array(ElementType::Enum(newest(old))),
        other => other,
    }
}

/// The type with this number in `pg_type`.
pub(crate) fn numbered(number: u32, catalog: &Catalog) -> Option<ColumnType> {
    let types = catalog.user_types().map(|def| def.ty);
    let mut types = types.flat_map(|ty| [ColumnType::Enum(ty), ColumnType::Array(ElementType::Enum(ty))]);
    types.find(|ty| type_number(*ty).unsigned_abs() == number)
}

fn by_name(name: &ObjectName, settings: &Settings, transaction: &Transaction) -> Option<EnumType> {
    find(name, settings, transaction).ok().flatten().map(|def| def.ty)
}

/// What makes an enum type of a name.
type Find<'f> = dyn FnMut(&ObjectName) -> Option<EnumType> + 'f;

fn resolve_with<V: VisitMut>(syntax: &mut V, mut find: impl FnMut(&ObjectName) -> Option<EnumType>) -> bool {
    let mut casts = Casts { find: &mut find, found: false };
    // The visitor never breaks off.
    let _ = syntax.walk_mut(&mut casts);
    casts.found
}

/// Puts the resolved name in the place of a type's; whether it was one.
fn resolve_in(ty: &mut DataType, find: &mut Find<'_>) -> bool {
    match ty {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => match find(name) {
            Some(found) => {
                *ty = resolved_enum(found);
                true
            }
            None => false,
        },
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => resolve_in(element, find),
        _ => false,
    }
}

struct Casts<'f> {
    find: &'f mut Find<'f>,
    found: bool,
}

impl VisitorMut for Casts<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let ty = match expression {
            Expr::Cast { data_type, .. } => data_type,
            Expr::TypedString(typed) => &mut typed.data_type,
            _ => return ControlFlow::Continue(()),
        };
        self.found |= resolve_in(ty, self.find);
        ControlFlow::Continue(())
    }
}
