// SPDX-License-Identifier: Apache-2.0
//! Types that users have made, looked up by the names that statements give them.
//!
//! A statement's casts are resolved once, before it is planned: the name of an enum type becomes one that says which
//! version of it is meant, by the definitions of the statement's own snapshot. So everything behind works without a
//! catalog. Text that is kept (defaults, checks, views) keeps the names as they were written.
//!
//! A cast to a domain becomes one to the type below, with what the domain asks of the value ([`domains`]).

mod domains;

pub(crate) use domains::{base_type, with_value};

use crate::error::SqlError;
use crate::names::split_name;
use crate::settings::Settings;
use crate::types::{column_type, resolved_enum, type_number};
use crate::walk::WalkMut;
use coeval_store::{
    Catalog, ColumnDef, ColumnType, DomainDef, ElementType, EnumType, QualifiedName, TableDef, Transaction,
    TypeDef,
};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, ObjectName, Statement, TableFactor, VisitMut, VisitorMut,
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

/// The domain that a declaration names.
pub(crate) fn declared_domain(
    ty: &DataType,
    settings: &Settings,
    transaction: &Transaction,
) -> Option<Box<DomainDef>> {
    match ty {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            find(name, settings, transaction).ok().flatten()?.domain.clone()
        }
        _ => None,
    }
}

/// The statement with its casts to types that users have made resolved. Costs a look at the catalog if users have made no types.
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

/// Resolves the casts of any syntax; whether there were any to types that users have made.
pub(crate) fn resolve<V: VisitMut>(syntax: &mut V, settings: &Settings, transaction: &Transaction) -> bool {
    transaction.catalog().user_types().next().is_some()
        && resolve_with(syntax, |name| by_name(name, settings, transaction))
}

/// Resolves the casts of an expression that a table's definition keeps: to types of the table's own columns.
pub(crate) fn resolve_for_table<V: VisitMut>(syntax: &mut V, table: &TableDef) {
    let own = |name: &ObjectName| {
        let (schema, name) = split_name(name).ok()?;
        let is_meant = |known: &QualifiedName| {
            known.name == name && schema.as_ref().is_none_or(|schema| *schema == known.schema)
        };
        let mut domains = table.columns.iter().filter_map(|column| column.domain.as_ref());
        if let Some(domain) = domains.find(|domain| is_meant(&domain.name)) {
            return Some(UserType::Domain(domain.clone()));
        }
        let mut types = table.columns.iter().filter_map(|column| column.ty.user_type());
        types.find(|ty| is_meant(&ty.def().name)).map(UserType::Enum)
    };
    let has_types = |column: &ColumnDef| column.ty.user_type().is_some() || column.domain.is_some();
    if table.columns.iter().any(has_types) {
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
    let types = catalog.user_types().filter(|def| def.domain.is_none()).map(|def| def.ty);
    let mut types = types.flat_map(|ty| [ColumnType::Enum(ty), ColumnType::Array(ElementType::Enum(ty))]);
    types.find(|ty| type_number(*ty).unsigned_abs() == number)
}

/// A type that users have made.
enum UserType {
    Enum(EnumType),
    Domain(Box<DomainDef>),
}

fn by_name(name: &ObjectName, settings: &Settings, transaction: &Transaction) -> Option<UserType> {
    let def = find(name, settings, transaction).ok().flatten()?;
    Some(match &def.domain {
        Some(domain) => UserType::Domain(domain.clone()),
        None => UserType::Enum(def.ty),
    })
}

/// What makes a type of a name.
type Find<'f> = dyn FnMut(&ObjectName) -> Option<UserType> + 'f;

fn resolve_with<V: VisitMut>(syntax: &mut V, mut find: impl FnMut(&ObjectName) -> Option<UserType>) -> bool {
    let mut casts = Casts { find: &mut find, found: false };
    // The visitor never breaks off.
    let _ = syntax.walk_mut(&mut casts);
    casts.found
}

/// Puts the resolved name in the place of a type's; whether it was one.
fn resolve_in(ty: &mut DataType, find: &mut Find<'_>) -> bool {
    match ty {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => match find(name) {
            Some(UserType::Enum(found)) => {
                *ty = resolved_enum(found);
                true
            }
            Some(UserType::Domain(domain)) => {
                *ty = base_type(&domain);
                true
            }
            None => false,
        },
        // Nothing looks at the elements of an array, so arrays of domains are unknown.
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => domain_of(element, find).is_none() && resolve_in(element, find),
        _ => false,
    }
}

/// The domain that a cast names.
fn domain_of(ty: &DataType, find: &mut Find<'_>) -> Option<Box<DomainDef>> {
    match ty {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => match find(name) {
            Some(UserType::Domain(domain)) => Some(domain),
            Some(UserType::Enum(_)) | None => None,
        },
        _ => None,
    }
}

struct Casts<'f> {
    find: &'f mut Find<'f>,
    found: bool,
}

impl VisitorMut for Casts<'_> {
    type Break = ();

    /// The columns that an alias declares, as of `json_to_record`.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let (TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::Table { alias: Some(alias), .. }) = factor
        else {
            return ControlFlow::Continue(());
        };
        for ty in alias.columns.iter_mut().filter_map(|column| column.data_type.as_mut()) {
            // A domain looks at values, and its type does not.
            if domain_of(ty, self.find).is_none() {
                self.found |= resolve_in(ty, self.find);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let ty = match expression {
            Expr::Cast { data_type, .. } => data_type,
            Expr::TypedString(typed) => &mut typed.data_type,
            _ => return ControlFlow::Continue(()),
        };
        let domain = domain_of(ty, self.find);
        self.found |= resolve_in(ty, self.find);
        if let Some(domain) = domain {
            *expression = domains::checked(expression, &domain);
        }
        ControlFlow::Continue(())
    }
}
