// SPDX-License-Identifier: Apache-2.0
//! CREATE SEQUENCE, and the sequences behind identity and serial columns.

use super::default_privileges::access_of_new;
use super::existence::Existing;
use super::lookup;
use super::temporary::{self, Lasting, Said};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use crate::rights::Object;
use coeval_store::{CatalogChange, ColumnDef, NewObjects, QualifiedName, SequenceDef, SequenceType, SpaceId};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, ObjectName, SequenceOptions, UnaryOperator, Value as AstValue,
};

/// CREATE SEQUENCE as the parser gives it.
pub(super) struct CreateSequence<'a> {
    pub(super) name: &'a ObjectName,
    pub(super) temporary: Said,
    pub(super) existing: Existing,
    pub(super) data_type: Option<&'a DataType>,
    pub(super) options: &'a [SequenceOptions],
    pub(super) owned_by: Option<&'a ObjectName>,
}

/// What the options of a sequence say; `None`: not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SequenceSettings {
    pub(super) ty: Option<SequenceType>,
    pub(super) increment: Option<i64>,
    /// `Some(None)`: NO MINVALUE.
    pub(super) min: Option<Option<i64>>,
    /// `Some(None)`: NO MAXVALUE.
    pub(super) max: Option<Option<i64>>,
    pub(super) start: Option<i64>,
    pub(super) cycle: Option<bool>,
}

impl SequenceSettings {
    /// Reads the options as the parser gives them.
    pub(super) fn read(options: &[SequenceOptions]) -> Result<Self, SqlError> {
        let mut settings = Self::default();
        for option in options {
            match option {
                SequenceOptions::IncrementBy(value, _) => settings.increment = Some(number(value)?),
                SequenceOptions::MinValue(value) => settings.min = Some(optional_number(value.as_ref())?),
                SequenceOptions::MaxValue(value) => settings.max = Some(optional_number(value.as_ref())?),
                SequenceOptions::StartWith(value, _) => settings.start = Some(number(value)?),
                // Values are handed out from ranges logged ahead in any case.
                SequenceOptions::Cache(value) => {
                    if number(value)? < 1 {
                        return Err(invalid(format!("CACHE ({value}) must be greater than zero")));
                    }
                }
                // The parser's flag says whether NO was written.
                SequenceOptions::Cycle(no) => settings.cycle = Some(!no),
            }
        }
        Ok(settings)
    }

    /// The same with the type that `AS` says.
    ///
    /// # Errors
    /// 22023 for a type that is no integer.
    pub(super) fn typed(self, data_type: Option<&DataType>) -> Result<Self, SqlError> {
        Ok(Self { ty: data_type.map(sequence_type).transpose()?, ..self })
    }

    /// The definition of a new sequence: what is not said follows from its type and the sign of its step.
    ///
    /// # Errors
    /// 22023 when the settings contradict each other.
    pub(super) fn define(&self, base: SequenceDef) -> Result<SequenceDef, SqlError> {
        let ty = self.ty.unwrap_or(base.ty);
        let (least, greatest) = ty.bounds();
        let increment = self.increment.unwrap_or(base.increment);
        let is_ascending = increment > 0;
        let (min, max) = if is_ascending { (1, greatest) } else { (least, -1) };
        let min = self.min.flatten().unwrap_or(min);
        let max = self.max.flatten().unwrap_or(max);
        let start = if is_ascending { min } else { max };
        self.change(SequenceDef { ty, increment, min, max, start, ..base })
    }

    /// The definition that follows for a sequence that is there: what is not said stays, but bounds that were those of
    /// its type become those of its new one.
    ///
    /// # Errors
    /// 22023 when the settings contradict each other.
    pub(super) fn change(&self, base: SequenceDef) -> Result<SequenceDef, SqlError> {
        let increment = self.increment.unwrap_or(base.increment);
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero"));
        }
        let is_ascending = increment > 0;
        let ty = self.ty.unwrap_or(base.ty);
        let (least, greatest) = ty.bounds();
        let of_type = base.ty.bounds();
        let max = match self.max {
            Some(Some(max)) => max,
            _ if self.ty.is_some() && base.max == of_type.1 => greatest,
            Some(None) if is_ascending => greatest,
            Some(None) => -1,
            None => base.max,
        };
        let min = match self.min {
            Some(Some(min)) => min,
            _ if self.ty.is_some() && base.min == of_type.0 => least,
            Some(None) if is_ascending => 1,
            Some(None) => least,
            None => base.min,
        };
        for (bound, value) in [("MAXVALUE", max), ("MINVALUE", min)] {
            if value < least || value > greatest {
                let ty = ty.column_type();
                let message = format!("{bound} ({value}) is out of range for sequence data type {ty}");
                return Err(invalid(message));
            }
        }
        if min >= max {
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let start = self.start.unwrap_or(base.start);
        if start < min {
            return Err(invalid(format!("START value ({start}) cannot be less than MINVALUE ({min})")));
        }
        if start > max {
            return Err(invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({max})")));
        }
        Ok(SequenceDef { ty, increment, min, max, start, cycle: self.cycle.unwrap_or(base.cycle), ..base })
    }
}

/// The sequence behind a column as a change of its type sees it. One that an older version made says no type: it has that of the column if
/// its bounds end where those of that type do.
pub(super) fn of_column_type(sequence: &SequenceDef, column: &ColumnDef) -> SequenceDef {
    let ty = SequenceType::of_column(column.ty);
    let (least, greatest) = ty.bounds();
    let ends_with_type = sequence.max == greatest || sequence.min == least;
    let is_within = sequence.min >= least && sequence.max <= greatest;
    let is_older = sequence.ty == SequenceType::default() && is_within && ends_with_type;
    SequenceDef { ty: if is_older { ty } else { sequence.ty }, ..sequence.clone() }
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::InvalidParameterValue, message)
}

