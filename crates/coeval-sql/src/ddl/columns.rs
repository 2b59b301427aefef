// SPDX-License-Identifier: Apache-2.0
//! Column definitions of CREATE TABLE and ALTER TABLE ADD COLUMN.

use super::sequence::{self, SequenceSettings};
use super::{constraints, expressions, lookup, naming};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::query::refuse_collation;
use crate::stored::ROW_ID_COLUMN;
use crate::types::{is_text, second_digits};
use crate::user_types::{declared_domain, declared_type};
use coeval_store::{
    ColumnDef, ColumnState, ColumnType, DomainDef, Identity, QualifiedName, SequenceDef, SequenceType,
    SpaceId,
};
use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, DataType, Expr, GeneratedAs, GeneratedExpressionMode, Ident, ObjectName,
    ObjectNamePart, SequenceOptions, TableConstraint,
};

/// One column as declared.
pub(super) struct DeclaredColumn {
    /// Its definition.
    pub(super) column: ColumnDef,
    /// The sequence that feeds it, not in the catalog yet.
    pub(super) sequence: Option<SequenceDef>,
    /// The constraints written beside it, as table constraints.
    pub(super) constraints: Vec<TableConstraint>,
}

/// Where a new column goes.
pub(super) struct Place<'a> {
    /// Its table's number.
    pub(super) table: SpaceId,
    /// Its table's name.
    pub(super) name: &'a QualifiedName,
    /// Its index in the table.
    pub(super) index: usize,
}

/// Columns that a table has at most, as in PostgreSQL. Those that were dropped count: they still have a place in its rows.
const COLUMNS_MAX: usize = 1600;

/// Refuses one column more than so many.
///
/// # Errors
/// 54011.
pub(super) fn refuse_too_many(columns: usize) -> Result<(), SqlError> {
    if columns < COLUMNS_MAX {
        return Ok(());
    }
    Err(SqlError::new(SqlState::TooManyColumns, format!("tables can have at most {COLUMNS_MAX} columns")))
}

/// Reads one column definition.
///
/// # Errors
/// 0A000 for types and clauses that are not supported, 42611 and 42601 for clauses that contradict each other.
pub(super) fn declare(
    context: &StatementContext<'_>,
    place: &Place<'_>,
    declared: &ast::ColumnDef,
) -> Result<DeclaredColumn, SqlError> {
    let name = lookup::fold(&declared.name);
    let serial = serial_type(&declared.data_type);
    let ty = match serial {
        Some(ty) => ty,
        None => declared_type(&declared.data_type, context.settings, context.transaction)?,
    };
    let domain = declared_domain(&declared.data_type, context.settings, context.transaction);
    let of_domain = |domain: &DomainDef| domain.second_digits;
    let digits = domain.as_deref().map_or_else(|| second_digits(&declared.data_type), of_domain);
    let mut reader = OptionReader {
        context,
        place,
        declared: DeclaredColumn {
            column: ColumnDef { second_digits: digits, domain, ..ColumnDef::new(name, ty) },
            sequence: None,
            constraints: Vec::new(),
        },
        null: Null::Unsaid,
    };
    if serial.is_some() {
        reader.declared.column.not_null = true;
        reader.feed(&[])?;
    }
    for option in &declared.options {
        if let Some(constraint) = constraints::of_column(&declared.name, option) {
            reader.declared.constraints.push(constraint);
        } else {
            reader.option(&declared.name, &option.option)?;
        }
    }
    let column = &mut reader.declared.column;
    let is_filled = column.identity.is_some() || column.sequence.is_some() || column.generated.is_some();
    if column.default.is_none() && !is_filled {
        column.default = column.domain.as_ref().and_then(|domain| domain.default.clone());
    }
    Ok(reader.declared)
}

/// What was said about NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Null {
    Unsaid,
    Allowed,
    Refused,
}

