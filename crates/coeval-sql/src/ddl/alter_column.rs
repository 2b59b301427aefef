// SPDX-License-Identifier: Apache-2.0
//! ALTER TABLE ALTER COLUMN.

use super::changed_table::put;
use super::columns::{Place, owned_sequence};
use super::sequence::{SequenceSettings, not_alike, of_column_type};
use super::{expressions, generated_columns, lookup, rewrite, validate, view_columns};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names;
use crate::sequences;
use crate::types::{CastContext, has_cast, second_digits};
use crate::user_types::{declared_domain, declared_type};
use crate::values;
use coeval_store::{
    CatalogChange, ColumnDef, ColumnType, Identity, QualifiedName, SECOND_DIGITS_MAX, SequenceType, SpaceId,
    TableDef,
};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, DataType, Expr, GeneratedAs, ObjectName, SequenceOptions,
};

/// Alters the column; returns the table's number, which is new if its rows were written anew.
///
/// # Errors
/// 42703 if it is not there, 23502 for SET NOT NULL over a NULL, 42P16 for DROP NOT NULL in the primary key,
/// 42601 for a default of an identity column.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    name: &str,
    operation: &AlterColumnOperation,
) -> Result<SpaceId, SqlError> {
    let index = lookup::column(def, name)?;
    let mut changed = def.clone();
    let column = &mut changed.columns[index];
    let relation = &def.name.name;
    let identity =
        || SqlError::syntax(format!("column \"{name}\" of relation \"{relation}\" is an identity column"));
    match operation {
        AlterColumnOperation::SetNotNull => {
            validate::not_null(context, def, index)?;
            column.not_null = true;
        }
        AlterColumnOperation::DropNotNull if def.primary_key.contains(&index) => {
            let message = format!("column \"{name}\" is in a primary key");
            return Err(SqlError::new(SqlState::InvalidTableDefinition, message));
        }
        AlterColumnOperation::DropNotNull if column.identity.is_some() => return Err(identity()),
        AlterColumnOperation::DropNotNull => column.not_null = false,
        AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
            if column.identity.is_some() =>
        {
            return Err(identity());
        }
        AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
            if column.generated.is_some() =>
        {
            let message = format!("column \"{name}\" of relation \"{relation}\" is a generated column");
            return Err(SqlError::syntax(message));
        }
        AlterColumnOperation::SetDefault { value } => {
            let bound = expressions::with_bound_sequences(context, value)?;
            let kept = expressions::with_fixed_instant(context, bound, column.ty);
            values::validate_default(context, column, &kept)?;
            column.default = Some(kept.to_string());
            column.sequence = None;
        }
        AlterColumnOperation::DropDefault => {
            column.default = None;
            column.sequence = None;
        }
        AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
            let kind = match generated_as {
                Some(GeneratedAs::ByDefault) => Identity::ByDefault,
                Some(GeneratedAs::Always) | None => Identity::Always,
                Some(GeneratedAs::ExpStored) => return Err(SqlError::unsupported("generated column")),
            };
            return add_identity(
                context,
                def,
                &Added {
                    column: name,
                    identity: kind,
                    sequence: None,
                    options: sequence_options.as_deref().unwrap_or_default(),
                },
            );
        }
        AlterColumnOperation::SetDataType { data_type, using, .. } => {
            if let Some(generated) = generated_columns::using(def, name)?.first() {
                let message = "cannot alter type of a column used by a generated column";
                return Err(SqlError::new(SqlState::FeatureNotSupported, message)
                    .with_detail(format!("Column \"{name}\" is used by generated column \"{generated}\".")));
            }
            return set_type(context, def, index, data_type, using.as_ref());
        }
    }
    put(context, changed)
}

/// What ADD GENERATED ... AS IDENTITY says.
pub(super) struct Added<'a> {
    pub(super) column: &'a str,
    pub(super) identity: Identity,
    /// The name of the sequence; `None`: one that is free is chosen.
    pub(super) sequence: Option<&'a ObjectName>,
    pub(super) options: &'a [SequenceOptions],
}

/// Makes a column an identity column; returns the table's number.
///
/// # Errors
/// 42703 if it is not there, 55000 if it has a default or may be NULL, 22023 for a type that is no integer; as [`named_sequence`].
pub(super) fn add_identity(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    added: &Added<'_>,
) -> Result<SpaceId, SqlError> {
    let index = lookup::column(def, added.column)?;
    let mut changed = def.clone();
    let column = &mut changed.columns[index];
    let (name, relation) = (added.column, &def.name.name);
    if column.identity.is_some() || column.default.is_some() || column.sequence.is_some() {
        let message = format!("column \"{name}\" of relation \"{relation}\" already has a default value");
        return Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message));
    }
    if !column.not_null {
        let message = format!(
            "column \"{name}\" of relation \"{relation}\" must be declared NOT NULL before identity can be added"
        );
        return Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message));
    }
    if !matches!(column.ty, ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt) {
        let message = "identity column type must be smallint, integer, or bigint";
        return Err(SqlError::new(SqlState::InvalidParameterValue, message));
    }
    let place = Place { table: def.id, name: &def.name, index };
    let mut sequence = owned_sequence(context, &place, column, added.options)?;
    if let Some(wanted) = added.sequence {
        sequence.name = named_sequence(context, def, wanted)?;
    }
    column.identity = Some(added.identity);
    column.sequence = Some(sequence.id);
    context.transaction.change_catalog(CatalogChange::PutSequence(sequence))?;
    put(context, changed)
}

