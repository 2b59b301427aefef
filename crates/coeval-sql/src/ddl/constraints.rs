// SPDX-License-Identifier: Apache-2.0
//! Constraints as statements declare them, checked and put into a table's definition.
//!
//! Column constraints are turned into table constraints of one column first, so each kind is understood in
//! one place. What rows already there must satisfy is checked by [`super::validate`].

use super::expressions::{self, check_columns};
use super::{lookup, naming};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::parse::fix_in_definition;
use crate::scalar::is_integer;
use coeval_store::{
    CheckDef, ColumnDef, Deferral, ForeignKeyDef, IndexDef, Privilege, ReferentialAction, TableDef,
    Uniqueness, Validity,
};
use datafusion::sql::sqlparser::ast::{
    self, CheckConstraint, ColumnOption, ColumnOptionDef, ConstraintCharacteristics, DeferrableInitial, Expr,
    ForeignKeyConstraint, Ident, IndexColumn, IndexOption, IndexType, NullsDistinctOption,
    PrimaryKeyConstraint, TableConstraint, UniqueConstraint,
};
use std::sync::Arc;

/// The table constraint that a column constraint means; `None` for options that are no constraints of this
/// kind.
pub(super) fn of_column(column: &Ident, option: &ColumnOptionDef) -> Option<TableConstraint> {
    let name = option.name.clone();
    Some(match &option.option {
        ColumnOption::PrimaryKey(key) => {
            let columns = vec![IndexColumn::from(column.clone())];
            TableConstraint::PrimaryKey(PrimaryKeyConstraint { name, columns, ..key.clone() })
        }
        ColumnOption::Unique(key) => {
            let columns = vec![IndexColumn::from(column.clone())];
            TableConstraint::Unique(UniqueConstraint { name, columns, ..key.clone() })
        }
        ColumnOption::ForeignKey(key) => {
            let columns = vec![column.clone()];
            TableConstraint::ForeignKey(ForeignKeyConstraint { name, columns, ..key.clone() })
        }
        ColumnOption::Check(check) => TableConstraint::Check(CheckConstraint { name, ..check.clone() }),
        _ => return None,
    })
}

/// A primary key as declared: its name, if given, and its columns.
pub(super) struct DeclaredKey {
    /// The name given.
    pub(super) name: Option<String>,
    /// The columns, in key order.
    pub(super) columns: Vec<usize>,
}

/// Reads a PRIMARY KEY.
pub(super) fn primary_key(
    columns: &[ColumnDef],
    key: &PrimaryKeyConstraint,
) -> Result<DeclaredKey, SqlError> {
    refuse_characteristics(key.characteristics.as_ref())?;
    refuse_index_options(key.index_type.as_ref(), &key.index_options)?;
    let named = key_columns(columns, &key.columns)?;
    Ok(DeclaredKey { name: key.name.as_ref().map(lookup::fold), columns: named })
}

/// Refuses `USING method` and index options in a constraint.
fn refuse_index_options(method: Option<&IndexType>, options: &[IndexOption]) -> Result<(), SqlError> {
    if method.is_some() || !options.is_empty() {
        return Err(SqlError::unsupported("an index method or option in a constraint"));
    }
    Ok(())
}

/// Refuses keys that are checked later than at the end of the statement, or not at all: plans rely on each key in whatever a statement
/// sees, lookups by key, groups by a primary key, ON CONFLICT and foreign keys among them.
pub(super) fn refuse_characteristics(
    characteristics: Option<&ConstraintCharacteristics>,
) -> Result<(), SqlError> {
    if deferral(characteristics)?.is_deferrable() {
        return Err(SqlError::unsupported("DEFERRABLE unique constraint"));
    }
    Ok(())
}

/// When a constraint that is declared so is checked.
///
/// # Errors
/// 42601 for `NOT DEFERRABLE INITIALLY DEFERRED`, 0A000 for one that is not to be checked at all.
pub(super) fn deferral(characteristics: Option<&ConstraintCharacteristics>) -> Result<Deferral, SqlError> {
    let Some(given) = characteristics else { return Ok(Deferral::Never) };
    if given.enforced == Some(false) {
        return Err(SqlError::unsupported("NOT ENFORCED constraint"));
    }
    match (given.deferrable, given.initially) {
        (Some(false), Some(DeferrableInitial::Deferred)) => {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            Err(SqlError::new(SqlState::SyntaxError, message))
        }
        (_, Some(DeferrableInitial::Deferred)) => Ok(Deferral::Deferred),
        (Some(true), _) => Ok(Deferral::Immediate),
        (_, _) => Ok(Deferral::Never),
    }
}