struct OptionReader<'a, 'c> {
    context: &'a StatementContext<'c>,
    place: &'a Place<'a>,
    declared: DeclaredColumn,
    null: Null,
}

impl OptionReader<'_, '_> {
    fn option(&mut self, ident: &Ident, option: &ColumnOption) -> Result<(), SqlError> {
        match option {
            ColumnOption::Null => self.say_null(Null::Allowed),
            ColumnOption::NotNull => self.say_null(Null::Refused),
            ColumnOption::Default(expr) => self.default(expr),
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                let identity = match generated_as {
                    GeneratedAs::Always => Identity::Always,
                    GeneratedAs::ByDefault => Identity::ByDefault,
                    GeneratedAs::ExpStored => return Err(SqlError::unsupported("generated column")),
                };
                self.identity(identity, sequence_options.as_deref().unwrap_or_default())
            }
            ColumnOption::Generated {
                generation_expr: Some(expr),
                generation_expr_mode: Some(GeneratedExpressionMode::Stored),
                ..
            } => self.generated(expr),
            ColumnOption::Generated { .. } => Err(SqlError::unsupported("a virtual generated column")
                .with_hint("Say GENERATED ALWAYS AS (expression) STORED.")),
            ColumnOption::Collation(name) => self.collation(name),
            other => {
                Err(SqlError::unsupported(format!("column option {other} of column \"{}\"", ident.value)))
            }
        }
    }

    /// Text compares by bytes, whatever is said.
    fn collation(&self, name: &ObjectName) -> Result<(), SqlError> {
        let ty = self.declared.column.ty;
        if !is_text(ty) {
            let message = format!("collations are not supported by type {ty}");
            return Err(SqlError::new(SqlState::DatatypeMismatch, message));
        }
        refuse_collation(name)
    }

    fn generated(&mut self, expr: &Expr) -> Result<(), SqlError> {
        let column = &mut self.declared.column;
        let other = if column.identity.is_some() {
            "identity"
        } else if column.default.is_some() || column.sequence.is_some() {
            "default"
        } else if column.generated.is_some() {
            return Err(SqlError::syntax(format!(
                "multiple generation clauses specified for column \"{}\" of table \"{}\"",
                column.name, self.place.name.name
            )));
        } else {
            column.generated = Some(expr.to_string());
            return Ok(());
        };
        Err(both(other, "generation expression", &column.name, &self.place.name.name))
    }

    fn say_null(&mut self, said: Null) -> Result<(), SqlError> {
        let serial = self.declared.sequence.is_some();
        if (self.null != Null::Unsaid && self.null != said) || (serial && said == Null::Allowed) {
            let message = format!(
                "conflicting NULL/NOT NULL declarations for column \"{}\" of table \"{}\"",
                self.declared.column.name, self.place.name.name
            );
            return Err(SqlError::syntax(message));
        }
        self.null = said;
        self.declared.column.not_null |= said == Null::Refused;
        Ok(())
    }

    fn default(&mut self, expr: &Expr) -> Result<(), SqlError> {
        let column = &mut self.declared.column;
        let table = &self.place.name.name;
        if column.generated.is_some() {
            return Err(both("default", "generation expression", &column.name, table));
        }
        if column.identity.is_some() {
            let message = format!(
                "both default and identity specified for column \"{}\" of table \"{table}\"",
                column.name
            );
            return Err(SqlError::syntax(message));
        }
        if column.default.is_some() || column.sequence.is_some() {
            let message = format!(
                "multiple default values specified for column \"{}\" of table \"{table}\"",
                column.name
            );
            return Err(SqlError::syntax(message));
        }
        expressions::refuse_in_default(expr)?;
        let expr = without_own_cast(self.context, expr, column.ty);
        let bound = expressions::with_bound_sequences(self.context, expr)?;
        column.default = Some(expressions::with_fixed_instant(self.context, bound, column.ty).to_string());
        Ok(())
    }

    fn identity(&mut self, identity: Identity, options: &[SequenceOptions]) -> Result<(), SqlError> {
        let column = &self.declared.column;
        let table = &self.place.name.name;
        if column.identity.is_some() {
            let message = format!(
                "multiple identity specifications for column \"{}\" of table \"{table}\"",
                column.name
            );
            return Err(SqlError::syntax(message));
        }
        if column.default.is_some() || column.sequence.is_some() {
            let message = format!(
                "both default and identity specified for column \"{}\" of table \"{table}\"",
                column.name
            );
            return Err(SqlError::syntax(message));
        }
        if !matches!(column.ty, ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::InvalidParameterValue, message));
        }
        self.say_null(Null::Refused)?;
        self.declared.column.identity = Some(identity);
        self.feed(options)
    }

    /// Makes the sequence that feeds the column.
    fn feed(&mut self, options: &[SequenceOptions]) -> Result<(), SqlError> {
        let sequence = owned_sequence(self.context, self.place, &self.declared.column, options)?;
        self.declared.column.sequence = Some(sequence.id);
        self.declared.sequence = Some(sequence);
        Ok(())
    }
}