fn optional_number(expr: Option<&Expr>) -> Result<Option<i64>, SqlError> {
    expr.map(number).transpose()
}

/// An integer literal with an optional sign.
pub(super) fn number(expr: &Expr) -> Result<i64, SqlError> {
    let wrong = || SqlError::syntax(format!("{expr} is not an integer"));
    let literal = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            AstValue::Number(text, _) => Some(text.to_string()),
            _ => None,
        },
        _ => None,
    };
    let text = match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => literal(expr).map(|text| format!("-{text}")),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => literal(expr),
        other => literal(other),
    };
    text.ok_or_else(wrong)?.parse().map_err(|_| wrong())
}

/// The type that `AS` says.
///
/// # Errors
/// 22023 for one that is no integer.
fn sequence_type(data_type: &DataType) -> Result<SequenceType, SqlError> {
    match data_type {
        DataType::BigInt(_) | DataType::Int8(_) => Ok(SequenceType::BigInt),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Ok(SequenceType::Int),
        DataType::SmallInt(_) | DataType::Int2(_) => Ok(SequenceType::SmallInt),
        _ => Err(invalid("sequence type must be smallint, integer, or bigint")),
    }
}

/// A sequence with all settings at their defaults, ascending from 1.
pub(super) fn default_sequence(
    context: &StatementContext<'_>,
    name: QualifiedName,
    ty: SequenceType,
) -> SequenceDef {
    let access = access_of_new(context, NewObjects::Sequences, Some(&name.schema));
    SequenceDef {
        id: context.engine.store().new_sequence_id(),
        name,
        start: 1,
        increment: 1,
        min: 1,
        max: ty.bounds().1,
        cycle: false,
        ty,
        owned_by: None,
        access,
    }
}

/// CREATE SEQUENCE.
///
/// # Errors
/// 42P07 if the name is taken, 22023 for settings that contradict each other, 42P16 for a temporary one in a schema that
/// stays.
pub(super) fn create(
    context: &mut StatementContext<'_>,
    create: &CreateSequence<'_>,
) -> Result<StatementResult, SqlError> {
    let done = StatementResult::plain("CREATE SEQUENCE");
    let lasting = Lasting::of(create.name, create.temporary)?;
    let name = temporary::target(context, create.name, lasting)?;
    if create.existing == Existing::Keep && context.transaction.catalog().resolve(&name).is_some() {
        lookup::note_existing(context, &name.name);
        return Ok(done);
    }
    lookup::require_create(context, &name.schema)?;
    lookup::refuse_taken(context, &name)?;
    let settings = SequenceSettings::read(create.options)?.typed(create.data_type)?;
    let mut sequence = settings.define(default_sequence(context, name, SequenceType::default()))?;
    if let Some(owner) = create.owned_by {
        sequence.owned_by = read_owner(context, &sequence, owner)?;
    }
    context.transaction.change_catalog(CatalogChange::PutSequence(sequence))?;
    Ok(done)
}

/// The column that `OWNED BY` names for a sequence; `None` for `NONE`.
///
/// # Errors
/// `55000` unless table and sequence have one owner and lie in one schema: what becomes of the table becomes of the
/// sequence.
pub(super) fn read_owner(
    context: &StatementContext<'_>,
    sequence: &SequenceDef,
    owner: &ObjectName,
) -> Result<Option<(SpaceId, usize)>, SqlError> {
    if owner.0.len() == 1 && owner.to_string().eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let Some((column, table)) = owner.0.split_last().filter(|(_, table)| !table.is_empty()) else {
        return Err(SqlError::syntax("invalid OWNED BY option")
            .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
    };
    let def = lookup::table(context, &ObjectName(table.to_vec()))?;
    let authority = context.authority();
    let (of_sequence, of_table) =
        (authority.access(Object::Sequence(sequence)), authority.access(Object::Table(&def)));
    let is_new = context.transaction.catalog().sequence(sequence.id).is_none();
    let of_sequence = if is_new { &sequence.access } else { &*of_sequence };
    if of_sequence.owner != of_table.owner {
        return Err(not_alike("have same owner as"));
    }
    if sequence.name.schema != def.name.schema {
        return Err(not_alike("be in same schema as"));
    }
    let column = column.as_ident().map(lookup::fold).unwrap_or_default();
    Ok(Some((def.id, lookup::column(&def, &column)?)))
}

/// `55000` for a sequence that a table cannot own.
pub(super) fn not_alike(what: &str) -> SqlError {
    let message = format!("sequence must {what} table it is linked to");
    SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::{ColumnType, ObjectAccess, SequenceId};

    #[test]
    fn a_sequence_of_an_older_version_has_the_type_of_its_column() {
        let old = SequenceDef {
            id: SequenceId::new(1),
            name: QualifiedName::new("public", "numbers"),
            start: 1,
            increment: 1,
            min: 1,
            max: i32::MAX.into(),
            cycle: false,
            ty: SequenceType::default(),
            owned_by: None,
            access: ObjectAccess::default(),
        };
        let column = ColumnDef::new("id", ColumnType::Int);
        let changed = |sequence: &SequenceDef, ty| {
            let settings = SequenceSettings { ty: Some(ty), ..SequenceSettings::default() };
            settings.change(of_column_type(sequence, &column)).unwrap().max
        };
        assert_eq!(changed(&old, SequenceType::BigInt), i64::MAX);
        assert_eq!(changed(&old, SequenceType::SmallInt), i64::from(i16::MAX));
        assert_eq!(changed(&old, SequenceType::Int), i64::from(i32::MAX));
        let bounded = SequenceDef { max: 100, ..old };
        assert_eq!(changed(&bounded, SequenceType::BigInt), 100);
    }
}