/// The columns of a key: plain column names, none twice.
pub(super) fn key_columns(columns: &[ColumnDef], key: &[IndexColumn]) -> Result<Vec<usize>, SqlError> {
    let mut found = Vec::with_capacity(key.len());
    for part in key {
        let Expr::Identifier(ident) = crate::stored::index_keys::plain(&part.column.expr) else {
            return Err(SqlError::unsupported(format!("expression {} in a key", part.column.expr)));
        };
        refuse_operator_class(part)?;
        let name = lookup::fold(ident);
        let column = columns.iter().position(|column| column.is_live() && column.name == name);
        let column = column.ok_or_else(|| {
            let message = format!("column \"{name}\" named in key does not exist");
            SqlError::new(SqlState::UndefinedColumn, message)
        })?;
        if found.contains(&column) {
            let message = format!("column \"{name}\" appears twice in unique constraint");
            return Err(SqlError::new(SqlState::DuplicateColumn, message));
        }
        found.push(column);
    }
    Ok(found)
}

/// Refuses an operator class that asks for another order than entries have.
pub(super) fn refuse_operator_class(part: &IndexColumn) -> Result<(), SqlError> {
    match &part.operator_class {
        Some(class) if !is_of_ordered_indexes(class) => {
            Err(SqlError::unsupported(format!("operator class {class}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether an operator class asks for the order that entries have: the default one of a type, or byte by byte, which is
/// how texts are ordered here.
fn is_of_ordered_indexes(class: &ast::ObjectName) -> bool {
    let name = class.0.last().and_then(|part| part.as_ident()).map(lookup::fold).unwrap_or_default();
    let types = [
        "bool",
        "bpchar",
        "bytea",
        "date",
        "float4",
        "float8",
        "int2",
        "int4",
        "int8",
        "interval",
        "name",
        "numeric",
        "pg_lsn",
        "text",
        "time",
        "timestamp",
        "timestamptz",
        "uuid",
        "varchar",
    ];
    let of = name.strip_suffix("_pattern_ops").or_else(|| name.strip_suffix("_ops"));
    of.is_some_and(|of| types.contains(&of))
}

/// Puts a UNIQUE, CHECK or FOREIGN KEY constraint into the definition; rows are not looked at.
///
/// # Errors
/// 42710 for a name that is taken, 42703 for unknown columns, 42830 and 42804 for foreign keys that refer to
/// nothing unique or to other types, 0A000 for what is not supported.
pub(super) fn add(
    context: &StatementContext<'_>,
    def: &mut TableDef,
    constraint: &TableConstraint,
) -> Result<(), SqlError> {
    match constraint {
        TableConstraint::Unique(unique) => add_unique(context, def, unique),
        TableConstraint::Check(check) => add_check(context, def, check),
        TableConstraint::ForeignKey(foreign_key) => add_foreign_key(context, def, foreign_key),
        TableConstraint::PrimaryKey(_) => {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", def.name.name);
            Err(SqlError::new(SqlState::InvalidTableDefinition, message))
        }
        other => Err(SqlError::unsupported(format!("constraint {other}"))),
    }
}

/// The name given, if it is free, else one after PostgreSQL's pattern.
fn name_for(
    def: &TableDef,
    given: Option<&Ident>,
    columns: &[&str],
    label: &str,
    is_taken: impl Fn(&str) -> bool,
) -> Result<String, SqlError> {
    let Some(given) = given.map(lookup::fold) else {
        return Ok(naming::choose(&def.name.name, columns, label, |name| {
            is_taken(name) || naming::has_constraint(def, name)
        }));
    };
    // A key is a relation before it is a constraint.
    if is_taken(&given) {
        return Err(SqlError::new(SqlState::DuplicateTable, format!("relation \"{given}\" already exists")));
    }
    if naming::has_constraint(def, &given) {
        let message = format!("constraint \"{given}\" for relation \"{}\" already exists", def.name.name);
        return Err(SqlError::new(SqlState::DuplicateObject, message));
    }
    Ok(given)
}

fn add_unique(
    context: &StatementContext<'_>,
    def: &mut TableDef,
    unique: &UniqueConstraint,
) -> Result<(), SqlError> {
    refuse_characteristics(unique.characteristics.as_ref())?;
    refuse_index_options(unique.index_type.as_ref(), &unique.index_options)?;
    if unique.nulls_distinct == NullsDistinctOption::NotDistinct {
        return Err(SqlError::unsupported("UNIQUE NULLS NOT DISTINCT"));
    }
    let columns = key_columns(&def.columns, &unique.columns)?;
    let catalog = context.transaction.catalog();
    let name = name_for(def, unique.name.as_ref(), &column_names(def, &columns), "key", |name| {
        naming::is_relation(catalog, &def.name.schema, name)
    })?;
    let id = context.engine.store().new_space_id();
    def.indexes.push(IndexDef {
        id,
        name,
        columns,
        uniqueness: Uniqueness::Constraint,
        declared_order: Vec::new(),
    });
    Ok(())
}

fn column_names<'a>(def: &'a TableDef, columns: &[usize]) -> Vec<&'a str> {
    columns.iter().map(|&column| def.columns[column].name.as_str()).collect()
}

fn add_check(
    context: &StatementContext<'_>,
    def: &mut TableDef,
    check: &CheckConstraint,
) -> Result<(), SqlError> {
    if check.enforced == Some(false) {
        return Err(SqlError::unsupported("NOT ENFORCED constraint"));
    }
    let used = check_columns(def, &check.expr)?;
    // PostgreSQL names a check after its column if it is about one.
    let columns = if let [column] = used.as_slice() { column_names(def, &[*column]) } else { Vec::new() };
    let name = name_for(def, check.name.as_ref(), &columns, "check", |_| false)?;
    // A dump puts parentheses around what is shown without them.
    let mut condition = check.expr.as_ref();
    while let Expr::Nested(inner) = condition {
        condition = inner;
    }
    let mut condition = condition.clone();
    let zone = context.settings.zone();
    fix_in_definition(&mut condition, context.clock, zone);
    super::instants::fix(&mut condition, zone, &[Arc::new(def.clone())]);
    def.checks.push(CheckDef { name, expression: condition.to_string(), validity: Validity::Valid });
    Ok(())
}

fn add_foreign_key(
    context: &StatementContext<'_>,
    def: &mut TableDef,
    declared: &ForeignKeyConstraint,
) -> Result<(), SqlError> {
    let deferral = deferral(declared.characteristics.as_ref())?;
    if let Some(kind) = &declared.match_kind
        && *kind != ast::ConstraintReferenceMatchKind::Simple
    {
        return Err(SqlError::unsupported(kind));
    }
    let other = parent_of(context, def, declared)?;
    let parent = other.as_deref().unwrap_or(def);
    super::temporary::refuse_reference(context, def, parent)?;
    let columns: Vec<usize> = declared
        .columns
        .iter()
        .map(|ident| {
            let name = lookup::fold(ident);
            def.column_index(&name).ok_or_else(|| {
                let message =
                    format!("column \"{name}\" referenced in foreign key constraint does not exist");
                SqlError::new(SqlState::UndefinedColumn, message)
            })
        })
        .collect::<Result<_, _>>()?;
    let parent_columns = parent_columns(parent, &declared.referred_columns)?;
    if other.is_some() {
        context.rights().require_on(parent, Privilege::References, &parent_columns)?;
    }
    let (columns, parent_columns) = align(parent, &columns, &parent_columns)?;
    refuse_generated(def, &columns, declared)?;
    let name = name_for(def, declared.name.as_ref(), &column_names(def, &columns), "fkey", |_| false)?;
    refuse_other_types(def, parent, &name, &columns, &parent_columns)?;
    let foreign_key = ForeignKeyDef {
        name,
        columns,
        parent: parent.id,
        parent_columns,
        on_delete: action(declared.on_delete.as_ref()),
        on_update: action(declared.on_update.as_ref()),
        deferral,
        validity: Validity::Valid,
    };
    def.foreign_keys.push(foreign_key);
    Ok(())
}

/// Refuses actions that would write a generated column.
fn refuse_generated(
    def: &TableDef,
    columns: &[usize],
    declared: &ForeignKeyConstraint,
) -> Result<(), SqlError> {
    if columns.iter().all(|&column| def.columns[column].generated.is_none()) {
        return Ok(());
    }
    let sets = |action| matches!(action, ReferentialAction::SetNull | ReferentialAction::SetDefault);
    let (delete, update) = (action(declared.on_delete.as_ref()), action(declared.on_update.as_ref()));
    let event = if sets(delete) {
        "DELETE"
    } else if sets(update) || update == ReferentialAction::Cascade {
        "UPDATE"
    } else {
        return Ok(());
    };
    Err(SqlError::syntax(format!(
        "invalid ON {event} action for foreign key constraint containing generated column"
    )))
}

/// The parent's definition; `None` if the table refers to itself.
fn parent_of(
    context: &StatementContext<'_>,
    def: &TableDef,
    declared: &ForeignKeyConstraint,
) -> Result<Option<Arc<TableDef>>, SqlError> {
    // A table that is being created is not in the catalog yet.
    let (schema, name) = lookup::split_name(&declared.foreign_table)?;
    if name == def.name.name && schema.as_ref().is_none_or(|schema| *schema == def.name.schema) {
        return Ok(None);
    }
    let parent = lookup::table(context, &declared.foreign_table)?;
    Ok(if parent.id == def.id { None } else { Some(parent) })
}

fn parent_columns(parent: &TableDef, named: &[Ident]) -> Result<Vec<usize>, SqlError> {
    if named.is_empty() {
        if parent.has_declared_primary_key() {
            return Ok(parent.primary_key.clone());
        }
        let message = format!("there is no primary key for referenced table \"{}\"", parent.name.name);
        return Err(SqlError::new(SqlState::UndefinedObject, message));
    }
    let find = |ident: &Ident| {
        let name = lookup::fold(ident);
        parent.column_index(&name).ok_or_else(|| {
            let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
            SqlError::new(SqlState::UndefinedColumn, message)
        })
    };
    named.iter().map(find).collect()
}

/// Child and parent columns in the order of the unique key that the parent's columns are.
fn align(
    parent: &TableDef,
    columns: &[usize],
    parent_columns: &[usize],
) -> Result<(Vec<usize>, Vec<usize>), SqlError> {
    if columns.len() != parent_columns.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(SqlError::new(SqlState::InvalidForeignKey, message));
    }
    if parent_columns.iter().enumerate().any(|(at, column)| parent_columns[..at].contains(column)) {
        let message = "foreign key referenced-columns list must not contain duplicates";
        return Err(SqlError::new(SqlState::InvalidForeignKey, message));
    }
    let unique = parent.indexes.iter().filter(|index| index.uniqueness.is_unique());
    let keys = std::iter::once(&parent.primary_key).chain(unique.map(|index| &index.columns));
    let same = |key: &&Vec<usize>| {
        key.len() == parent_columns.len() && key.iter().all(|column| parent_columns.contains(column))
    };
    let key = keys.into_iter().find(same).ok_or_else(|| {
        let message = format!(
            "there is no unique constraint matching given keys for referenced table \"{}\"",
            parent.name.name
        );
        SqlError::new(SqlState::InvalidForeignKey, message)
    })?;
    let place = |column: &usize| parent_columns.iter().position(|named| named == column);
    let ordered = key.iter().filter_map(place).map(|place| columns[place]).collect();
    Ok((ordered, key.clone()))
}

/// Keys of parent and child are compared as bytes, so both sides must be kept alike.
fn refuse_other_types(
    def: &TableDef,
    parent: &TableDef,
    name: &str,
    columns: &[usize],
    parent_columns: &[usize],
) -> Result<(), SqlError> {
    for (&column, &parent_column) in columns.iter().zip(parent_columns) {
        let (child, parent) = (&def.columns[column], &parent.columns[parent_column]);
        // The store looks an integer up in the width of the other side.
        let integers = is_integer(child.ty) && is_integer(parent.ty);
        if !integers && !expressions::same_key_bytes(child.ty, parent.ty) {
            let detail = format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                child.name, parent.name, child.ty, parent.ty
            );
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            return Err(SqlError::new(SqlState::DatatypeMismatch, message).with_detail(detail));
        }
    }
    Ok(())
}

/// What a clause asks for.
fn action(declared: Option<&ast::ReferentialAction>) -> ReferentialAction {
    match declared {
        None | Some(ast::ReferentialAction::NoAction) => ReferentialAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ReferentialAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferentialAction::SetDefault,
    }
}