/// The label of an enum's default without the cast to the column's own type, which then can be renamed.
fn without_own_cast<'e>(context: &StatementContext<'_>, expr: &'e Expr, ty: ColumnType) -> &'e Expr {
    match expr {
        Expr::Cast { expr: label, data_type, .. }
            if matches!(ty, ColumnType::Enum(_))
                && matches!(label.as_ref(), Expr::Value(_))
                && declared_type(data_type, context.settings, context.transaction)
                    .is_ok_and(|to| to == ty) =>
        {
            label
        }
        other => other,
    }
}

/// `42601` for two ways to fill a column.
fn both(one: &str, other: &str, column: &str, table: &str) -> SqlError {
    SqlError::syntax(format!("both {one} and {other} specified for column \"{column}\" of table \"{table}\""))
}

/// The sequence of an identity or serial column: `table_column_seq`, owned by the column.
pub(super) fn owned_sequence(
    context: &StatementContext<'_>,
    place: &Place<'_>,
    column: &ColumnDef,
    options: &[SequenceOptions],
) -> Result<SequenceDef, SqlError> {
    let catalog = context.transaction.catalog();
    let schema = &place.name.schema;
    let is_taken = |name: &str| naming::is_relation(catalog, schema, name);
    let name = naming::choose(&place.name.name, &[&column.name], "seq", is_taken);
    let ty = SequenceType::of_column(column.ty);
    let base = sequence::default_sequence(context, QualifiedName::new(schema, name), ty);
    let mut sequence = SequenceSettings::read(options)?.define(base)?;
    sequence.owned_by = Some((place.table, place.index));
    Ok(sequence)
}

/// The hidden row id at this place, with its sequence.
pub(super) fn row_id(
    context: &StatementContext<'_>,
    place: &Place<'_>,
) -> Result<(ColumnDef, SequenceDef), SqlError> {
    let mut column = ColumnDef::new(ROW_ID_COLUMN, ColumnType::BigInt).not_null();
    let mut sequence = owned_sequence(context, place, &column, &[])?;
    // Users do not know of it, so nobody is granted anything on it.
    sequence.access = lookup::own_access(context);
    column.state = ColumnState::Hidden;
    column.sequence = Some(sequence.id);
    Ok((column, sequence))
}

/// The column type behind `serial` and its like.
fn serial_type(data_type: &DataType) -> Option<ColumnType> {
    let DataType::Custom(name, modifiers) = data_type else { return None };
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return None };
    if !modifiers.is_empty() {
        return None;
    }
    match lookup::fold(ident).as_str() {
        "smallserial" | "serial2" => Some(ColumnType::SmallInt),
        "serial" | "serial4" => Some(ColumnType::Int),
        "bigserial" | "serial8" => Some(ColumnType::BigInt),
        _ => None,
    }
}