/// The name that is wanted for the sequence of a table's column: without a schema it is in the table's, wherever the search path begins.
///
/// # Errors
/// 55000 for one in another schema, 42501 if the session may make nothing there, 42P07 if it is taken.
fn named_sequence(
    context: &StatementContext<'_>,
    def: &TableDef,
    wanted: &ObjectName,
) -> Result<QualifiedName, SqlError> {
    let schema = &def.name.schema;
    let name = match lookup::split_name(wanted)? {
        (None, name) => {
            names::refuse_own_name(&name)?;
            QualifiedName::new(schema, name)
        }
        (Some(_), _) => lookup::target(context, wanted)?,
    };
    if name.schema != *schema {
        return Err(not_alike("be in same schema as"));
    }
    lookup::require_create(context, schema)?;
    lookup::refuse_taken(context, &name)?;
    Ok(name)
}

/// Changes a column's type: in the definition alone if every value stays as it is, else by writing the rows
/// anew.
fn set_type(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    index: usize,
    data_type: &DataType,
    using: Option<&Expr>,
) -> Result<SpaceId, SqlError> {
    let ty = declared_type(data_type, context.settings, context.transaction)?;
    let column = &def.columns[index];
    if column.generated.is_some() {
        require_generated(column, ty, using)?;
    }
    if let Some(view) = view_columns::views_using(context, &def.name, &column.name)?.first() {
        return Err(SqlError::new(
            SqlState::FeatureNotSupported,
            "cannot alter type of a column used by a view or rule",
        )
        .with_detail(format!("View {view} depends on column \"{}\".", column.name)));
    }
    let domain = declared_domain(data_type, context.settings, context.transaction);
    let digits = domain.as_deref().map_or_else(|| second_digits(data_type), |domain| domain.second_digits);
    let loses_digits =
        digits.unwrap_or(SECOND_DIGITS_MAX) < column.second_digits.unwrap_or(SECOND_DIGITS_MAX);
    if using.is_none() && is_wider_text(column.ty, ty) && !loses_digits && column.domain == domain {
        let mut changed = def.clone();
        changed.columns[index].ty = ty;
        changed.columns[index].second_digits = digits;
        return put(context, changed);
    }
    if let Some(expr) = using {
        expressions::check_columns(def, expr)?;
    }
    retype_sequence(context, column, ty)?;
    let using = using.map(ToString::to_string);
    let change = rewrite::Change::Type { column: index, ty, second_digits: digits, domain, using };
    rewrite::execute(context, def, &change)
}

/// Gives the sequence behind an identity column the column's new type; that of a serial column keeps its own.
///
/// # Errors
/// 22023 if bounds that were given to it are none of the type.
fn retype_sequence(
    context: &mut StatementContext<'_>,
    column: &ColumnDef,
    ty: ColumnType,
) -> Result<(), SqlError> {
    let Some(sequence) = column.sequence.filter(|_| column.identity.is_some()) else { return Ok(()) };
    let sequence = sequences::by_id(context, sequence)?;
    let settings = SequenceSettings { ty: Some(SequenceType::of_column(ty)), ..SequenceSettings::default() };
    let changed = settings.change(of_column_type(&sequence, column))?;
    context.transaction.change_catalog(CatalogChange::PutSequence(changed))?;
    Ok(())
}

/// Refuses a type that the values of a generated column do not become by themselves, and USING: they are made by the column's own
/// expression.
///
/// # Errors
/// `42611`, `42804`.
fn require_generated(column: &ColumnDef, ty: ColumnType, using: Option<&Expr>) -> Result<(), SqlError> {
    if using.is_some() {
        let message = "cannot specify USING when altering type of generated column";
        return Err(SqlError::new(SqlState::InvalidColumnDefinition, message)
            .with_detail(format!("Column \"{}\" is a generated column.", column.name)));
    }
    if has_cast(column.ty, ty, CastContext::Assignment) {
        return Ok(());
    }
    let message = format!("column \"{}\" cannot be cast automatically to type {ty}", column.name);
    Err(SqlError::new(SqlState::DatatypeMismatch, message))
}

/// Whether every value of the first type is one of the second, kept alike.
fn is_wider_text(from: ColumnType, to: ColumnType) -> bool {
    match (from, to) {
        (ColumnType::Varchar(from), ColumnType::Varchar(to)) => from <= to,
        (ColumnType::Varchar(_), ColumnType::Text) => true,
        (ColumnType::Varbit(Some(from)), ColumnType::Varbit(Some(to))) => from <= to,
        (ColumnType::Bit(_) | ColumnType::Varbit(_), ColumnType::Varbit(None)) => true,
        (from, to) => from == to,
    }
}
